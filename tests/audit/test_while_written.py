"""An audit goes on while others write and drop, and does not take their work for damage."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

import headwater
from headwater import aio
from headwater.audit import AuditReport, Check, Severity, audit
from headwater.audit.tables import audit_storage
from headwater.config.client import ClientSettings
from headwater.model.bucket import TableBucket
from headwater.read.values import BucketScan
from tests import figures
from tests.audit.planting import proof
from tests.server.support import running

ROUNDS_TORTURE = figures.times(5)
WRITERS = 3
KEYS = 500
COLUMNS = {"id": "BIGINT", "day": "STRING", "amount": "BIGINT"}
OPTIONS = (
    {},
    {"table.merge-engine": "first_row"},
    {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "amount"},
    {"table.merge-engine": "aggregation", "table.delete.behavior": "allow"},
    {"table.changelog.image": "wal"},
)
DEPTHS = pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])

Work = Callable[[random.Random, int], None]


@contextmanager
def working(*works: Work) -> Iterator[None]:
    """Have threads work again and again for the length of a block."""
    stopped = threading.Event()

    def work(seed: int, step: Work) -> None:
        chance, number = random.Random(seed), 0
        while not stopped.is_set():
            number += 1
            step(chance, number)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def made(hw: headwater.Client) -> list[headwater.Table]:
    """Return a table of every kind."""
    key = ["id", "day"]
    return [
        hw.create_table("log", COLUMNS, buckets=2),
        hw.create_table("parts", COLUMNS, primary_key=key, partition_by="day", buckets=2),
        *(
            hw.create_table(f"keyed{at}", COLUMNS, primary_key=key, options=options)
            for at, options in enumerate(OPTIONS)
        ),
    ]


def some_rows(chance: random.Random, number: int) -> list[dict[str, object]]:
    return [
        {"id": chance.randrange(KEYS), "day": f"d{chance.randrange(3)}", "amount": number}
        for _ in range(chance.randrange(1, 80))
    ]


def write_to(tables: list[headwater.Table]) -> Work:
    def write(chance: random.Random, number: int) -> None:
        table, rows = chance.choice(tables), some_rows(chance, number)
        if not table.info.is_keyed:
            table.append(rows)
            return
        table.upsert(rows)
        deletes = table.info.descriptor.properties.get("table.merge-engine") in (
            None,
            "aggregation",
        )
        if deletes and chance.random() < 0.5:
            table.delete([{"id": row["id"], "day": row["day"]} for row in rows[:20]])

    return write


def drop_in(hw: headwater.Client, name: str) -> Work:
    def drop(chance: random.Random, number: int) -> None:
        table = hw.create_table(
            name, COLUMNS, primary_key=["id", "day"], partition_by="day", buckets=2
        )
        table.upsert(some_rows(chance, number))
        table.drop_partition({"day": f"d{number % 3}"}, missing_ok=True)
        table.upsert(some_rows(chance, number))
        hw.drop_table(name)

    return drop


def errors(reports: list[AuditReport]) -> list[str]:
    found = [each for report in reports for each in report.findings]
    return [each.message for each in found if each.severity is Severity.ERROR]


def audited(directory: Path, *, deep: bool) -> list[str]:
    """Audit a storage beside writers, and return the errors that are none."""
    with headwater.open(directory) as hw:
        tables = made(hw)
        with working(*[write_to(tables)] * WRITERS, drop_in(hw, "a")):
            reports = [audit(hw, deep=deep) for _ in range(2)]
    assert any(each.amount for each in reports[-1].proofs if each.check is Check.OFFSETS)
    return errors(reports)


@DEPTHS
def test_what_is_written_meanwhile_is_no_damage(tmp_path, deep):
    assert audited(tmp_path / "data", deep=deep) == []


@DEPTHS
def test_what_is_dropped_meanwhile_is_no_damage(tmp_path, deep):
    with headwater.open(tmp_path / "data") as hw, working(drop_in(hw, "a"), drop_in(hw, "b")):
        reports = [audit(hw, deep=deep) for _ in range(5)]

    assert errors(reports) == []


async def test_a_state_that_too_many_scan_is_not_taken_for_wrong(tmp_path):
    settings = ClientSettings(state_scan_bytes_max=1_000)
    async with (
        running(tmp_path, kv_scanners_per_bucket_max=1) as server,
        await aio.connect(f"127.0.0.1:{server.port}", settings=settings) as hw,
    ):
        table = await hw.create_table("keyed", {"id": "BIGINT"}, primary_key="id")
        await table.upsert([{"id": number} for number in range(KEYS)])
        scan = BucketScan(hw.cluster, TableBucket(table.info.table_id, 0), limit=None)
        async with aclosing(scan.parts()) as parts:
            await anext(parts)
            report = await audit_storage(hw)
        again = await audit_storage(hw)

    assert report.findings == again.findings == ()
    assert "too many scans" in str(proof(report, Check.STATE))
    assert proof(again, Check.STATE).amount == KEYS


@pytest.mark.torture
@pytest.mark.timeout(1800)
@DEPTHS
def test_however_often_it_is_tried_what_is_written_meanwhile_is_no_damage(tmp_path, deep):
    # In a storage of its own each time, as what is written makes the next audit longer.
    found = [audited(tmp_path / str(at), deep=deep) for at in range(ROUNDS_TORTURE)]

    assert found == [[]] * ROUNDS_TORTURE
    figures.note("audits beside writers", rounds=ROUNDS_TORTURE)
