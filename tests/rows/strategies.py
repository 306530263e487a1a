"""Random types, schemas, rows and batches for the tests of every layer."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from headwater.model.arrow import arrow_schema, arrow_type
from headwater.model.schema import Column, Schema, with_column_ids
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
    RowField,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.rows.log_batch import build_batch

ROWS_MAX = 12
DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
COMPRESSIONS = (None, "lz4", "zstd")
INTEGER_BITS = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}


def compressions() -> st.SearchStrategy[str | None]:
    return st.sampled_from(COMPRESSIONS)


def scalar_types() -> st.SearchStrategy[DataType]:
    nullable = st.booleans()
    plain = (BooleanType, FloatType, DoubleType, StringType, BytesType, DateType, *INTEGER_BITS)
    precision = st.integers(0, 9)
    return st.one_of(
        *(st.builds(kind, nullable=nullable) for kind in plain),
        st.builds(CharType, nullable=nullable, length=st.integers(1, 9)),
        st.builds(BinaryType, nullable=nullable, length=st.integers(1, 20)),
        decimal_types(),
        *(
            st.builds(kind, nullable=nullable, precision=precision)
            for kind in (TimeType, TimestampType, TimestampLtzType)
        ),
    )


@st.composite
def decimal_types(draw) -> DecimalType:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    return DecimalType(nullable=draw(st.booleans()), precision=precision, scale=scale)


def data_types() -> st.SearchStrategy[DataType]:
    return st.recursive(scalar_types(), nested_types, max_leaves=4)


def nested_types(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    nullable = st.booleans()
    fields = st.lists(inner, min_size=1, max_size=3).map(
        lambda types: tuple(RowField(name=f"f{i}", type=each) for i, each in enumerate(types))
    )
    keys = scalar_types().map(lambda key: key.not_null())
    return st.one_of(
        st.builds(ArrayType, nullable=nullable, element=inner),
        st.builds(MapType, nullable=nullable, key=keys, value=inner),
        st.builds(RowType, nullable=nullable, fields=fields),
    )


def schemas(
    types: st.SearchStrategy[DataType] | None = None, *, columns_max: int = 6
) -> st.SearchStrategy[Schema]:
    chosen = data_types() if types is None else types
    return st.lists(chosen, min_size=1, max_size=columns_max).map(schema_of)


def schema_of(types: list[DataType]) -> Schema:
    columns = tuple(Column(name=f"c{i}", type=each) for i, each in enumerate(types))
    return with_column_ids(Schema(columns=columns))


def record_batches(
    schema: Schema, *, rows_min: int = 1, rows_max: int = ROWS_MAX, nan: bool = False
) -> st.SearchStrategy[pa.RecordBatch]:
    return st.integers(rows_min, rows_max).flatmap(
        lambda count: st.tuples(
            *(arrays(column.type, count, nan=nan) for column in schema.columns)
        ).map(lambda columns: pa.record_batch(list(columns), schema=arrow_schema(schema)))
    )


def arrays(data_type: DataType, count: int, *, nan: bool = False) -> st.SearchStrategy[pa.Array]:
    kind = arrow_type(data_type)
    rows = st.lists(values(data_type, nan=nan), min_size=count, max_size=count)
    return rows.map(lambda drawn: pa.array(drawn, kind))


def values(data_type: DataType, *, nan: bool = False) -> st.SearchStrategy[object]:
    present = _present(data_type, nan=nan)
    return st.none() | present if data_type.nullable else present


def _present(data_type: DataType, *, nan: bool) -> st.SearchStrategy[object]:
    match data_type:
        case ArrayType(element=element):
            return st.lists(values(element, nan=nan), max_size=3)
        case MapType(key=key, value=value):
            pairs = st.tuples(values(key, nan=nan), values(value, nan=nan))
            return st.lists(pairs, max_size=3)
        case RowType(fields=fields):
            return st.fixed_dictionaries({f.name: values(f.type, nan=nan) for f in fields})
        case _:
            return _scalar(data_type, nan=nan)


def _scalar(data_type: DataType, *, nan: bool) -> st.SearchStrategy[object]:
    match data_type:
        case BooleanType():
            return st.booleans()
        case FloatType() | DoubleType():
            return st.floats(width=arrow_type(data_type).bit_width, allow_nan=nan)
        case StringType():
            return st.text(max_size=12)
        case CharType(length=length):
            return st.text(max_size=length)
        case BytesType():
            return st.binary(max_size=12)
        case BinaryType(length=length):
            return st.binary(min_size=length, max_size=length)
        case DecimalType(precision=precision, scale=scale):
            top = 10**precision - 1
            return st.integers(-top, top).map(lambda n: Decimal((n < 0, _digits(n), -scale)))
        case _:
            return _whole(data_type)


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def _whole(data_type: DataType) -> st.SearchStrategy[int]:
    match data_type:
        case TimeType():
            return st.integers(0, DAY[arrow_type(data_type).unit] - 1)
        case DateType():
            return st.integers(-(2**31), 2**31 - 1)
        case TimestampType() | TimestampLtzType():
            return st.integers(-(2**62), 2**62)
        case _:
            bits = INTEGER_BITS[type(data_type)]
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def message_of(rows: pa.RecordBatch, compression: str | None = None) -> bytes:
    """Encode rows as one Arrow message, without schema and end of stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    stream = sink.getvalue()
    return bytes(stream[rows.schema.serialize().size : stream.size - 8])


def log_batch_of(rows: pa.RecordBatch, compression: str | None = None, **fields) -> bytes:
    """Encode rows as one log record batch."""
    message = message_of(rows, compression)
    return build_batch(message, schema_id=1, record_count=rows.num_rows, **fields)


def is_storable(data_type: DataType) -> bool:
    """Tell whether compacted rows keep every drawn value: times are milliseconds in them."""
    match data_type:
        case TimeType(precision=precision):
            return precision <= 3
        case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
            return precision > 0
        case ArrayType(element=element):
            return is_storable(element)
        case MapType(key=key, value=value):
            return is_storable(key) and is_storable(value)
        case RowType(fields=fields):
            return all(is_storable(field.type) for field in fields)
        case _:
            return True
