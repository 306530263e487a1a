"""Apache Paimon in Java reads the Paimon tables that we write, and writes beside us."""

import json

import pytest

from headwater.model.types import IntType, StringType
from tests.interop.lake.coded import coded_rows, in_order
from tests.interop.lake.made import SHAPES, times

INTS = {"id": IntType(nullable=False), "name": StringType()}


def name_of(table) -> str:
    return f"{table.spec.path.database}.{table.spec.path.table}"


def rows_in_java(java, table, **options):
    answer = java.ask("rows", table=name_of(table), **options)
    assert answer["names"] == list(table.spec.schema.names)
    return in_order(answer["rows"])


@pytest.mark.parametrize("shape", [*SHAPES, "times"])
def test_java_reads_the_rows_that_we_read(java, paimon, shape):
    table = {**SHAPES, "times": times}[shape](paimon)

    assert rows_in_java(java, table) == coded_rows(table.rows())


def test_java_reads_an_older_snapshot(java, paimon):
    table = SHAPES["keyed"](paimon)
    first = table.source.snapshots()[1]

    found = rows_in_java(java, table, snapshot_id=first.snapshot_id)

    assert found == coded_rows(table.rows(first.snapshot_id))


def test_java_sees_who_committed_and_the_boundary(java, paimon):
    table = SHAPES["keyed"](paimon)

    snapshot = json.loads(java.ask("snapshot", table=name_of(table))["json"])

    assert snapshot["commitUser"] == "__fluss_lake_tiering"
    assert json.loads(snapshot["properties"]["headwater.boundary"])["table_id"] == 7


@pytest.mark.parametrize("shape", ["keyed", "partitioned", "compacted", "evolved_keyed", "log"])
def test_java_compacts_and_we_go_on(java, paimon, shape):
    table = SHAPES[shape](paimon)
    rows, boundary = coded_rows(table.rows()), table.head().boundary
    before = table.head()

    java.ask("compact", table=name_of(table))

    assert coded_rows(table.rows()) == rows == rows_in_java(java, table)
    assert table.head().boundary == boundary
    if shape == "log":
        return
    assert table.head().snapshot_id != before.snapshot_id
    assert "headwater.boundary" not in table.head().properties


def test_rounds_go_on_after_java_compacted(java, paimon):
    table = SHAPES["keyed"](paimon)
    java.ask("compact", table=name_of(table))

    table.tier([{"id": 1, "name": "ours"}, {"id": 2, "name": "?"}], deleted=[False, True])

    rows = rows_in_java(java, table)
    assert rows == coded_rows(table.rows())
    assert [1, "ours"] in rows
    assert not any(row[0] == 2 for row in rows)


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_java_writes_after_us_and_we_read_it(java, paimon, key):
    table = paimon.make(INTS, key=key)
    table.tier([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    boundary = table.head().boundary

    java.ask("write", table=name_of(table), rows=[[2, "from Java"], [3, "from Java"]])

    names = sorted(row["name"] for row in table.values())
    assert names == (["a", "from Java", "from Java"] if key else ["a", "b", *["from Java"] * 2])
    assert table.head().boundary == boundary
    table.tier([{"id": 3, "name": "ours"}])
    assert rows_in_java(java, table) == coded_rows(table.rows())


def test_our_upkeep_leaves_what_java_wrote(java, paimon):
    table = paimon.make(INTS, key=("id",))
    for turn in range(6):
        table.tier([{"id": turn, "name": "ours"}])
        java.ask("write", table=name_of(table), rows=[[100 + turn, "from Java"]])
    rows = coded_rows(table.rows())

    keeper, head = table.keeper, table.head()
    # Java compacts while it writes, so there may be nothing left to do.
    if works := keeper.plan_rewrites(on=head):
        keeper.commit_rewrites([keeper.rewrite(work) for work in works], on=head)
    retention = table.keeper.retention()
    table.keeper.expire(type(retention)(snapshots_min=1, age_ms=0), now_ms=head.committed_ms + 1000)
    table.keeper.remove_orphans(older_than_ms=head.committed_ms + 1000)

    assert coded_rows(table.rows()) == rows == rows_in_java(java, table)
