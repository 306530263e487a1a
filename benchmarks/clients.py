"""Our client beside the official one: the same work on the same server."""

import statistics
import time
from collections.abc import Callable

import pyarrow as pa

import headwater
from benchmarks import official
from benchmarks.report import ROUNDS, Report
from benchmarks.rows import NARROW, narrow_batch

BUCKETS = 4
BATCHES, BATCH_ROWS = 40, 10_000
UPSERT_ROWS = 50_000
LOOKUPS, OFFICIAL_LOOKUPS = 500, 5


def bench_clients(report: Report, port: int) -> None:
    """Append, scan, upsert and look up with both clients in turns."""
    if not official.is_installed():
        report.add("our client and the official one", "", "pyfluss is not installed", "")
        return
    theirs = official.Official(port)
    with headwater.connect(f"127.0.0.1:{port}") as ours:
        _bench_appends(report, ours, theirs)
        _bench_upserts(report, ours, theirs)
    theirs.close()


def _bench_appends(report: Report, ours: headwater.Client, theirs: official.Official) -> None:
    batches = [narrow_batch(BATCH_ROWS, seed=number) for number in range(BATCHES)]
    rows = BATCHES * BATCH_ROWS
    tables = {
        name: ours.create_table(f"clients_append_{name}", NARROW, buckets=BUCKETS)
        for name in ("ours", "theirs")
    }

    def append() -> None:
        with tables["ours"].writer() as writer:
            for batch in batches:
                writer.write(batch)

    pairs = _in_turns(append, lambda: theirs.append("clients_append_theirs", batches))
    _add_rates(report, "append, client against pyfluss", rows, pairs)
    whole = ours.create_table("clients_scan", NARROW, buckets=BUCKETS)
    whole.append(pa.Table.from_batches(batches))
    pairs = _in_turns(
        lambda: _expect(whole.scan().to_arrow().num_rows, rows),
        lambda: _expect(theirs.scan("clients_scan", BUCKETS), rows),
    )
    _add_rates(report, "scan, client against pyfluss", rows, pairs)


def _bench_upserts(report: Report, ours: headwater.Client, theirs: official.Official) -> None:
    table, name = _keyed(ours, "ours"), _keyed(ours, "theirs").path.table
    batches = [narrow_batch(UPSERT_ROWS, seed=1000 + number) for number in range(ROUNDS + 1)]
    rows = [batch.to_pylist() for batch in batches]
    new, same = iter(batches), iter(rows)
    pairs = _in_turns(lambda: table.upsert(next(new)), lambda: theirs.upsert(name, next(same)))
    _add_rates(report, "upsert new rows, Arrow, client against pyfluss", UPSERT_ROWS, pairs, "≥ 5")
    pairs = _in_turns(lambda: table.upsert(batches[0]), lambda: theirs.upsert(name, rows[0]))
    _add_rates(report, "update rows, Arrow, client against pyfluss", UPSERT_ROWS, pairs, "≥ 5")
    pairs = _in_turns(lambda: table.upsert(rows[0]), lambda: theirs.upsert(name, rows[0]))
    _add_rates(report, "update rows, dicts, client against pyfluss", UPSERT_ROWS, pairs, "≥ 5")
    keys = batches[0].column("k").to_pylist()
    own = _lookups_us(table, keys[:LOOKUPS])
    other = theirs.lookups_us(name, keys[:OFFICIAL_LOOKUPS])
    report.add(
        "one lookup, client against pyfluss, p50",
        f"{own:.0f} µs",
        f"{other:.0f} µs",
        f"{other / own:.0f}",
        "≥ 50",
    )


def _keyed(ours: headwater.Client, whose: str) -> headwater.Table:
    return ours.create_table(
        f"clients_upsert_{whose}",
        NARROW,
        primary_key="k",
        buckets=BUCKETS,
        options={"headwater.bucket-hash": "pyfluss"},
    )


def _lookups_us(table: headwater.Table, keys: list[int]) -> float:
    taken = []
    for key in keys:
        began = time.perf_counter()
        assert table.get({"k": key}) is not None
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def _in_turns(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Run both in turns and return the median seconds of each; the first turn warms up."""
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS + 1)][1:]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _expect(rows: int, expected: int) -> None:
    assert rows == expected, f"{rows} of {expected} rows came"


def _add_rates(
    report: Report, what: str, rows: int, pairs: tuple[float, float], target: str = "≥ 1"
) -> None:
    ours, theirs = pairs
    report.add(
        what,
        f"{rows / ours / 1e6:.3f} M rows/s",
        f"{rows / theirs / 1e6:.3f} M rows/s",
        f"{theirs / ours:.1f}",
        target,
    )
