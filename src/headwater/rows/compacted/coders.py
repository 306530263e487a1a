"""Encoders and decoders between Arrow columns and compacted rows or keys, made once per schema."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError
from headwater.model import Schema, types
from headwater.model.arrow import arrow_schema, arrow_type
from headwater.rows.compacted import row
from headwater.rows.compacted.forms import (
    DECIMAL_BYTES,
    AnyBytes,
    CoarseTimestamp,
    FineTimestamp,
    FixedBytes,
    Flag,
    Form,
    LargeDecimal,
    Origin,
    Plain,
    SmallDecimal,
    Text,
    TimeOfDay,
)
from headwater.rows.compacted.nested import ArrayForm, MapForm, RowForm
from headwater.rows.row_bytes import Longs, RowBytes

# The form of each data type, built once per schema.

_COARSE_PRECISION_MAX = 3
_SMALL_DIGITS_MAX = 18
_BYTE = np.dtype(np.uint8)
_INT = np.dtype(np.int32)
_LONG = np.dtype(np.int64)
_FIXED: dict[type[types.DataType], np.dtype[np.generic]] = {
    types.TinyIntType: np.dtype(np.int8),
    types.SmallIntType: np.dtype(np.int16),
    types.FloatType: np.dtype(np.float32),
    types.DoubleType: np.dtype(np.float64),
}
_PACKED: dict[type[types.DataType], np.dtype[np.generic]] = {
    types.IntType: _INT,
    types.DateType: _INT,
    types.BigIntType: _LONG,
}


def fields_of(data_types: Sequence[types.DataType]) -> tuple[row.Field, ...]:
    """Build the fields of rows with these column types."""
    return tuple(
        _field(f"column {index} ({_kind(each)})", each) for index, each in enumerate(data_types)
    )


def form_of(data_type: types.DataType) -> Form:
    """Pick the form of a type."""
    arrow = arrow_type(data_type)
    match data_type:
        case types.BooleanType():
            return Flag(arrow, _BYTE, is_packed=False)
        case types.StringType() | types.CharType():
            return Text(arrow, is_inlined=True, reserved_bytes=0)
        case types.BytesType():
            return AnyBytes(arrow, is_inlined=True, reserved_bytes=0)
        case types.BinaryType():
            return FixedBytes(arrow, is_inlined=True, reserved_bytes=0)
        case _ if (dtype := _FIXED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=False)
        case _ if (dtype := _PACKED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=True)
        case types.ArrayType() | types.MapType() | types.RowType():
            return _nested_form(data_type)
        case _:
            return _precise_form(data_type)


def _kind(data_type: types.DataType) -> str:
    return str(data_type.not_null()).removesuffix(" NOT NULL")


def _nested_form(data_type: types.ArrayType | types.MapType | types.RowType) -> Form:
    arrow = arrow_type(data_type)
    match data_type:
        case types.ArrayType(element=element):
            item = _field("item", element)
            return ArrayForm(arrow, is_inlined=False, reserved_bytes=0, element=item)
        case types.MapType(key=key, value=value):
            keys, values = _field("key", key.not_null()), _field("value", value)
            return MapForm(arrow, is_inlined=False, reserved_bytes=0, key=keys, value=values)
        case types.RowType(fields=fields):
            inner = tuple(_field(field.name, field.type) for field in fields)
            return RowForm(arrow, is_inlined=False, reserved_bytes=0, fields=inner)


def _field(name: str, data_type: types.DataType) -> row.Field:
    return row.Field(name, form_of(data_type), arrow_type(data_type), data_type.nullable)


def _precise_form(data_type: types.DataType) -> Form:
    arrow = arrow_type(data_type)
    match data_type:
        case types.TimestampType(precision=precision) | types.TimestampLtzType(precision=precision):
            if precision > _COARSE_PRECISION_MAX:
                return FineTimestamp(arrow)
            return CoarseTimestamp(arrow, _LONG, is_packed=True)
        case types.TimeType():
            return TimeOfDay(arrow, _INT, is_packed=True)
        case types.DecimalType(precision=precision):
            if precision > _SMALL_DIGITS_MAX:
                return LargeDecimal(arrow, is_inlined=False, reserved_bytes=DECIMAL_BYTES)
            return SmallDecimal(arrow, _LONG, is_packed=True)
        case _:
            raise AssertionError(f"{data_type} has no form")


# Arrow columns to compacted rows.


@dataclass(frozen=True, slots=True, eq=False)
class RowEncoder:
    """Encode rows of one schema; made once for many batches."""

    forms: tuple[Form, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "RowEncoder":
        """Work out how to encode columns of these types."""
        return cls(tuple(form_of(each) for each in data_types))

    def encode(self, columns: Sequence[pa.Array]) -> RowBytes:
        """Encode one row per element of the columns, which all have the same length."""
        return row.write_rows(self.forms, columns, with_null_bits=True)


# Compacted rows to Arrow columns.

_ORIGIN = Origin("")


@dataclass(frozen=True, slots=True, eq=False)
class RowDecoder:
    """Decode rows of one schema; made once for many batches."""

    fields: tuple[row.Field, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "RowDecoder":
        """Work out how to decode columns of these types."""
        return cls(fields_of(data_types))

    def decode(self, rows: RowBytes, *, enforce_not_null: bool = True) -> list[pa.Array]:
        """Decode all rows, or reject the first that is malformed.

        Rows of a partial update have nulls in columns that they leave alone, so the caller decides
        whether NOT NULL is enforced. Nested fields always enforce it.
        """
        return row.read_rows(self.fields, rows, _ORIGIN, enforce_not_null=enforce_not_null)


# Keys: compacted rows of the key columns, without null bits.

_KEY_ORIGIN = Origin("key")


@dataclass(frozen=True, slots=True, eq=False)
class KeyEncoder:
    """Encode keys of one schema; made once for many batches."""

    fields: tuple[row.Field, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "KeyEncoder":
        """Work out how to encode key columns of these types."""
        return cls(fields_of(data_types))

    def encode(self, columns: Sequence[pa.Array]) -> RowBytes:
        """Encode one key per element of the columns, none of which may be null."""
        for field, column in zip(self.fields, columns, strict=True):
            if column.null_count:
                raise InvalidValueError(
                    f"{field.name} of a key contains {column.null_count} nulls.",
                    hint="Set every primary-key column in every row.",
                )
        return row.write_rows([field.form for field in self.fields], columns, with_null_bits=False)


@dataclass(frozen=True, slots=True, eq=False)
class KeyDecoder:
    """Decode keys of one schema; made once for many batches."""

    fields: tuple[row.Field, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "KeyDecoder":
        """Work out how to decode key columns of these types."""
        return cls(fields_of(data_types))

    def decode(self, keys: RowBytes) -> list[pa.Array]:
        """Decode all keys, or reject the first that is malformed."""
        return row.read_all(self.fields, keys, _KEY_ORIGIN)

    def prefix_ends(self, keys: RowBytes, count: int) -> Longs:
        """Return the position just after the first `count` fields of each key."""
        if not len(keys):
            return keys.starts
        cursor = row.RowCursor.over(keys, _KEY_ORIGIN)
        for field in self.fields[:count]:
            cursor.origin = _KEY_ORIGIN.named(f"key.{field.name}")
            row.pass_field(field.form, cursor)
        return cursor.at


# Rows written under one schema, read under another.


def adapted(columns: Sequence[pa.Array], written: Schema, wanted: Schema) -> pa.RecordBatch:
    """Convert columns to another schema, matched by id; new ones are null."""
    count = len(columns[0])
    by_id = {
        column.column_id: array for column, array in zip(written.columns, columns, strict=True)
    }
    schema = arrow_schema(wanted)
    # A column never changes its type, so an array fits wherever its id is used.
    arrays = [
        by_id[column.column_id] if column.column_id in by_id else pa.nulls(count, field.type)
        for column, field in zip(wanted.columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def decoder_of(schema: Schema) -> RowDecoder:
    """Make the decoder for rows of a schema."""
    return RowDecoder.of([column.type for column in schema.columns])


def encoder_of(schema: Schema) -> RowEncoder:
    """Make the encoder for rows of a schema."""
    return RowEncoder.of([column.type for column in schema.columns])


def key_encoder_of(schema: Schema, key_columns: Sequence[str]) -> KeyEncoder:
    """Make the encoder for keys of these columns, in this order."""
    return KeyEncoder.of([schema.column(name).type for name in key_columns])
