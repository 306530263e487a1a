"""Lake tables are made, and follow the columns of their table by id."""

from dataclasses import replace

import pytest

from headwater.errors import LakeTableDiffersError
from headwater.model.path import TablePath
from headwater.model.types import BigIntType, DoubleType, IntType, RowField, RowType, StringType
from tests.lake.contract.changes import added, dropped, renamed, with_columns
from tests.lake.formats import config_of, opened
from tests.lake.lake_table import LakeTable

PAIR = {"id": BigIntType(), "name": StringType()}


def test_a_table_is_there_once_it_is_made(lake, tables):
    spec = tables.spec(PAIR)
    before = lake.catalog().exists(spec.path)

    lake.catalog().ensure(spec)

    assert (before, lake.catalog().exists(spec.path)) == (False, True)
    assert lake.committer(spec).head() is None
    assert lake.source(spec).snapshot() is None
    assert lake.source(spec).snapshots() == []


def test_making_a_table_again_changes_nothing(lake, tables):
    table = tables.make(PAIR)
    table.tier([{"id": 1, "name": "a"}])

    lake.catalog().ensure(table.spec)
    lake.catalog().ensure(table.spec)

    assert table.values() == [{"id": 1, "name": "a"}]
    assert len(table.source.snapshots()) == 1


def test_a_lake_lists_the_tables_that_it_has(lake, tmp_path, tables):
    own = opened(lake.format, config_of(lake.format, tmp_path))
    specs = [
        replace(tables.spec(PAIR), path=TablePath(database, "t")) for database in ("one", "two")
    ]

    empty = own.catalog().list_tables()
    for spec in specs:
        own.catalog().ensure(spec)

    assert empty == []
    assert sorted(own.catalog().list_tables()) == [TablePath("one", "t"), TablePath("two", "t")]


def test_a_dropped_table_is_gone_with_its_rows(lake, tables):
    table = tables.make(PAIR)
    table.tier([{"id": 1, "name": "a"}])

    lake.catalog().drop(table.spec.path)
    lake.catalog().drop(table.spec.path)
    gone = lake.catalog().exists(table.spec.path)
    lake.catalog().ensure(table.spec)

    assert not gone
    assert table.committer.head() is None


def test_an_added_column_is_null_in_older_rows(tables):
    old = tables.make(PAIR)
    old.tier([{"id": 1, "name": "a"}])

    table = old.evolved(added(old.spec, "score", DoubleType()))
    table.tier([{"id": 2, "name": "b", "score": 0.5}])

    assert table.values() == [
        {"id": 1, "name": "a", "score": None},
        {"id": 2, "name": "b", "score": 0.5},
    ]


def test_a_renamed_column_keeps_its_values(tables):
    old = tables.make(PAIR)
    old.tier([{"id": 1, "name": "a"}])

    table = old.evolved(renamed(old.spec, "name", "title"))
    table.tier([{"id": 2, "title": "b"}])

    assert table.values() == [{"id": 1, "title": "a"}, {"id": 2, "title": "b"}]


def test_a_dropped_column_leaves_the_others(tables):
    old = tables.make(PAIR)
    old.tier([{"id": 1, "name": "a"}])

    table = old.evolved(dropped(old.spec, "name"))
    table.tier([{"id": 2}])

    assert table.values() == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("kind", [StringType(), IntType()], ids=str)
def test_a_column_added_under_the_name_of_a_dropped_one_is_another(tables, kind):
    old = tables.make(PAIR)
    old.tier([{"id": 1, "name": "a"}])

    table = old.evolved(dropped(old.spec, "name"))
    table.tier([{"id": 2}])
    table = table.evolved(added(table.spec, "name", kind))
    value = "c" if kind == StringType() else 3
    table.tier([{"id": 3, "name": value}])

    assert [row["name"] for row in table.values()] == [None, None, value]


def test_names_that_two_columns_exchange_follow_their_values(tables):
    old = tables.make({"id": BigIntType(), "a": StringType(), "b": StringType()})
    old.tier([{"id": 1, "a": "was a", "b": "was b"}])

    step = renamed(renamed(renamed(old.spec, "a", "x"), "b", "a"), "x", "b")
    table = old.evolved(step)

    assert table.values() == [{"id": 1, "a": "was b", "b": "was a"}]


def test_several_changes_come_at_once(tables):
    old = tables.make({"id": BigIntType(), "a": StringType(), "b": StringType()})
    old.tier([{"id": 1, "a": "x", "b": "y"}])

    spec = added(renamed(dropped(old.spec, "a"), "b", "c"), "d", BigIntType())
    table = old.evolved(spec)
    table.tier([{"id": 2, "c": "z", "d": 4}])

    assert table.values() == [{"id": 1, "c": "y", "d": None}, {"id": 2, "c": "z", "d": 4}]


def test_columns_of_a_keyed_table_evolve_with_its_rows(tables):
    old = tables.keyed()
    old.tier([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])

    table = old.evolved(added(renamed(old.spec, "name", "title"), "score", IntType()))
    table.tier([{"id": 2, "title": "c", "score": 9}])

    assert table.values() == [
        {"id": 1, "title": "a", "score": None},
        {"id": 2, "title": "c", "score": 9},
    ]


def test_a_nested_column_can_be_added(tables):
    old = tables.make(PAIR)
    old.tier([{"id": 1, "name": "a"}])
    kind = RowType(fields=(RowField(name="x", type=IntType(), field_id=50),))

    table = old.evolved(added(old.spec, "place", kind))
    table.tier([{"id": 2, "name": "b", "place": {"x": 7}}])

    assert [row["place"] for row in table.values()] == [None, {"x": 7}]


def test_rows_written_before_a_change_are_read_under_the_older_columns(tables):
    old = tables.make(PAIR)
    first = old.tier([{"id": 1, "name": "a"}])
    old.evolved(added(renamed(old.spec, "name", "title"), "score")).tier(
        [{"id": 2, "title": "b", "score": "s"}]
    )

    assert old.values(first.snapshot_id) == [{"id": 1, "name": "a"}]
    assert old.values() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_a_late_driver_does_not_take_newer_columns_away(lake, tables):
    old = tables.make(PAIR)
    table = old.evolved(added(old.spec, "score"))
    table.tier([{"id": 1, "name": "a", "score": "s"}])

    lake.catalog().ensure(old.spec)

    assert table.values() == [{"id": 1, "name": "a", "score": "s"}]
    assert old.values() == [{"id": 1, "name": "a"}]


def different_specs(spec):
    retyped = with_columns(
        spec,
        spec.schema.columns[0],
        *(replace(each, type=IntType()) for each in spec.schema.columns[1:]),
    )
    yield "another type", retyped
    yield "no key", replace(spec, schema=replace(spec.schema, primary_key=()))
    yield "more buckets", replace(spec, bucket_count=spec.bucket_count + 1)
    yield "partitioned", replace(spec, partition_keys=("name",))


@pytest.mark.parametrize("which", ["another type", "no key", "more buckets", "partitioned"])
def test_a_table_that_is_another_is_refused_and_left_alone(lake, tables, which):
    table = tables.keyed(bucket_count=2)
    table.tier([{"id": 1, "name": "a"}])
    other = dict(different_specs(table.spec))[which]

    with pytest.raises(LakeTableDiffersError, match=table.spec.path.table):
        lake.catalog().ensure(other)

    lake.catalog().ensure(table.spec)
    assert table.values() == [{"id": 1, "name": "a"}]


def test_two_handles_see_the_same_table(lake, tables):
    table = tables.make(PAIR)
    other = LakeTable(lake, table.spec)
    reader = other.source
    table.tier([{"id": 1, "name": "a"}])

    assert other.values() == [{"id": 1, "name": "a"}]
    assert reader.snapshot() == table.head()
