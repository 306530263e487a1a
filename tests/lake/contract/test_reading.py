"""Columns, rows and files are left out of a read, and never more than asked for."""

import pyarrow as pa
import pytest

from headwater.errors import HeadwaterError, LakeSnapshotMissingError
from headwater.model.path import TablePath
from headwater.model.types import (
    ArrayType,
    BigIntType,
    DateType,
    IntType,
    RowField,
    RowType,
    StringType,
)

PLACE = RowType(
    fields=(
        RowField(name="city", type=StringType(), field_id=10),
        RowField(
            name="at",
            type=RowType(
                fields=(
                    RowField(name="lon", type=IntType(), field_id=12),
                    RowField(name="lat", type=IntType(), field_id=13),
                )
            ),
            field_id=11,
        ),
    )
)
WIDE = {
    "id": BigIntType(nullable=False),
    "name": StringType(),
    "place": PLACE,
    "tags": ArrayType(element=StringType()),
}
ROWS = [
    {"id": 1, "name": "a", "place": {"city": "x", "at": {"lon": 1, "lat": 2}}, "tags": ["t"]},
    {"id": 2, "name": None, "place": None, "tags": []},
    {"id": 3, "name": "c", "place": {"city": None, "at": None}, "tags": None},
]


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def wide(tables, request):
    table = tables.make(WIDE, key=request.param)
    table.tier(ROWS)
    return table


def read(table, *paths: tuple[str, ...]) -> pa.Table:
    return table.rows(source=table.source.with_projection(paths))


def test_columns_come_in_the_order_that_was_asked_for(wide):
    rows = read(wide, ("tags",), ("id",)).sort_by("id")

    assert rows.column_names == ["tags", "id"]
    assert rows.to_pylist() == [{"tags": row["tags"], "id": row["id"]} for row in ROWS]
    assert rows.schema == pa.schema([wide.schema.field("tags"), wide.schema.field("id")])


def test_the_key_need_not_be_among_the_columns(wide):
    wide.tier([{**ROWS[0], "name": "b"}])

    names = read(wide, ("name",))["name"].to_pylist()

    expected = [None, "b", "c"] if wide.spec.is_keyed else [None, "a", "b", "c"]
    assert sorted(names, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([("place", "city")], [{"city": "x"}, None, {"city": None}]),
        ([("place", "at", "lat")], [{"at": {"lat": 2}}, None, {"at": None}]),
        (
            [("place", "at", "lat"), ("place", "city")],
            [{"at": {"lat": 2}, "city": "x"}, None, {"at": None, "city": None}],
        ),
        ([("place",)], [row["place"] for row in ROWS]),
    ],
)
def test_fields_of_rows_can_be_asked_for(wide, paths, expected):
    rows = read(wide, ("id",), *paths).sort_by("id")

    assert rows["place"].to_pylist() == expected


def test_no_column_at_all_still_counts_the_rows(wide):
    source = wide.source.with_projection([])
    splits = source.plan(wide.head().snapshot_id)

    assert sum(batch.num_rows for split in splits for batch in source.read(split)) == 3


def test_a_column_that_is_not_there_is_told(wide):
    with pytest.raises(HeadwaterError, match="nope"):
        read(wide, ("nope",))


def test_a_source_is_a_value_that_others_do_not_change(wide):
    source = wide.source
    source.with_projection([("id",)])
    source.with_limit(1)

    assert wide.rows(source=source).num_rows == 3
    assert wide.rows(source=source).column_names == list(WIDE)


def test_a_limit_plans_no_more_splits_than_it_needs(tables):
    table = tables.make()
    for turn in range(4):
        table.tier([{"id": turn * 10 + at, "name": "x"} for at in range(10)])

    limited = table.source.with_limit(15)

    rows = table.rows(source=limited).num_rows
    assert 15 <= rows <= 40
    assert len(limited.plan(table.head().snapshot_id)) <= len(
        table.source.plan(table.head().snapshot_id)
    )


def test_a_limit_does_not_count_rows_that_were_replaced(tables):
    table = tables.keyed(bucket_count=2)
    for _ in range(3):
        table.tier([{"id": at, "name": "x"} for at in range(20)])
    table.tier([{"id": at, "name": "x"} for at in range(18)], deleted=[True] * 18)

    assert table.rows(source=table.source.with_limit(2)).num_rows >= 2


def test_an_old_snapshot_is_read_as_it_was(tables):
    table = tables.make()
    made = [table.tier([{"id": at, "name": str(at)}]) for at in range(4)]

    seen = [[row["id"] for row in table.values(each.snapshot_id)] for each in made]

    assert seen == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_a_plan_made_before_other_commits_reads_what_was_planned(tables):
    table = tables.keyed()
    first = table.tier([{"id": 1, "name": "a"}])
    source = table.source
    splits = source.plan(first.snapshot_id)
    table.tier([{"id": 1, "name": "b"}, {"id": 2, "name": "c"}])

    rows = [row for split in splits for batch in source.read(split) for row in batch.to_pylist()]

    assert rows == [{"id": 1, "name": "a"}]
    assert {split.snapshot_id for split in splits} == {first.snapshot_id}
    assert {split.format for split in splits} == {table.lake.format}


def test_planning_a_snapshot_that_is_not_there_is_told(tables):
    table = tables.make()
    table.tier([{"id": 1, "name": "a"}])

    with pytest.raises(LakeSnapshotMissingError):
        table.source.plan(123456789)


def test_a_table_that_is_not_there_is_told(lake, tables):
    spec = tables.spec({"id": DateType()})

    with pytest.raises(LakeSnapshotMissingError, match=spec.path.table):
        lake.source(spec)
    with pytest.raises(HeadwaterError):
        lake.committer(spec).head()
    assert not lake.catalog().exists(spec.path)
    assert not lake.catalog().exists(TablePath("nowhere", "t"))
