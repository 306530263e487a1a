import pytest

from headwater.cluster.schema_in import schema_of
from headwater.errors import InvalidTableError
from headwater.model.type_text import type_text
from tests.cases import cases


class StructType:
    """Stand in for Spark's class, which is asked for its JSON form only."""

    def __init__(self, *fields: dict) -> None:
        self._fields = list(fields)

    def jsonValue(self) -> dict:  # noqa: N802
        return {"type": "struct", "fields": self._fields}


class DataFrame:
    def __init__(self, schema: StructType) -> None:
        self.schema = schema


def field(name: str, kind: object, *, nullable: bool = True, **metadata: str) -> dict:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def text_of(kind: object) -> str:
    (column,) = schema_of(StructType(field("c", kind))).columns
    return type_text(column.type)


@cases(
    ("kind", "text"),
    [
        ("boolean", "BOOLEAN"),
        ("byte", "TINYINT"),
        ("short", "SMALLINT"),
        ("integer", "INT"),
        ("long", "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("string", "STRING"),
        ("varchar(10)", "STRING"),
        ("char(3)", "CHAR(3)"),
        ("binary", "BYTES"),
        ("date", "DATE"),
        ("decimal(10,2)", "DECIMAL(10, 2)"),
        ("timestamp", "TIMESTAMP_LTZ(6)"),
        ("timestamp_ntz", "TIMESTAMP(6)"),
        ("time(3)", "TIME(3)"),
        (
            {"type": "array", "elementType": "long", "containsNull": False},
            "ARRAY<BIGINT NOT NULL>",
        ),
        (
            {
                "type": "map",
                "keyType": "string",
                "valueType": {"type": "array", "elementType": "date", "containsNull": True},
                "valueContainsNull": True,
            },
            "MAP<STRING NOT NULL, ARRAY<DATE>>",
        ),
        (
            {"type": "struct", "fields": [field("a", "long", nullable=False, comment="why")]},
            "ROW<a BIGINT NOT NULL 'why'>",
        ),
    ],
)
def test_spark_types_stand_for_data_types(kind, text):
    assert text_of(kind) == text


@cases("kind", ["void", "variant", "interval day to second", {"type": "udt"}])
def test_spark_types_that_no_table_can_have_are_refused(kind):
    with pytest.raises(InvalidTableError, match="The column 'c' has the Spark type"):
        text_of(kind)


def test_fields_keep_their_comment_and_whether_they_take_nulls():
    struct = StructType(field("id", "long", nullable=False, comment="the key"))

    (column,) = schema_of(struct).columns

    assert (column.comment, type_text(column.type)) == ("the key", "BIGINT NOT NULL")


def test_the_declared_length_of_text_is_found_where_spark_keeps_it():
    kept = field("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(5)")

    (column,) = schema_of(StructType(kept)).columns

    assert type_text(column.type) == "CHAR(5)"


def test_a_spark_frame_has_a_schema():
    frame = DataFrame(StructType(field("id", "long")))

    assert schema_of(frame).names == ("id",)
