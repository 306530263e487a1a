"""Readers, writers and drivers that know older or newer columns than the lake get along."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headwater.errors import HeadwaterError, UnsupportedError
from headwater.model.path import TablePath
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.types import BigIntType, IntType, RowField, RowType, StringType
from tests.lake.contract.changes import added, dropped, renamed
from tests.lake.lake_table import LakeTable

PAIR = {"id": BigIntType(nullable=False), "name": StringType()}


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    table = tables.make(PAIR, key=request.param)
    table.tier([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    return table


def under(table, spec) -> LakeTable:
    """Return the table as somebody sees it who knows other columns."""
    return LakeTable(table.lake, spec)


def test_a_reader_may_know_a_column_that_the_lake_does_not_have_yet(table):
    seen = under(table, added(table.spec, "score", IntType()))

    assert seen.values() == [
        {"id": 1, "name": "a", "score": None},
        {"id": 2, "name": "b", "score": None},
    ]
    assert seen.rows().schema == seen.schema


def test_only_columns_that_the_lake_does_not_have_yet_can_be_read(table):
    seen = under(table, added(table.spec, "score", IntType()))

    rows = seen.rows(source=seen.source.with_projection([("score",)]))

    assert rows.to_pydict() == {"score": [None, None]}


def test_a_filter_may_look_at_a_column_that_the_lake_does_not_have_yet(table):
    seen = under(table, added(table.spec, "score", IntType()))

    source, answer = seen.source.with_filters([Leaf(LeafFunction.IS_NULL, 2)])

    assert seen.rows(source=source).num_rows == 2
    assert set(answer.accepted) | set(answer.remaining) == {Leaf(LeafFunction.IS_NULL, 2)}


def test_a_reader_may_know_a_name_that_the_lake_does_not_have_yet(table):
    seen = under(table, renamed(table.spec, "name", "title"))

    assert seen.values() == [{"id": 1, "title": "a"}, {"id": 2, "title": "b"}]


def test_a_reader_may_know_that_a_column_was_dropped_before_the_lake_does(table):
    seen = under(table, added(dropped(table.spec, "name"), "name", IntType()))

    assert seen.values() == [{"id": 1, "name": None}, {"id": 2, "name": None}]


def test_rows_written_under_older_columns_can_be_committed_after_a_change(table):
    results = table.write([{"id": 3, "name": "c"}], on=table.head())
    newer = table.evolved(added(renamed(table.spec, "name", "title"), "score", IntType()))

    try:
        table.commit(results, on=table.head())
    except HeadwaterError:
        expected = ["a", "b"]
    else:
        expected = ["a", "b", "c"]

    assert [row["title"] for row in newer.values()] == expected
    newer.tier([{"id": 4, "title": "d", "score": 1}])
    assert newer.values()[-1] == {"id": 4, "title": "d", "score": 1}


def test_many_drivers_can_make_one_table_at_once(lake, tables):
    spec = tables.spec(PAIR)
    together = threading.Barrier(4)

    def ensured(_: int) -> None:
        together.wait(30)
        lake.catalog().ensure(spec)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ensured, range(4)))

    table = LakeTable(lake, spec)
    table.tier([{"id": 1, "name": "a"}])
    assert table.values() == [{"id": 1, "name": "a"}]


def test_many_drivers_can_change_one_table_at_once(lake, table):
    spec = added(renamed(table.spec, "name", "title"), "score", IntType())
    together = threading.Barrier(4)

    def ensured(_: int) -> None:
        together.wait(30)
        lake.catalog().ensure(spec)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ensured, range(4)))

    seen = under(table, spec)
    seen.tier([{"id": 3, "title": "c", "score": 7}])
    assert [(row["title"], row["score"]) for row in seen.values()] == [
        ("a", None),
        ("b", None),
        ("c", 7),
    ]


INNER = RowType(fields=(RowField(name="b", type=IntType(), field_id=30),))
ODD = (
    {"a.b": IntType(), "a": INNER},
    {"with space": IntType(), "ümläut": StringType(), "select": IntType()},
    {"A": IntType(), "a": StringType()},
    {"_SEQUENCE_NUMBER": IntType(), "_KEY_id": IntType(), "_VALUE_KIND": IntType()},
    {"file_path": StringType(), "pos": BigIntType(), "_pos": IntType(), "_row_id": IntType()},
    {"element": IntType(), "key": IntType(), "value": IntType(), "`tick`": IntType()},
    {"partition": IntType(), "bucket": IntType(), "id_bucket": IntType(), "/ % # ?": IntType()},
)


def value_of(kind) -> object:
    return {"b": 5} if kind == INNER else "t" if kind == StringType() else 4


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
@pytest.mark.parametrize("odd", ODD, ids=["-".join(each).replace("/", "slash") for each in ODD])
def test_columns_of_odd_names_are_kept_or_refused_from_the_start(tables, odd, key):
    columns = {"id": BigIntType(nullable=False), **odd}
    row = {"id": 1, **{name: value_of(kind) for name, kind in odd.items()}}
    try:
        table = tables.make(columns, key=key, bucket_keys=("id",), bucket_count=2)
    except UnsupportedError as refused:
        assert any(name in str(refused) for name in odd)
        return

    table.tier([row])
    table.tier([{**row, "id": 2}])

    assert table.values() == [row, {**row, "id": 2}]


def test_tables_and_databases_are_found_under_names_of_every_allowed_sign(lake, tables):
    spec = replace(tables.spec(PAIR), path=TablePath("My-db_1", "T-0_x"))
    lake.catalog().ensure(spec)
    table = LakeTable(lake, spec)

    table.tier([{"id": 1, "name": "a"}])

    assert table.values() == [{"id": 1, "name": "a"}]
    assert spec.path in lake.catalog().list_tables()
    lake.catalog().drop(spec.path)
    assert not lake.catalog().exists(spec.path)


def test_a_partition_column_can_be_renamed_only_if_rows_keep_their_place(tables):
    columns = {"id": BigIntType(nullable=False), "p": StringType(nullable=False)}
    table = tables.make(columns, partition_keys=("p",))
    table.tier([{"id": 1, "p": "x"}])
    spec = replace(renamed(table.spec, "p", "q"), partition_keys=("q",))

    try:
        table.lake.catalog().ensure(spec)
    except HeadwaterError:
        assert table.values() == [{"id": 1, "p": "x"}]
        return

    newer = LakeTable(table.lake, spec)
    newer.tier([{"id": 2, "q": "y"}])
    assert newer.values() == [{"id": 1, "q": "x"}, {"id": 2, "q": "y"}]
