"""Readers under a schema that is older than the lake's newest one see the columns as then."""

from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.errors import PositionMissingError
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.types import BigIntType, IntType, StringType
from tests.lake.contract.changes import added, dropped, renamed
from tests.lake.contract.engine import current_rows
from tests.lake.lake_table import LakeTable

COLUMNS = {"id": BigIntType(nullable=False), "name": StringType(), "score": IntType()}
ROWS = [{"id": at, "name": f"n{at}", "score": at * 10} for at in range(4)]


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    table = tables.make(COLUMNS, key=request.param)
    table.tier(ROWS)
    return table


def under(table, spec) -> LakeTable:
    return LakeTable(table.lake, spec)


def native_values(table) -> list[dict[str, object]]:
    """Read what an engine can read by itself, and the rest by the source."""
    source = table.source
    rows = []
    for split in source.plan(table.head().snapshot_id):
        native = [file for file in split.files if file.is_native]
        assert native or len(split.files) > 1
        others = replace(split, files=tuple(file for file in split.files if not file.is_native))
        rows += [current_rows(file, table.spec.schema) for file in native]
        rows += map(pa.table, source.read(others) if others.files else ())
    return pa.concat_tables(rows).sort_by("id").to_pylist()


@pytest.mark.usefixtures("lake_directory")
def test_a_column_that_came_later_is_not_there(table):
    newer = table.evolved(added(table.spec, "more"))
    newer.tier([{"id": 9, "name": "n9", "score": 1, "more": "m"}])

    older = under(newer, table.spec)

    assert older.values() == [*ROWS, {"id": 9, "name": "n9", "score": 1}]
    assert native_values(older) == older.values()


@pytest.mark.usefixtures("lake_directory")
def test_a_column_that_was_renamed_has_its_old_name(table):
    newer = table.evolved(renamed(table.spec, "name", "title"))
    newer.tier([{"id": 9, "title": "n9", "score": 1}])

    older = under(newer, table.spec)

    assert older.values() == [*ROWS, {"id": 9, "name": "n9", "score": 1}]
    assert native_values(older) == older.values()


@pytest.mark.usefixtures("lake_directory")
def test_a_column_that_was_dropped_still_has_its_values(table):
    before = table.head()
    newer = table.evolved(dropped(table.spec, "score"))
    newer.tier([{"id": 9, "name": "n9"}])

    older = under(newer, table.spec)

    assert older.values(before.snapshot_id) == ROWS
    assert [row["id"] for row in newer.values()] == [0, 1, 2, 3, 9]


@pytest.mark.usefixtures("lake_directory")
def test_a_dropped_column_is_named_in_files_that_hold_it(table):
    newer = table.evolved(dropped(table.spec, "score"))

    older = under(newer, table.spec)

    assert native_values(older) == ROWS


def test_a_column_that_came_under_the_name_of_a_dropped_one_is_another(table):
    newer = table.evolved(added(dropped(table.spec, "score"), "score", StringType()))

    assert under(newer, table.spec).values() == ROWS
    assert [row["score"] for row in newer.values()] == [None] * 4


def test_files_from_before_a_dropped_column_came_hold_nulls(table):
    middle = table.evolved(added(table.spec, "extra", IntType()))
    middle.tier([{"id": 9, "name": "n9", "score": 1, "extra": 5}])
    head = middle.head()
    middle.evolved(dropped(middle.spec, "extra"))

    found = under(table, middle.spec).values(head.snapshot_id)

    assert [row["extra"] for row in found] == [None] * 4 + [5]


def test_values_that_the_lake_does_not_hold_any_more_are_not_made_up(table):
    newer = table.evolved(dropped(table.spec, "score"))
    newer.tier([{"id": 9, "name": "n9"}])
    older = under(newer, table.spec)

    with pytest.raises(PositionMissingError, match="score"):
        older.values()

    source = older.source.with_projection([("id",), ("name",)])
    assert older.rows(source=source).num_rows == 5
    splits = source.plan(newer.head().snapshot_id)
    files = [file for split in splits for file in split.files]
    assert sorted(file.names is None for file in files) == [False, True]


def test_a_rewrite_after_a_drop_takes_the_values_with_it(table):
    for at in range(10, 17):
        table.tier([{"id": at, "name": "x", "score": at}])
    newer = table.evolved(dropped(table.spec, "score"))
    before = newer.head()
    newer.compact()
    older = under(newer, table.spec)

    with pytest.raises(PositionMissingError, match="score"):
        older.values()

    assert len(older.values(before.snapshot_id)) == 11


def test_a_column_that_the_lake_never_had_is_not_made_up(table):
    passing = added(table.spec, "passing", IntType())
    later = added(dropped(passing, "passing"), "later", IntType())
    newer = table.evolved(later)
    newer.tier([{"id": 9, "name": "n9", "score": 1, "later": 2}])

    with pytest.raises(PositionMissingError, match="passing"):
        under(table, passing).values()


def test_filters_may_look_at_columns_as_they_were(table):
    before = table.head()
    newer = table.evolved(renamed(dropped(table.spec, "score"), "name", "title"))
    newer.tier([{"id": 9, "title": "n9"}])
    older = under(newer, table.spec)
    wanted = [Leaf(LeafFunction.EQUAL, 2, (20,)), Leaf(LeafFunction.EQUAL, 1, ("n2",))]

    source, answer = older.source.with_filters(wanted)

    assert ROWS[2] in older.rows(before.snapshot_id, source=source).to_pylist()
    assert answer.remaining == tuple(wanted)


def test_splits_of_an_older_schema_can_be_narrowed(table):
    newer = table.evolved(dropped(table.spec, "score"))
    newer.tier([{"id": 9, "name": "n9"}])
    older = under(newer, table.spec)
    source = older.source

    splits = [
        replace(split, files=tuple(file for file in split.files if file.names is not None))
        for split in source.plan(newer.head().snapshot_id)
    ]

    if all(file.stands_alone for split in splits for file in split.files):
        batches = [batch for split in splits if split.files for batch in source.read(split)]
        assert [row for batch in batches for row in batch.to_pylist()] == ROWS
