"""Every data type has its Iceberg type, or is refused with a remedy."""

import pytest
from pyiceberg import types as ice

from headwater.errors import UnsupportedError
from headwater.lake.iceberg.types import FIELD_ID, iceberg_type, parquet_field
from headwater.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DecimalType,
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
from tests.cases import cases

NESTED = RowType(
    fields=(
        RowField(name="a", type=ArrayType(element=IntType(nullable=False))),
        RowField(name="b", type=MapType(key=StringType(), value=TinyIntType())),
    )
)


@cases(
    ("data_type", "expected"),
    [
        (TinyIntType(), ice.IntegerType()),
        (SmallIntType(), ice.IntegerType()),
        (CharType(length=3), ice.StringType()),
        (BinaryType(length=5), ice.FixedType(5)),
        (DecimalType(precision=38, scale=7), ice.DecimalType(38, 7)),
        (TimeType(precision=6), ice.TimeType()),
        (TimestampType(precision=0), ice.TimestampType()),
        (TimestampLtzType(precision=6), ice.TimestamptzType()),
    ],
)
def test_a_type_has_its_place_in_iceberg(data_type, expected):
    assert iceberg_type(data_type, column="c") == expected


@cases("kind", [TimeType, TimestampType, TimestampLtzType])
def test_nanoseconds_are_refused_with_a_remedy(kind):
    with pytest.raises(UnsupportedError, match=r"'c' is a .*\(9\).*at most 6, or .*Paimon"):
        iceberg_type(kind(precision=9), column="c")


def test_nanoseconds_inside_a_row_are_refused_too():
    inner = RowType(fields=(RowField(name="x", type=TimestampType(precision=7)),))

    with pytest.raises(UnsupportedError):
        iceberg_type(ArrayType(element=inner), column="c")


def test_every_field_of_a_file_has_its_id():
    kind = iceberg_type(NESTED, column="c", next_id=iter(range(10, 20)).__next__)

    field = parquet_field(ice.NestedField(1, "c", kind))

    row = field.type
    ids = [
        int(each.metadata[FIELD_ID])
        for each in (
            field,
            *row,
            row.field("a").type.value_field,
            row.field("b").type.key_field,
            row.field("b").type.item_field,
        )
    ]
    assert ids == [1, 10, 11, 12, 13, 14]
    assert not row.field("a").type.value_field.nullable
