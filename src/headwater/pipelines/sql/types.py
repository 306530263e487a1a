"""Types of Flink SQL: which of ours they are, and what Spark calls them."""

import re

from headwater.errors import InvalidTableError
from headwater.model.type_text import parse_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

# The length of these is not stored: Flink does not check it on writes either, unless told to.
_LIMITED = re.compile(r"\b(VARCHAR|VARBINARY)\s*\(\s*\d+\s*\)", re.IGNORECASE)
_CHARACTERS = re.compile(r"\s*(VARCHAR|CHARACTER VARYING|CHAR)\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_PLAIN = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
_REFUSED = {
    "MULTISET": "Write MAP<t, INT> with the count of each element, or ARRAY<t>.",
    "RAW": "A column of Java objects has no meaning here; write BYTES or STRING.",
    "NULL": "Give the column a type, for instance STRING.",
    "SYMBOL": "Write STRING.",
    "INTERVAL": "Write BIGINT with a number of seconds or milliseconds.",
    "VARIANT": "Write STRING with JSON in it.",
    "DESCRIPTOR": "Write STRING.",
}
_FIRST_WORD = re.compile(r"\s*(\w+)")
_NESTED = re.compile(r"\b(MULTISET|RAW|INTERVAL|VARIANT)\b", re.IGNORECASE)
_WITH_ZONE = re.compile(r"\bTIMESTAMP\s*(\(\s*\d+\s*\))?\s*WITH\s+TIME\s+ZONE\b", re.IGNORECASE)
_SPARK_PLAIN: dict[type[DataType], str] = {
    BooleanType: "BOOLEAN",
    TinyIntType: "TINYINT",
    SmallIntType: "SMALLINT",
    IntType: "INT",
    BigIntType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    StringType: "STRING",
    CharType: "STRING",
    BytesType: "BINARY",
    BinaryType: "BINARY",
    DateType: "DATE",
    TimestampType: "TIMESTAMP_NTZ",
    TimestampLtzType: "TIMESTAMP",
}
_SPARK_TIME_PRECISION_MAX = 6


def flink_type(text: str) -> DataType:
    """Read a type as Flink writes it; raises `InvalidTableError` for one that is not supported."""
    if _WITH_ZONE.search(text):
        raise InvalidTableError(
            "TIMESTAMP WITH TIME ZONE is not supported.",
            hint="Write TIMESTAMP_LTZ, an instant, or TIMESTAMP and a column with the zone.",
        )
    word = _FIRST_WORD.match(text)
    name = word[1].upper() if word else ""
    found = _NESTED.search(text)
    refused = name if name in _REFUSED else found[1].upper() if found and "`" not in text else None
    if refused is not None:
        raise InvalidTableError(f"The type {refused} is not supported.", hint=_REFUSED[refused])
    return parse_type(_LIMITED.sub(lambda match: _PLAIN[match[1].upper()], text))


def characters(text: str) -> tuple[bool, int] | None:
    """Of `CHAR(n)` and `VARCHAR(n)`: whether it is padded, and its length; else None."""
    match = _CHARACTERS.fullmatch(text)
    return None if match is None else (match[1].upper() == "CHAR", int(match[2]))


def spark_type(data_type: DataType) -> str:
    """Write a type as Spark SQL does."""
    match data_type:
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case TimeType(precision=precision):
            return f"TIME({min(precision, _SPARK_TIME_PRECISION_MAX)})"
        case ArrayType(element=element):
            return f"ARRAY<{spark_type(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{spark_type(key)}, {spark_type(value)}>"
        case RowType(fields=fields):
            each = (f"{quoted(field.name)}: {spark_type(field.type)}" for field in fields)
            return f"STRUCT<{', '.join(each)}>"
        case _:
            return _SPARK_PLAIN[type(data_type)]


def quoted(name: str) -> str:
    """Put a name into backticks."""
    return f"`{name.replace('`', '``')}`"
