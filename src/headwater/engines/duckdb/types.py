"""The types of DuckDB that stand for those of tables."""

from headwater.engines.duckdb.quoting import name_sql
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

_PLAIN: dict[type[DataType], str] = {
    BooleanType: "BOOLEAN",
    TinyIntType: "TINYINT",
    SmallIntType: "SMALLINT",
    IntType: "INTEGER",
    BigIntType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    StringType: "VARCHAR",
    CharType: "VARCHAR",
    BytesType: "BLOB",
    BinaryType: "BLOB",
    DateType: "DATE",
}
_MICROS_PRECISION_MAX = 6


def type_sql(data_type: DataType) -> str:
    """Return the type of a column.

    Moments are in microseconds wherever that is fine enough, as DuckDB reads them from files:
    so that nothing has to be converted there, and comparisons reach the statistics of files.
    """
    match data_type:
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case TimeType(precision=precision):
            return "TIME" if precision <= _MICROS_PRECISION_MAX else "TIME_NS"
        case TimestampType(precision=precision):
            return "TIMESTAMP" if precision <= _MICROS_PRECISION_MAX else "TIMESTAMP_NS"
        case TimestampLtzType(precision=precision):
            return "TIMESTAMPTZ" if precision <= _MICROS_PRECISION_MAX else "TIMESTAMPTZ_NS"
        case ArrayType() | MapType() | RowType():
            return _nested_sql(data_type)
        case _:
            return _PLAIN[type(data_type)]


def _nested_sql(data_type: ArrayType | MapType | RowType) -> str:
    match data_type:
        case ArrayType(element=element):
            return f"{type_sql(element)}[]"
        case MapType(key=key, value=value):
            return f"MAP({type_sql(key)}, {type_sql(value)})"
        case RowType(fields=fields):
            inner = (f"{name_sql(field.name)} {type_sql(field.type)}" for field in fields)
            return f"STRUCT({', '.join(inner)})"
