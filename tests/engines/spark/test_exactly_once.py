"""Copies that are killed at every stage of a micro-batch: each row arrives, and arrives once."""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import headwater
from tests.engines.spark.copy_job import Copy, CopyJob
from tests.engines.spark.feeding import Feeder
from tests.engines.spark.killing import CopyProcess, Stage, Victim, Watch
from tests.figures import times

ORDERS = {"id": "BIGINT", "city": "STRING", "amount": "BIGINT"}
SUMS = {"city": "STRING", "amount": "BIGINT"}
SUMMING = {"table.merge-engine": "aggregation", "fields.amount.agg": "sum"}
KILLS = times(4)
ROWS_PER_TRIGGER = 400

pytestmark = pytest.mark.spark


@dataclass(frozen=True, slots=True)
class Copies:
    """Tables that are copied in several ways, and what keeps them apart."""

    client: headwater.Client
    address: str
    directory: Path
    log: headwater.Table
    keyed: headwater.Table
    watches: tuple[Watch, ...]

    def start(self, *, ends: bool = False) -> CopyProcess:
        job = CopyJob(
            servers=self.address,
            copies=tuple(watch.copy for watch in self.watches),
            rows_per_trigger=100 * ROWS_PER_TRIGGER if ends else ROWS_PER_TRIGGER,
            ends=ends,
        )
        return CopyProcess(job, self.directory / "job.log")

    def finish(self) -> None:
        """Copy what is left."""
        process = self.start(ends=True)
        try:
            process.finish()
        finally:
            process.stop()

    def replay(self) -> None:
        """Have the last micro-batch of every copy run once more."""
        for watch in self.watches:
            watch.forget_last_commit()

    def check(self) -> None:
        for watch in self.watches:
            target = self.client.table(watch.copy.target)
            if watch.copy.source == self.keyed.name:
                check_changes(self.client, self.keyed, target)
            elif target.is_keyed:
                assert sums(target) == sums(self.log)
            else:
                assert rows_of(target) == Counter(shouted(self.log))


def shouted(table: headwater.Table) -> Iterator[tuple]:
    """Yield the rows of a source as copies have them."""
    for row in table.scan().to_pylist():
        yield row["id"], row["city"].upper(), row["amount"]


def rows_of(table: headwater.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.scan().to_pylist())


def sums(table: headwater.Table) -> dict[str, int]:
    found = defaultdict(int)
    for row in table.scan().to_pylist():
        found[row["city"].upper()] += row["amount"]
    return dict(found)


def check_changes(client, source: headwater.Table, target: headwater.Table) -> None:
    """Check that a copy has the rows of its source, and came to them by the same changes."""
    assert rows_of(target) == Counter(shouted(source))
    assert changes(client, target) == changes(client, source)


def changes(client: headwater.Client, table: headwater.Table) -> dict[int, list[tuple]]:
    """Return what happened to each key, in order."""
    found = defaultdict(list)
    log = client.table(f"{table.name}$changelog").scan().to_arrow().sort_by("_log_offset")
    for row in log.to_pylist():
        found[row["id"]].append((row["_change_type"], row["city"].upper(), row["amount"]))
    return dict(found)


def log_end(table: headwater.Table) -> int:
    return sum(table.offsets().values())


@pytest.fixture
def make_copies(served, spark_mode, tmp_path):
    if spark_mode != "classic":
        pytest.skip("copies make sessions of their own")
    log = served.create(ORDERS, buckets=2, bucket_by="id")
    keyed = served.create(ORDERS, buckets=2, primary_key="id")
    names = tuple(ORDERS)

    def copy(source, target, *, columns=names, is_shuffled=False) -> Watch:
        checkpoint = tmp_path / target.name
        made = Copy(source.name, target.name, str(checkpoint), columns, is_shuffled)
        return Watch(made, lambda: log_end(target))

    def make(*ways: str) -> Copies:
        made = {
            "log": lambda: copy(log, served.create(ORDERS, buckets=2)),
            "log by bucket": lambda: copy(log, served.create(ORDERS, buckets=3), is_shuffled=True),
            "keyed": lambda: copy(keyed, served.create(ORDERS, buckets=3, primary_key="id")),
            "keyed by bucket": lambda: copy(
                keyed, served.create(ORDERS, buckets=3, primary_key="id"), is_shuffled=True
            ),
            "sum": lambda: copy(
                log, served.create(SUMS, primary_key="city", options=SUMMING), columns=tuple(SUMS)
            ),
        }
        watches = tuple(made[way]() for way in ways)
        return Copies(served.client, served.address, tmp_path, log, keyed, watches)

    return make


def kill_all_along(copies: Copies, kills: Sequence[tuple[int, Stage, Victim]]) -> None:
    """Kill at each stage in turn; whatever does not survive that is started again."""
    process = copies.start()
    try:
        for number, stage, victim in kills:
            if not process.is_running:
                process.stop()
                copies.replay()
                process = copies.start()
            copies.watches[number].until(stage, process)
            process.kill(victim)
            if victim in (Victim.DRIVER, Victim.EVERYTHING):
                process.stop()
    finally:
        process.stop()


@pytest.mark.timeout(1200)
def test_killed_copies_equal_their_source(make_copies):
    copies = make_copies("log", "keyed by bucket", "sum")
    kills = [
        (0, Stage.LANDING, Victim.TASKS),
        (2, Stage.PLANNED, Victim.TASKS),
        (1, Stage.LANDING, Victim.DRIVER),
        (0, Stage.COMMITTED, Victim.EVERYTHING),
    ]

    with Feeder(copies.log, copies.keyed, seed=1):
        kill_all_along(copies, kills)
    copies.replay()
    copies.finish()

    assert log_end(copies.log) > 0
    copies.check()


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "ways", [("log", "keyed by bucket", "sum"), ("log by bucket", "keyed", "sum")]
)
def test_copies_survive_kills_at_random(make_copies, ways):
    copies = make_copies(*ways)
    seed = os.environ.get("HEADWATER_SEED") or str(random.randrange(1_000_000))
    print(f"HEADWATER_SEED={seed}")  # noqa: T201 - shown where the test fails
    chance = random.Random(seed)
    kills = [
        (
            chance.randrange(len(copies.watches)),
            chance.choice(list(Stage)),
            chance.choice(list(Victim)),
        )
        for _ in range(KILLS)
    ]

    with Feeder(copies.log, copies.keyed, seed=2):
        kill_all_along(copies, kills)
    copies.replay()
    copies.finish()

    copies.check()
