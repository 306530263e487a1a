"""Figures of primary-key tables, beside Redis where it is installed."""

import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tests.serving import ServerProcess

from benchmarks import keyed, official, redis
from benchmarks.blocking import BenchTable, BlockingConnection
from benchmarks.redis import Redis
from benchmarks.report import ROUNDS, Report
from benchmarks.rows import NARROW

UPSERT_BATCHES = 20
LOOKUP_BATCHES = 50
SINGLE_LOOKUPS = 200
CODECS = ("ZSTD", "LZ4_FRAME", "NONE")


@dataclass(frozen=True, slots=True)
class Bench:
    """Hold the server that is measured, and the one beside it."""

    report: Report
    server: ServerProcess
    connection: BlockingConnection
    baseline: Redis | None


def bench_keyed(report: Report, server: ServerProcess, directory: Path) -> BenchTable:
    """Upsert and look up on two million keys; return the table for what comes after."""
    connection = BlockingConnection(server.port)
    with redis.running(directory) as baseline:
        if baseline is not None:
            keyed.load_redis(baseline)
        bench = Bench(report, server, connection, baseline)
        tables = [_bench_upserts(bench, codec) for codec in CODECS]
        _bench_lookups(bench, tables[0])
        _bench_official(bench, f"keyed_{CODECS[0]}")
    connection.close()
    return tables[0]


def _bench_upserts(bench: Bench, codec: str) -> BenchTable:
    table = bench.connection.create(
        f"keyed_{codec}", NARROW, buckets=1, compression=codec, primary_key=("k",)
    )
    keyed.upsert(bench.connection, table, keyed.load_batches())
    rows = UPSERT_BATCHES * keyed.ROWS_PER_BATCH
    ours, theirs = [], []
    for number in range(ROUNDS):
        batches = keyed.update_batches(UPSERT_BATCHES, seed=1000 * number)
        work = partial(keyed.upsert, bench.connection, table, batches)
        ours.append(keyed.measured(rows, bench.server.pid, work))
        if bench.baseline is not None:
            work = partial(keyed.upsert_redis, bench.baseline, batches)
            theirs.append(keyed.measured(rows, bench.baseline.pid, work))
    what = f"upsert 10,000 rows with changelog, {codec}"
    _add_rates(bench.report, what, ours, theirs=theirs, target="≥ 0.5 M per core")
    return table


def _bench_lookups(bench: Bench, table: BenchTable) -> None:
    random = np.random.default_rng(7)
    count = LOOKUP_BATCHES * keyed.KEYS_PER_LOOKUP
    ours, theirs, single, redis_single = [], [], [], []
    for _ in range(ROUNDS):
        asked = _random_keys(random, LOOKUP_BATCHES)
        work = partial(_look_all_up, bench.connection, table, asked)
        ours.append(keyed.measured(count, bench.server.pid, work))
        single += keyed.lookups_us(bench.connection, table, asked[0][:SINGLE_LOOKUPS])
        if bench.baseline is not None:
            look = partial(_get_all, bench.baseline, asked)
            theirs.append(keyed.measured(count, bench.baseline.pid, look))
            redis_single += keyed.redis_lookups_us(bench.baseline, asked[0][:SINGLE_LOOKUPS])
    what = "look up 1,000 keys over the wire"
    _add_rates(bench.report, what, ours, theirs=theirs, target="≥ 0.5 M")
    _add_latency(bench.report, single, redis_single)


def _bench_official(bench: Bench, table: str) -> None:
    if not official.is_installed():
        return
    work = partial(official.upsert, bench.server.port, table)
    found = [keyed.measured(official.ROWS, bench.server.pid, work) for _ in range(ROUNDS)]
    rate, _ = _median_rates(found)
    share = statistics.median(each.server_s / each.wall_s for each in found)
    bench.report.add(
        "upsert through pyfluss, row by row",
        f"{rate:.3f} M/s",
        f"server busy {share:.0%} of that time",
        "",
        "bounded by the client",
    )


def bench_state(report: Report, directory: Path, table: BenchTable) -> None:
    """Look keys up without a wire, and recover the rows."""
    asked = _random_keys(np.random.default_rng(9), 10 * LOOKUP_BATCHES)
    found = keyed.run_in_process(directory, table, asked)
    millions = keyed.KEY_COUNT / 1e6
    rate = found.lookups_per_second / 1e6
    report.add("look up 1,000 keys in process", f"{rate:.2f} M/s", "", "", "≥ 1 M")
    report.add("memory of the index per key", f"{found.index_bytes_per_key:.0f} B", "", "")
    report.add(
        "recovery per million keys",
        f"{found.from_snapshot_s / millions:.2f} s from a snapshot",
        f"{found.from_log_s / millions:.2f} s from the log",
        f"{found.from_log_s / found.from_snapshot_s:.1f}",
    )


def _random_keys(random: np.random.Generator, count: int) -> list[list[bytes]]:
    return [
        keyed.encoded_keys(random.choice(keyed.KEY_COUNT, keyed.KEYS_PER_LOOKUP))
        for _ in range(count)
    ]


def _look_all_up(
    connection: BlockingConnection, table: BenchTable, asked: list[list[bytes]]
) -> None:
    assert keyed.look_up(connection, table, asked) == sum(map(len, asked))


def _get_all(baseline: Redis, asked: list[list[bytes]]) -> None:
    for keys in asked:
        baseline.get_many(keys)


def _add_latency(report: Report, single: list[float], redis_single: list[float]) -> None:
    median = statistics.median(single)
    base = statistics.median(redis_single) if redis_single else None
    report.add(
        "look up 1 key over the wire, p50",
        f"{median:.0f} µs",
        f"{base:.0f} µs (Redis)" if base else "no Redis",
        f"{median / base:.2f}" if base else "",
        "< 150 µs",
    )


def _add_rates(
    report: Report,
    what: str,
    ours: list[keyed.Measured],
    *,
    theirs: list[keyed.Measured],
    target: str,
) -> None:
    rate, core = _median_rates(ours)
    if not theirs:
        report.add(what, f"{rate:.2f} M/s, {core:.2f} per core", "no Redis", "", target)
        return
    base, base_core = _median_rates(theirs)
    report.add(
        what,
        f"{rate:.2f} M/s, {core:.2f} per core",
        f"{base:.2f} M/s, {base_core:.2f} per core (Redis)",
        f"{rate / base:.1f}, {core / base_core:.1f} per core",
        target,
    )


def _median_rates(measured: list[keyed.Measured]) -> tuple[float, float]:
    wall = statistics.median(each.per_second for each in measured)
    return wall / 1e6, statistics.median(each.per_core for each in measured) / 1e6
