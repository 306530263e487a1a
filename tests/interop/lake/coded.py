"""Values in a form that means the same wherever they were read."""

import numpy as np
import pyarrow as pa

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def coded_rows(rows: pa.Table) -> list[list[object]]:
    """Return rows in the order of their texts.

    Decimals, bytes and single floats are texts; days, milliseconds of the day and nanoseconds
    since the epoch are numbers; what is nested is a list.
    """
    columns = [coded(column.combine_chunks()) for column in rows.columns]
    return in_order([list(row) for row in zip(*columns, strict=True)])


def in_order(rows: list[list[object]]) -> list[list[object]]:
    """Return rows in the order of their texts."""
    return sorted(rows, key=repr)


def coded(values: pa.Array) -> list[object]:
    """Return the values of one column."""
    kind = values.type
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).to_pylist()
    if pa.types.is_time(kind):
        return _scaled(values, 10**6)
    if pa.types.is_timestamp(kind):
        return _scaled(values, 1)
    if pa.types.is_nested(kind):
        return [_nested(value) for value in values]
    return [_scalar(value, kind) for value in values.to_pylist()]


def _scaled(values: pa.Array, unit: int) -> list[object]:
    """Return moments as counts of so many nanoseconds."""
    width = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    factor = NANOS[values.type.unit]
    numbers = values.cast(width).to_pylist()
    return [None if number is None else number * factor // unit for number in numbers]


def _scalar(value: object, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_float32(kind):
        return str(np.float32(value))
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    return value.hex() if isinstance(value, bytes) else value


def _nested(value: pa.Scalar) -> object:
    if not value.is_valid:
        return None
    match value:
        case pa.MapScalar():
            pairs = value.values
            return [list(pair) for pair in zip(*map(coded, pairs.flatten()), strict=True)]
        case pa.ListScalar() | pa.LargeListScalar():
            return coded(value.values)
        case _:
            kinds = list(value.type)
            return [coded(pa.array([value[f.name].as_py()], f.type))[0] for f in kinds]
