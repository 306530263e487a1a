"""Reading keys that lake formats wrote, for the few places that know nothing else of a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import UnsupportedError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    BigIntType,
    BinaryType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    StringType,
    TimestampType,
    TimeType,
)
from headwater.rows.compacted.form_of import fields_of, form_of
from headwater.rows.compacted.forms import InstantForm, NumberForm, Numbers, SpanForm
from headwater.rows.compacted.number_forms import array_of
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.row_read import Field
from headwater.rows.compacted.span_forms import LargeDecimal
from headwater.rows.row_bytes import Longs, RowBytes, Words, overlapping, overlapping_words

_ORIGIN = Origin("key")
_WORD_BYTES = 8
_WORD_BITS = 64
_RESERVED_BITS = 8
_INLINE_BYTES_MAX = 7
_MARK_SHIFT = np.uint64(56)
_INLINE_MARK = np.uint64(0x80)
_POINTER_SHIFT = np.uint64(32)
_SIZE_MASK = np.uint64(0xFFFF_FFFF)
_MICROS_PER_MILLI = 1_000
_PER_MICRO = {"ns": (1_000, 1), "us": (1, 1), "ms": (1, 1_000), "s": (1, 1_000_000)}

_ReadColumn = Callable[[RowBytes], pa.Array]


@dataclass(frozen=True, slots=True, eq=False)
class PaimonKeyReader:
    """Read keys that are Paimon's binary rows; made once for many batches."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "PaimonKeyReader":
        """Work out how to read key columns of these types."""
        return cls(fields_of(types))

    def decode(self, keys: RowBytes) -> list[pa.Array]:
        """Read all keys, or refuse the first that points outside of itself."""
        header = (len(self.fields) + _RESERVED_BITS + _WORD_BITS - 1) // _WORD_BITS
        size = (header + len(self.fields)) * _WORD_BYTES
        _ORIGIN.refuse(keys.lengths < size, "is too short")
        return [
            _read_slot(field, keys, slot_at=keys.starts + (header + index) * _WORD_BYTES)
            for index, field in enumerate(self.fields)
        ]


def _read_slot(field: Field, keys: RowBytes, *, slot_at: Longs) -> pa.Array:
    origin = _ORIGIN.named(f"key.{field.name}")
    slots = overlapping_words(keys.data)[slot_at]
    match field.form:
        case NumberForm() as form:
            return form.from_numbers(overlapping(keys.data, form.dtype)[slot_at], origin)
        case InstantForm() as form:
            nanos = (slots & _SIZE_MASK).view(np.int64)
            tail = _pointed(keys, slots, np.full(len(keys), _WORD_BYTES), origin)
            millis = overlapping_words(keys.data)[tail.starts].view(np.int64)
            return form.join(millis, nanos, origin)
        case LargeDecimal() as form:
            sizes = (slots & _SIZE_MASK).view(np.int64)
            return form.from_spans(_pointed(keys, slots, sizes, origin), origin)
        case SpanForm() as form:
            return form.from_spans(_texts(keys, slots, slot_at=slot_at, origin=origin), origin)


def _texts(keys: RowBytes, slots: Words, *, slot_at: Longs, origin: Origin) -> RowBytes:
    """Find strings in their slots, or where these point to."""
    marks = slots >> _MARK_SHIFT
    is_short = marks >= _INLINE_MARK
    kept = (marks & ~_INLINE_MARK).view(np.int64)
    origin.refuse(is_short & (kept > _INLINE_BYTES_MAX), "claims more bytes than a slot has")
    # Slots that hold a string are no pointers, so they are given one that leads nowhere.
    pointers = np.where(is_short, np.uint64(0), slots)
    tails = _pointed(keys, pointers, (pointers & _SIZE_MASK).view(np.int64), origin)
    starts = np.where(is_short, slot_at, tails.starts)
    return RowBytes(keys.data, starts, np.where(is_short, slot_at + kept, tails.ends))


def _pointed(keys: RowBytes, slots: Words, sizes: Longs, origin: Origin) -> RowBytes:
    offsets = (slots >> _POINTER_SHIFT).view(np.int64)
    origin.refuse(offsets + sizes > keys.lengths, "points outside of its key")
    starts = keys.starts + offsets
    return RowBytes(keys.data, starts, starts + sizes)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergKeyReader:
    """Read keys of one column as Iceberg hashes its values; made once for many batches."""

    read: _ReadColumn

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "IcebergKeyReader":
        """Work out how to read a key column of this type."""
        if len(types) != 1:
            raise UnsupportedError(f"A key in Iceberg's format has one column, not {len(types)}.")
        return cls(_iceberg_column(types[0]))

    def decode(self, keys: RowBytes) -> list[pa.Array]:
        """Read all keys, or refuse the first that has not the size of its type."""
        return [self.read(keys)]


def _iceberg_column(data_type: DataType) -> _ReadColumn:
    form = form_of(data_type)
    match data_type:
        case StringType() | CharType() | BytesType() | BinaryType():
            assert isinstance(form, SpanForm)
            return lambda keys: form.from_spans(keys, _ORIGIN)
        case DecimalType():
            decimal = LargeDecimal(arrow_type(data_type), is_inlined=False, reserved_bytes=0)
            return lambda keys: decimal.from_spans(keys, _ORIGIN)
        case TimestampType():
            return lambda keys: _from_micros(arrow_type(data_type), _longs(keys))
        case TimeType():
            return lambda keys: _numbers(form, _longs(keys) // _MICROS_PER_MILLI)
        case IntType() | DateType() | BigIntType():
            return lambda keys: _numbers(form, _longs(keys))
        case FloatType() | DoubleType():
            assert isinstance(form, NumberForm)
            dtype = form.dtype
            return lambda keys: form.from_numbers(_fixed(keys, dtype), _ORIGIN)
        case _:
            raise UnsupportedError(f"A key of type {data_type} has no form in Iceberg.")


def _fixed(keys: RowBytes, dtype: np.dtype[np.generic]) -> Numbers:
    _ORIGIN.refuse(keys.lengths != dtype.itemsize, f"does not have {dtype.itemsize} bytes")
    return overlapping(keys.data, dtype)[keys.starts]


def _longs(keys: RowBytes) -> Longs:
    return _fixed(keys, np.dtype(np.int64)).view(np.int64)


def _numbers(form: object, values: Longs) -> pa.Array:
    assert isinstance(form, NumberForm)
    numbers = values.astype(form.dtype)
    _ORIGIN.refuse(numbers != values, "is out of range")
    return form.from_numbers(numbers, _ORIGIN)


def _from_micros(arrow: pa.DataType, micros: Longs) -> pa.Array:
    times, part = _PER_MICRO[arrow.unit]
    return array_of(arrow, micros // part * times)
