"""A file that holds a changed key is never taken for one that does not."""

import math
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.lake.split import ColumnBounds, LakeFile
from headwater.model.predicate import Literal
from headwater.model.types import (
    BigIntType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)
from headwater.read.merge.bounds import KeyExtent, KeyRanges
from tests.cases import cases
from tests.client.union.merge.folds import LIMITS, folded_of
from tests.client.union.merge.histories import History, histories, identity, table_of


def literal_of(value: object, kind: DataType) -> Literal:
    """Return a value of a column in the form of filters."""
    match kind:
        case TimeType(precision=6):
            return int(str(value)) // 1_000
        case TimestampType(precision=6):
            return int(str(value)) * 1_000
        case TimestampLtzType(precision=3):
            return int(str(value)) * 1_000_000
    assert isinstance(value, bool | int | float | str | bytes | Decimal)
    return value


def bounds_of(values: Sequence[object], kind: DataType, column_id: int) -> ColumnBounds | None:
    """Return the bounds of values, as lakes tell them."""
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return None
    ordered = sorted(values, key=lambda value: value.encode() if isinstance(value, str) else value)
    lower, upper = (literal_of(value, kind) for value in (ordered[0], ordered[-1]))
    return ColumnBounds(column_id=column_id, lower=lower, upper=upper)


def file_of(*bounds: ColumnBounds | None) -> LakeFile:
    known = tuple(each for each in bounds if each is not None)
    return LakeFile(path="f", row_count=1, byte_count=1, is_plain=True, bounds=known)


def single(lower: Literal, upper: Literal) -> LakeFile:
    return file_of(ColumnBounds(column_id=0, lower=lower, upper=upper))


def ranges_of(kind: DataType, values: Sequence[object]) -> list[KeyRanges | KeyExtent]:
    """Return changed keys in both forms in which they are compared with bounds."""
    history = History(table_of([kind]))
    keys = history.rows([((value,), 0) for value in values]).select(["k0"])
    whole = KeyRanges.of(history.table, pa.Table.from_batches([keys]))
    return [whole, KeyExtent.of(history.table).with_keys(keys)]


@given(histories(), st.integers(1, 10), LIMITS)
def test_no_file_with_a_changed_key_is_left_out(history: History, size: int, limit: int) -> None:
    folded = folded_of(history, limit=limit)
    keys = [key for key, _ in history.lake.values()]
    first = len(history.table.descriptor.partition_keys)

    for at in range(0, len(keys), size):
        some = keys[at : at + size]
        file = file_of(
            *(
                bounds_of([key[column] for key in some], kind, first + column)
                for column, kind in enumerate(history.types)
            )
        )
        is_changed = any(identity(key) in history.changed for key in some)
        assert folded.may_touch(file) or not is_changed


BEYOND = [
    (BigIntType(), [5, 7], (8, 9)),
    (BigIntType(), [5, 7], (-(2**63), 4)),
    (StringType(), ["b", "c"], ("ca", "d")),
    (StringType(), ["\U0001f600"], ("a", "\uffff")),
    (DateType(), [10, 20], (21, 30)),
    (DecimalType(precision=5, scale=2), [Decimal("1.25")], (Decimal("1.26"), Decimal(2))),
    (DecimalType(precision=38, scale=0), [Decimal(10**37)], (Decimal(10**37 + 1), Decimal(10**38))),
    (DoubleType(), [-1.5, 1.5], (1.75, math.inf)),
    (TimeType(precision=6), [5_000], (6, 7)),
    (TimestampType(precision=6), [5], (6_000, 9_000)),
    (TimestampType(precision=3), [5, 6], (7_000_000, 10**30)),
]
WITHIN = [
    (BigIntType(), [5, 7], (7, 9)),
    (BigIntType(), [5, 7], (None, 5)),
    (BigIntType(), [5], ("5", "6")),
    (StringType(), ["b", "c"], ("c", None)),
    (DecimalType(precision=5, scale=2), [Decimal("1.25")], (Decimal("1.2"), Decimal("1.25"))),
    (DecimalType(precision=38, scale=0), [Decimal(10**37)], (Decimal(0), Decimal(10**40))),
    (DoubleType(), [-0.0], (0.0, 1.0)),
    (DoubleType(), [0.0], (-1.0, -0.0)),
    (DoubleType(), [math.nan], (1.0, 2.0)),
    (DoubleType(), [1.0], (math.nan, 2.0)),
    (TimeType(precision=6), [5_900], (5, 5)),
    (TimestampType(precision=6), [5], (4_999, 5_001)),
]


@cases(("kind", "values", "bounds"), BEYOND)
def test_a_file_whose_bounds_exclude_all_keys_is_not_touched(
    kind: DataType, values: Sequence[object], bounds: tuple[Literal, Literal]
) -> None:
    file = single(*bounds)

    assert [held.may_meet(file) for held in ranges_of(kind, values)] == [False, False]


@cases(("kind", "values", "bounds"), WITHIN)
def test_a_file_whose_bounds_include_a_key_or_are_unknown_may_be_touched(
    kind: DataType, values: Sequence[object], bounds: tuple[Literal, Literal]
) -> None:
    file = single(*bounds)

    assert [held.may_meet(file) for held in ranges_of(kind, values)] == [True, True]


def test_one_key_must_lie_within_the_bounds_of_all_columns() -> None:
    history = History(table_of([BigIntType(), StringType()]))
    for key in ((1, "b"), (2, "a"), (3, "b")):
        history.put(key, 0, is_wal=True)
    folded = folded_of(history)

    def touched(low: int, high: int, text: str) -> bool:
        bounds = ColumnBounds(column_id=1, lower=text, upper=text)
        return folded.may_touch(file_of(ColumnBounds(column_id=0, lower=low, upper=high), bounds))

    assert touched(1, 2, "b")
    assert not touched(2, 2, "b")
    assert not touched(1, 3, "c")


def test_nothing_is_touched_without_changes() -> None:
    history = History(table_of([BigIntType()]))

    assert not folded_of(history).may_touch(file_of())
