import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTableError
from headwater.model.type_text import parse_type, type_text
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
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)
from tests.cases import cases
from tests.rows.strategies import data_types


@given(data_types())
def test_every_type_leads_back_to_itself(data_type):
    assert parse_type(type_text(data_type)) == data_type


@given(st.text(min_size=1), st.none() | st.text())
def test_every_field_name_and_comment_leads_back_to_itself(name, comment):
    data_type = RowType(fields=(RowField(name=name, type=IntType(), description=comment),))

    assert parse_type(type_text(data_type)) == data_type


@cases(
    ("text", "expected"),
    [
        ("int", IntType()),
        (" Integer not  null ", IntType(nullable=False)),
        ("BIGINT NULL", BigIntType()),
        ("boolean", BooleanType()),
        ("double precision", DoubleType()),
        ("STRING", StringType()),
        ("VARCHAR", StringType()),
        ("VARCHAR(2147483647)", StringType()),
        ("VARBINARY", BytesType()),
        ("CHAR", CharType(length=1)),
        ("char(3)", CharType(length=3)),
        ("BINARY(4)", BinaryType(length=4)),
        ("DATE", DateType()),
        ("decimal", DecimalType(precision=10, scale=0)),
        ("DECIMAL(5)", DecimalType(precision=5, scale=0)),
        ("NUMERIC(10,2) NOT NULL", DecimalType(precision=10, scale=2, nullable=False)),
        ("TIME", TimeType(precision=0)),
        ("TIME(3) WITHOUT TIME ZONE", TimeType(precision=3)),
        ("TIMESTAMP", TimestampType(precision=6)),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", TimestampType(precision=3)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", TimestampLtzType(precision=3)),
        ("timestamp_ltz(9)", TimestampLtzType(precision=9)),
        ("ARRAY<INT NOT NULL>", ArrayType(element=IntType(nullable=False))),
        (
            "MAP<STRING NOT NULL, ARRAY<DATE>> NOT NULL",
            MapType(
                key=StringType(nullable=False),
                value=ArrayType(element=DateType()),
                nullable=False,
            ),
        ),
        (
            "ROW(a INT, `b c` STRING NOT NULL 'it''s')",
            RowType(
                fields=(
                    RowField(name="a", type=IntType()),
                    RowField(name="b c", type=StringType(nullable=False), description="it's"),
                )
            ),
        ),
    ],
)
def test_types_are_read_as_sql_writes_them(text, expected):
    assert parse_type(text) == expected


def test_the_type_that_was_meant_is_named():
    for text, meant in {
        "int64": "BIGINT",
        "Float64": "DOUBLE",
        "text": "STRING",
        "bool": "BOOLEAN",
        "INTT": "INT",
        "ARRAY<long>": "BIGINT",
        "struct<a INT>": "ROW<a INT, b STRING>",
    }.items():
        with pytest.raises(InvalidTableError, match="There is no type") as caught:
            parse_type(text)
        assert caught.value.hint == f"Write {meant}."
    with pytest.raises(InvalidTableError, match="The types are BOOLEAN, TINYINT"):
        parse_type("thing")


@cases(
    ("text", "place", "why"),
    [
        ("", 1, "expected a type"),
        ("INT INT", 5, "expected nothing more"),
        ("INT NOT", 8, "expected 'NULL'"),
        ("ARRAY<INT", 10, "expected '>'"),
        ("ARRAY INT", 7, "expected '<'"),
        ("MAP<STRING>", 11, "expected ','"),
        ("ROW<a>", 6, "expected a type"),
        ("ROW<>", 5, "expected a field name"),
        ("ROW(a INT>", 10, "expected '\\)'"),
        ("ARRAY<DECIMAL(50, 2)>", 7, "DECIMAL precision must be between 1 and 38, not 50"),
        ("DECIMAL(10, 2, 3)", 1, "DECIMAL takes 2 numbers at most"),
        ("CHAR(0)", 1, "CHAR length must be between 1"),
        ("CHAR(x)", 6, "expected a number"),
        ("CHAR(99999999999)", 6, "expected a number of at most 10 digits"),
        ("CHAR(-1)", 6, "expected a number"),
        ("VARCHAR(20)", 1, "use STRING"),
        ("TIMESTAMP(3) WITH TIME ZONE", 19, "expected 'LOCAL'"),
        ("TIMESTAMP(12)", 1, "TIMESTAMP precision must be between 0 and 9"),
        ("ARRAY<" * 40 + "INT" + ">" * 40, 199, "nested more than 32 levels deep"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text, place, why):
    with pytest.raises(InvalidTableError, match=why) as caught:
        parse_type(text)

    assert f"at character {place}: " in str(caught.value)


@given(st.text(alphabet="INTARYROWMAP<>(),` 'x9é"))
def test_any_text_is_read_or_refused(text):
    try:
        parse_type(text)
    except InvalidTableError as error:
        assert "at character" in str(error) or "There is no type" in str(error)
