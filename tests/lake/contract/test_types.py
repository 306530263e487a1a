"""Every type comes back as it went in, or is refused when the table is made."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, UnsupportedError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    RowField,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from tests.lake.contract.samples import SAMPLES, numbers_of
from tests.rows.strategies import arrays

DAY_MS = 86_400_000
FINE = [
    kind(precision=precision)
    for kind in (TimeType, TimestampType, TimestampLtzType)
    for precision in (0, 1, 3, 6, 7, 9)
]
NESTED = [
    ArrayType(element=IntType()),
    ArrayType(element=StringType(nullable=False)),
    ArrayType(element=ArrayType(element=DateType())),
    MapType(key=StringType(nullable=False), value=DoubleType()),
    MapType(key=IntType(nullable=False), value=ArrayType(element=BooleanType())),
    RowType(
        fields=(
            RowField(name="x", type=SmallIntType(), field_id=20),
            RowField(name="y", type=CharType(length=3), field_id=21),
            RowField(
                name="z",
                type=RowType(
                    fields=(RowField(name="deep", type=TimestampType(), field_id=23),),
                ),
                field_id=22,
            ),
        )
    ),
    ArrayType(
        element=RowType(fields=(RowField(name="d", type=DecimalType(precision=7), field_id=20),))
    ),
]
DRAWN = (
    BooleanType(),
    TinyIntType(),
    SmallIntType(),
    IntType(),
    BigIntType(),
    FloatType(),
    DoubleType(),
    StringType(),
    BytesType(),
    CharType(length=5),
    BinaryType(length=4),
    DecimalType(precision=38, scale=10),
    DecimalType(precision=5, scale=2),
    *NESTED[:5],
)


def table_of(tables, kind, **options):
    return tables.make({"id": BigIntType(nullable=False), "value": kind}, **options)


def batch_of(table, values: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(len(values)), pa.int64()), values], schema=table.schema)


def came_back(table) -> pa.Array:
    rows = table.rows().sort_by("id")
    assert rows.schema == table.schema
    rows.validate(full=True)
    return rows["value"].combine_chunks()


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
@pytest.mark.parametrize("kind", SAMPLES, ids=str)
def test_a_type_keeps_nulls_and_extremes(tables, kind, key):
    table = table_of(tables, kind, key=key)
    values = pa.array(SAMPLES[kind], arrow_type(kind))

    table.tier(batch_of(table, values))

    assert came_back(table).equals(values)


@pytest.mark.parametrize("kind", FINE, ids=str)
def test_a_fine_time_is_kept_exactly_or_refused(tables, kind):
    values = pa.array(numbers_of(kind), arrow_type(kind))
    try:
        table = table_of(tables, kind)
    except UnsupportedError as refused:
        assert kind.precision > 3
        assert "value" in str(refused)
        return

    table.tier(batch_of(table, values))

    assert came_back(table).equals(values)


@pytest.mark.parametrize("kind", [kind for kind in FINE if kind.precision in (0, 3)], ids=str)
def test_times_of_milliseconds_are_kept_by_every_format(tables, kind):
    table_of(tables, kind)


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_numbers_that_are_none_and_signs_of_zero_are_kept(tables, kind):
    table = table_of(tables, kind)
    values = pa.array(
        [float("nan"), -0.0, 0.0, float("inf"), float("-inf"), None], arrow_type(kind)
    )

    table.tier(batch_of(table, values))

    assert str(came_back(table).to_pylist()) == str(values.to_pylist())


@settings(max_examples=6)
@given(data=st.data())
@pytest.mark.parametrize("kind", NESTED, ids=[f"nested-{at}" for at in range(len(NESTED))])
def test_nested_values_come_back_as_they_were(tables, kind, data):
    table = table_of(tables, kind)
    values = data.draw(arrays(kind, 4).filter(_is_readable))

    table.tier(batch_of(table, values))

    assert came_back(table).equals(values)


@settings(max_examples=15)
@given(data=st.data())
def test_rows_of_many_types_come_back_as_they_were(tables, data):
    table = tables.make(
        {"id": BigIntType(nullable=False), **{f"c{at}": kind for at, kind in enumerate(DRAWN)}}
    )
    count = data.draw(st.integers(1, 6))
    columns = [data.draw(arrays(kind, count)) for kind in DRAWN]
    rows = pa.record_batch([pa.array(range(count), pa.int64()), *columns], schema=table.schema)

    table.tier(rows)

    assert table.rows().sort_by("id").combine_chunks().equals(pa.table(rows))


def test_a_moment_that_the_format_cannot_hold_is_refused_and_not_changed(tables):
    kind = TimestampType(precision=0)
    table = table_of(tables, kind)
    values = pa.array([2**62], arrow_type(kind))

    try:
        table.tier(batch_of(table, values))
    except HeadwaterError:
        assert table.committer.head() is None
    else:
        assert came_back(table).equals(values)


def test_a_type_that_cannot_be_null_stays_so_in_what_is_read(tables):
    table = tables.make({"id": BigIntType(nullable=False), "name": StringType(nullable=False)})

    table.tier([{"id": 1, "name": "a"}])

    assert table.rows().schema == table.schema


def _is_readable(values: pa.Array) -> bool:
    # Days far outside the calendar of Python are drawn too; samples look at those.
    try:
        values.to_pylist()
    except (OverflowError, ValueError):
        return False
    return True
