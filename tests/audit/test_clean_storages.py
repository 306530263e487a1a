"""An audit of what is as it should be finds nothing, and says how much it looked at."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

import headwater
from headwater.audit import AuditReport, Check, audit
from headwater.audit.logs import AuditedBucket, BatchWalk
from headwater.errors import StorageError
from headwater.model.boundary import LakeBucket
from tests.audit.planting import proof
from tests.union.storage import Storage

COLUMNS = {"id": "BIGINT", "name": "STRING", "amount": "INT"}
EVERY_TYPE = {
    "id": "BIGINT",
    "day": "DATE",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "real": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(30, 4)",
    "raw": "BYTES",
    "at": "TIMESTAMP(6)",
    "zoned": "TIMESTAMP_LTZ(3)",
    "clock": "TIME",
    "tags": "ARRAY<STRING>",
    "counts": "MAP<STRING, INT>",
    "place": "ROW<x DOUBLE, names ARRAY<STRING>>",
}
HERE = LakeBucket(None, 0)
DEPTHS = pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])


def rows(count: int, amount: int = 1) -> list[dict[str, object]]:
    return [{"id": at, "name": f"n{at}", "amount": at * amount} for at in range(count)]


def every_type(at: int, number: float | None) -> dict[str, object]:
    return {
        "id": at,
        "day": date(2026, 1, 1 + at),
        "flag": None if at % 3 else at % 2 == 0,
        "tiny": at,
        "real": number,
        "double": number,
        "price": Decimal(at) / 8,
        "raw": bytes(range(at)),
        "at": datetime(2026, 1, 1, 0, 0, at, 123456),
        "zoned": datetime(2026, 1, 1, at % 24, tzinfo=UTC),
        "clock": time(at % 24),
        "tags": [None, f"t{at}"] if at % 4 else None,
        "counts": {f"k{each}": each for each in range(at % 3)},
        "place": {"x": number, "names": [str(at)]} if at % 5 else None,
    }


@pytest.fixture(scope="module")
def hw(tmp_path_factory):
    with headwater.open(tmp_path_factory.mktemp("clean") / "data") as opened:
        yield opened


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    opened = Storage.open(tmp_path_factory.mktemp("cut") / "data")
    yield opened
    opened.close()


def clean(report: AuditReport) -> AuditReport:
    assert report.findings == ()
    return report


@DEPTHS
def test_a_log_table(hw, deep):
    table = hw.create_table("log", COLUMNS, buckets=2, exists_ok=True)
    table.append(rows(50))

    report = clean(audit(hw, ["log"], deep=deep))

    assert proof(report, Check.OFFSETS).amount == table.count()
    assert proof(report, Check.CHECKSUMS).amount > 0
    assert report.is_deep is deep


@DEPTHS
def test_an_empty_table(hw, deep):
    hw.create_table("empty", COLUMNS, primary_key="id", exists_ok=True)

    report = clean(audit(hw, ["empty"], deep=deep))

    assert proof(report, Check.STATE).amount == 0


@DEPTHS
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"table.merge-engine": "first_row"},
        {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "amount"},
        {"table.merge-engine": "aggregation", "table.delete.behavior": "allow"},
        {"table.changelog.image": "wal"},
        {"table.kv.ttl": "1 d"},
    ],
    ids=lambda options: "-".join(options.values()) or "plain",
)
def test_a_primary_key_table(hw, deep, options):
    name = "keyed_" + "_".join(options.values()).replace(" ", "") + str(deep)
    table = hw.create_table(name, COLUMNS, primary_key="id", buckets=2, options=options)
    table.upsert(rows(40) + rows(20, amount=3))
    table.upsert(rows(30, amount=2))
    if "first_row" not in options.values() and "versioned" not in options.values():
        table.delete([{"id": 3}, {"id": 39}, {"id": 1000}])
        table.upsert(rows(5, amount=7))

    report = clean(audit(hw, [name], deep=deep))

    is_told = deep or "wal" not in options.values()
    assert proof(report, Check.STATE).amount == (table.count() if is_told else 0)
    assert not deep or proof(report, Check.LOOKUPS).amount == table.count()


@DEPTHS
def test_a_partitioned_table_with_columns_that_came_and_went(hw, deep):
    table = hw.create_table(
        f"parts{deep}", COLUMNS, primary_key=["id", "name"], partition_by="name", buckets=2
    )
    table.upsert([{"id": at, "name": f"p{at % 3}", "amount": at} for at in range(30)])
    table.add_column("more", "STRING")
    table.upsert([{"id": at, "name": "p1", "amount": at, "more": "x"} for at in range(0, 30, 2)])
    table.rename_column("amount", "sum")
    table.delete([{"id": 4, "name": "p1"}])

    report = clean(audit(hw, [f"parts{deep}"], deep=deep))

    assert proof(report, Check.STATE).amount == table.count()


def test_rows_of_every_type(hw):
    table = hw.create_table("types", EVERY_TYPE, primary_key=["id", "day"], buckets=2)
    odd = [math.nan, -0.0, 0.0, math.inf, 1.5, None]
    for turn in range(3):
        table.upsert([every_type(at, odd[(at + turn) % len(odd)]) for at in range(30)])
    table.upsert([{"id": at, "day": date(2026, 1, 1 + at)} for at in range(7)])
    table.delete([{"id": 9, "day": date(2026, 1, 10)}])

    report = clean(audit(hw, ["types"], deep=True))

    assert proof(report, Check.STATE).amount == 29
    assert proof(report, Check.LOOKUPS).amount == 29


@DEPTHS
def test_a_log_whose_oldest_rows_have_expired(storage, deep):
    table = storage.client.create_table(f"old{deep}", COLUMNS, buckets=1)
    for _ in range(4):
        table.append(rows(10))
    storage.cut(table.info.table_id, checked=False, kept={HERE: 20})

    report = clean(audit(storage.client, [f"old{deep}"], deep=deep))

    assert proof(report, Check.OFFSETS).amount == 20


def told_at_first(monkeypatch, when, told):
    """Have the first question for an offset answered as it was before rows expired."""
    ask, answers = AuditedBucket.offset, [told]

    async def offset(audited, asked):
        return answers.pop() if asked == when and answers else await ask(audited, asked)

    monkeypatch.setattr(AuditedBucket, "offset", offset)


def expired(storage, name, *, kept):
    table = storage.client.create_table(name, COLUMNS, buckets=1)
    for _ in range(4):
        table.append(rows(10))
    storage.cut(table.info.table_id, checked=False, kept={HERE: kept})


def test_a_file_that_retention_takes_while_it_is_read(storage, monkeypatch):
    expired(storage, "taken", kept=20)
    told_at_first(monkeypatch, "earliest", 0)
    fetch = BatchWalk._fetch_once

    async def fetch_once(walk, offset):
        if offset < 20:
            raise StorageError("The file is gone.")
        return await fetch(walk, offset)

    monkeypatch.setattr(BatchWalk, "_fetch_once", fetch_once)

    report = clean(audit(storage.client, ["taken"]))

    assert proof(report, Check.OFFSETS).amount == 20


@DEPTHS
def test_a_changelog_whose_oldest_changes_have_expired(storage, deep):
    table = storage.client.create_table(f"changed{deep}", COLUMNS, primary_key="id", buckets=1)
    table.upsert(rows(10))
    table.upsert(rows(5, amount=2))
    storage.save_states()
    table.delete([{"id": 1}])
    storage.cut(table.info.table_id, checked=False)

    report = clean(audit(storage.client, [f"changed{deep}"], deep=deep))

    state = proof(report, Check.STATE)
    assert "do not reach back" in state.note
    assert state.amount == (9 if deep else 0)


def test_all_tables_of_all_databases_are_audited_unless_some_are_named(hw):
    hw.create_database("other", exists_ok=True)
    hw.create_table("other.one", COLUMNS, exists_ok=True)

    everything, one = audit(hw), audit(hw, ["other.one"])

    assert {each.table for each in everything.proofs} > {"other.one", "fluss.log"}
    assert {each.table for each in one.proofs} - {None} == {"other.one"}


def test_a_name_that_is_wrong_is_the_callers_mistake(hw):
    with pytest.raises(headwater.errors.TableMissingError):
        audit(hw, ["nothing"])
