"""Which engine a write gets, and what it shows."""

import dataclasses

import numpy as np
import pytest

from headwater.config.options import ChangelogImage, DeleteBehavior
from headwater.config.table_options import KvOptions
from headwater.errors import (
    DeletionDisabledError,
    InvalidTableError,
    InvalidTargetColumnError,
    NumbersExhaustedError,
    UnsupportedError,
)
from headwater.kv.merge.batch import Writes
from headwater.kv.merge.engine import delete_behavior_of, engine_of, fold
from headwater.model.types import BigIntType, IntType, StringType, TimestampType
from tests.cases import cases
from tests.kv.merge.tables import Table, folded, plain, table

ROWS = table(plain("a"), plain("b"))
NUMBERED = table(plain("id", IntType()), plain("a"), numbered="id")
SUMS = table(folded("a", "sum"), folded("b", "sum"))
AGGREGATION = {"table.merge-engine": "aggregation"}
FIRST_ROW = {"table.merge-engine": "first_row"}
VERSIONED = {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "a"}
PLAIN_OPTIONS = KvOptions.of({})


def never():
    raise AssertionError("no row is needed")


def last_row_plan(key_of, is_delete, is_held, image=ChangelogImage.FULL):
    engine = engine_of(ROWS, PLAIN_OPTIONS, target_columns=None, overwrite=False)
    writes = Writes(
        np.array(key_of, dtype=np.int64),
        np.array(is_delete, dtype=np.bool_),
        np.array(is_held, dtype=np.bool_),
        never,
        never,
    )
    return fold(engine, writes, image=image)


def test_the_last_row_is_kept_without_looking_at_any_row():
    plan = last_row_plan([0, 1, 0, 2, 2], [False, False, True, True, False], [True, False, False])

    assert plan.types.tolist() == [2, 3, 1, 4, 1]
    assert plan.sources.tolist() == [0, 3, 4, 3, 7]
    assert plan.final.tolist() == [-1, 4, 7]
    assert plan.combined is None


def test_an_empty_batch_changes_nothing():
    plan = last_row_plan([], [], [])

    assert (len(plan.types), len(plan.sources), len(plan.final)) == (0, 0, 0)


def test_a_wal_image_of_whole_rows_does_not_tell_inserts_from_updates():
    plan = last_row_plan([0, 1, 1], [False, False, True], [True, False], image=ChangelogImage.WAL)

    assert plan.types.tolist() == [3, 3, 4]
    assert plan.sources.tolist() == [2, 3, 3]


@cases("properties", [AGGREGATION, FIRST_ROW, VERSIONED])
def test_a_wal_image_of_a_merge_engine_tells_inserts_from_updates(properties):
    merged = Table(ROWS, properties, ChangelogImage.WAL)

    changes = merged.put([(0, (0, 1, 1)), (0, (0, 2, 2))])

    expected = [("+I", (0, 1, 1)), ("+U", (0, 2, 2))]
    assert changes == expected[: 1 if properties is FIRST_ROW else 2]


def test_inserts_of_an_aggregated_table_ask_for_no_rows():
    merged = Table(SUMS, AGGREGATION)

    merged.put([(0, (0, 1, 2)), (1, (1, 3, 4))])

    assert merged.asked == []


def test_a_hot_key_is_folded_to_the_end():
    merged = Table(SUMS, AGGREGATION)

    changes = merged.put([(0, (0, 1, number)) for number in range(10_000)])

    assert merged.rows == {0: (0, 10_000, 49_995_000)}
    assert len(changes) == 2 * 10_000 - 1
    assert changes[-2:] == [("-U", (0, 9_999, 49_985_001)), ("+U", (0, 10_000, 49_995_000))]


def test_a_write_of_keys_alone_inserts_but_never_updates():
    merged = Table(ROWS)

    assert merged.put([(0, (0, None, None))], targets=[0]) == [("+I", (0, None, None))]
    assert merged.put([(0, (0, None, None))], targets=[0]) == []


def test_an_inserted_row_has_no_values_in_columns_that_are_not_written():
    merged = Table(ROWS)

    assert merged.put([(0, (0, 1, 2))], targets=[0, 1]) == [("+I", (0, 1, None))]


def test_a_partial_delete_takes_its_columns_and_then_the_row():
    merged = Table(ROWS, rows={0: (0, 1, 2)})

    first = merged.put([(0, None)], targets=[0, 1])
    second = merged.put([(0, None)], targets=[0, 2])

    assert first == [("-U", (0, 1, 2)), ("+U", (0, None, 2))]
    assert second == [("-D", (0, None, 2))]


def test_new_rows_are_numbered_in_the_order_of_records():
    merged = Table(NUMBERED)

    merged.put([(5, (5, None, 1)), (3, (3, None, 1)), (5, (5, None, 2))], targets=[0, 2])
    merged.put([(5, None), (5, (5, None, 3)), (4, (4, None, 1))], targets=[0, 2])

    assert merged.rows == {5: (5, 1, 3), 3: (3, 2, 1), 4: (4, 3, 1)}


def test_a_number_that_does_not_fit_its_column_is_refused():
    merged = Table(NUMBERED, next_id=2**31)

    with pytest.raises(NumbersExhaustedError, match="Column 'id'"):
        merged.put([(0, (0, None, 1))], targets=[0, 2])


def test_a_missing_version_is_the_smallest():
    merged = Table(ROWS, VERSIONED)

    merged.put([(0, (0, None, 1)), (0, (0, -5, 2)), (0, (0, None, 3))])

    assert merged.rows == {0: (0, -5, 2)}


def test_versions_can_be_points_in_time():
    schema = table(plain("a", TimestampType(precision=9)), plain("b"))
    merged = Table(schema, VERSIONED)

    merged.put([(0, (0, 5, 1)), (0, (0, 4, 2)), (0, (0, 5, 3))])

    assert merged.rows[0][2] == 3


def test_to_overwrite_is_to_set_the_merge_engine_aside():
    merged = Table(SUMS, {**AGGREGATION, "table.delete.behavior": "disable"}, rows={0: (0, 1, 2)})

    changes = merged.put([(0, (0, 7, 7)), (0, None)], overwrite=True)

    assert [symbol for symbol, _ in changes] == ["-U", "+U", "-D"]


@cases("properties", [{}, AGGREGATION, FIRST_ROW, VERSIONED])
def test_a_disabled_delete_fails_the_whole_batch(properties):
    merged = Table(ROWS, {**properties, "table.delete.behavior": "disable"})

    with pytest.raises(DeletionDisabledError):
        merged.put([(0, (0, 1, 1)), (1, None)])

    assert merged.rows == {}


def test_a_merge_engine_ignores_deletes_unless_told_otherwise():
    unset = [delete_behavior_of(KvOptions.of(one)) for one in ({}, AGGREGATION, FIRST_ROW)]
    allowed = KvOptions.of({**AGGREGATION, "table.delete.behavior": "allow"})

    assert unset == [DeleteBehavior.ALLOW, DeleteBehavior.IGNORE, DeleteBehavior.IGNORE]
    assert delete_behavior_of(allowed) is DeleteBehavior.ALLOW


@cases("properties", [FIRST_ROW, VERSIONED])
def test_engines_that_pick_a_row_take_no_partial_updates(properties):
    with pytest.raises(UnsupportedError, match="partial"):
        Table(ROWS, properties).put([(0, (0, 1, None))], targets=[0, 1])


@cases("properties", [{}, AGGREGATION])
@cases("targets", [[1], [0, 3], [-1, 0]])
def test_target_columns_must_exist_and_contain_the_key(properties, targets):
    with pytest.raises(InvalidTargetColumnError):
        Table(ROWS, properties).put([(0, (0, 1, 1))], targets=targets)


@cases("properties", [{}, AGGREGATION])
def test_a_partial_update_needs_nullable_columns(properties):
    schema = table(plain("a"), plain("b", BigIntType(nullable=False)))

    with pytest.raises(InvalidTargetColumnError, match="'b' is NOT NULL"):
        Table(schema, properties).put([(0, (0, 1, 1))], targets=[0, 1])


def test_all_columns_as_targets_are_a_whole_row():
    schema = table(plain("a"), plain("b", BigIntType(nullable=False)))
    merged = Table(schema)

    merged.put([(0, (0, 1, 1))], targets=[2, 1, 0])

    assert merged.asked == []


@cases("targets", [None, [0, 1, 2]])
def test_the_auto_increment_column_cannot_be_written(targets):
    with pytest.raises(InvalidTargetColumnError, match="'id'"):
        Table(NUMBERED).put([(0, (0, 9, 1))], targets=targets)


@cases("column", [None, "b"])
def test_a_version_column_must_be_named_and_ordered(column):
    schema = table(plain("a"), plain("b", StringType()))
    options = dataclasses.replace(KvOptions.of(VERSIONED), version_column=column)

    with pytest.raises(InvalidTableError, match="version"):
        engine_of(schema, options, target_columns=None, overwrite=False)
