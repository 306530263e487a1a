"""Key encodings of a table: Fluss's own, or that of its lake format.

Lake formats have their own, so that a row has the same bucket in Fluss and in the lake.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.config.options import DATALAKE_FORMAT, KV_FORMAT_VERSION, LakeFormat
from headwater.errors import InvalidValueError, UnsupportedError
from headwater.model import TableDescriptor, types
from headwater.model.arrow import arrow_type
from headwater.rows import row_bytes
from headwater.rows.compacted.coders import KeyDecoder, KeyEncoder, fields_of, form_of
from headwater.rows.compacted.forms import (
    DECIMAL_BYTES,
    Form,
    InstantForm,
    LargeDecimal,
    NumberForm,
    Numbers,
    Origin,
    SpanForm,
    array_of,
)
from headwater.rows.compacted.row import Field, as_words, joined
from headwater.rows.compute import pc

# Keys encoded as lake formats do.

_WORD_BYTES = 8
_WORD_BITS = 64
_RESERVED_BITS = 8
_INLINE_BYTES_MAX = 7
_INLINE_MARK = np.uint64(0x80)
_MARK_SHIFT = np.uint64(56)
_POINTER_SHIFT = np.uint64(32)
_MICROS_PER_MILLI = 1_000
_INLINE_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class PaimonKeys:
    """Encode keys as Paimon's binary rows; made once for many batches."""

    forms: tuple[Form, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "PaimonKeys":
        """Work out how to encode key columns of these types."""
        return cls(tuple(form_of(each) for each in data_types))

    def encode(self, columns: Sequence[pa.Array], /) -> row_bytes.RowBytes:
        """Encode one key per element of the columns."""
        header = (len(columns) + _RESERVED_BITS + _WORD_BITS - 1) // _WORD_BITS
        rows = _Rows.of(len(columns[0]), header_words=header, field_count=len(columns))
        for form, column in zip(self.forms, columns, strict=True):
            rows.add(form, column)
        return rows.to_bytes()


@dataclass(slots=True)
class _Rows:
    """One slot per field, and what follows the slots."""

    slots: npt.NDArray[np.uint64]
    header_words: int
    ends: row_bytes.Longs
    tails: list[pa.BinaryArray] = field(default_factory=list)
    added: int = 0

    @classmethod
    def of(cls, count: int, *, header_words: int, field_count: int) -> "_Rows":
        words = header_words + field_count
        ends = np.full(count, words * _WORD_BYTES, np.int64)
        return cls(np.zeros((count, words), np.uint64), header_words, ends)

    def add(self, form: Form, column: pa.Array) -> None:
        """Add a field to every row; a null leaves its slot empty and sets a bit."""
        slots, tail = _slots_of(form, column, self.ends)
        if column.null_count:
            nulls = row_bytes.nulls_of(column)
            slots = np.where(nulls, np.uint64(0), slots)
            word, bit = divmod(self.added + _RESERVED_BITS, _WORD_BITS)
            self.slots[:, word] |= nulls.astype(np.uint64) << np.uint64(bit)
        self.slots[:, self.header_words + self.added] = slots
        self.added += 1
        if tail is not None:
            self.tails.append(tail)
            self.ends += pc.binary_length(tail).fill_null(0).to_numpy()

    def to_bytes(self) -> row_bytes.RowBytes:
        """Build the rows."""
        fixed = _fixed_rows(self.slots)
        return joined([fixed.to_arrow(), *self.tails]) if self.tails else fixed


def _slots_of(
    form: Form, column: pa.Array, ends: row_bytes.Longs
) -> tuple[row_bytes.Words, pa.BinaryArray | None]:
    match form:
        case NumberForm():
            return as_words(form, column), None
        case InstantForm():
            millis, nanos = form.split(column)
            tail = _masked(_fixed_rows(millis.view(np.uint64).reshape(-1, 1)).to_arrow(), column)
            return _pointers(ends, nanos), tail
        case LargeDecimal():
            spans = form.to_spans(column)
            return _pointers(ends, _lengths(spans)), _padded(spans, column, to=DECIMAL_BYTES)
        case SpanForm():
            return _text_slots(form.to_spans(column), ends)


def _text_slots(
    spans: pa.BinaryArray, ends: row_bytes.Longs
) -> tuple[row_bytes.Words, pa.BinaryArray | None]:
    """Keep short strings in their slot, and put the others into the tail."""
    texts = row_bytes.RowBytes.from_arrow(spans)
    lengths = texts.lengths
    is_short = lengths <= _INLINE_BYTES_MAX
    kept = np.minimum(lengths, _INLINE_BYTES_MAX)
    content = row_bytes.overlapping_words(texts.data)[texts.starts] & _INLINE_MASKS[kept]
    inlined = content | (kept.astype(np.uint64) | _INLINE_MARK) << _MARK_SHIFT
    if is_short.all():
        return inlined, None
    long = pc.if_else(pa.array(~is_short), spans, pa.scalar(b"", pa.binary()))
    return np.where(is_short, inlined, _pointers(ends, lengths)), _padded(long, spans)


def _pointers(ends: row_bytes.Longs, sizes: row_bytes.Longs) -> row_bytes.Words:
    return ends.view(np.uint64) << _POINTER_SHIFT | sizes.view(np.uint64)


def _padded(spans: pa.BinaryArray, column: pa.Array, *, to: int | None = None) -> pa.BinaryArray:
    """Pad strings with zeros, to whole words or to a size; nulls stay without bytes."""
    lengths = _lengths(spans)
    surplus = -lengths % _WORD_BYTES if to is None else to - lengths
    filled = pc.binary_join_element_wise(
        spans, _zeros().take(pa.array(surplus)), b"", null_handling="replace", null_replacement=b""
    )
    return _masked(filled, column)


def _masked(strings: pa.BinaryArray, column: pa.Array) -> pa.BinaryArray:
    if not column.null_count:
        return strings
    return pc.if_else(column.is_valid(), strings, pa.scalar(b"", pa.binary()))


def _lengths(spans: pa.BinaryArray) -> row_bytes.Longs:
    lengths: row_bytes.Longs = pc.binary_length(spans).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _fixed_rows(words: npt.NDArray[np.generic]) -> row_bytes.RowBytes:
    """Build rows that all have the same number of bytes."""
    count, width = len(words), words.shape[1] * words.dtype.itemsize
    data = np.zeros(count * width + row_bytes.PADDING, np.uint8)
    data[: count * width] = np.ascontiguousarray(words).view(np.uint8).ravel()
    starts = np.arange(count, dtype=np.int64) * width
    return row_bytes.RowBytes(data, starts, starts + width)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergKeys:
    """Encode keys of one column the way Iceberg hashes its values; made once for many batches."""

    spread: Callable[[pa.Array], row_bytes.RowBytes]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "IcebergKeys":
        """Work out how to encode a key column of this type."""
        if len(data_types) != 1:
            raise UnsupportedError(
                f"A table in Iceberg's format has {len(data_types)} bucket keys; it must have one.",
                hint="Use exactly one bucket key.",
            )
        return cls(_iceberg_form(data_types[0]))

    def encode(self, columns: Sequence[pa.Array], /) -> row_bytes.RowBytes:
        """Encode one key per element of the column, none of which may be null or empty."""
        (column,) = columns
        keys = self.spread(column)
        if column.null_count or (len(keys) and int(keys.lengths.min()) == 0):
            raise InvalidValueError(
                "A bucket key of a table in Iceberg's format is null or empty.",
                hint="Set the bucket key in every row.",
            )
        return keys


def _iceberg_form(data_type: types.DataType) -> Callable[[pa.Array], row_bytes.RowBytes]:
    match data_type:
        case types.StringType() | types.CharType() | types.BytesType() | types.BinaryType():
            return _raw_bytes
        case types.DecimalType():
            form = LargeDecimal(arrow_type(data_type), is_inlined=False, reserved_bytes=0)
            return lambda column: row_bytes.RowBytes.from_arrow(form.to_spans(column))
        case (
            types.IntType()
            | types.DateType()
            | types.BigIntType()
            | types.FloatType()
            | types.DoubleType()
        ):
            return _raw_numbers
        case types.TimeType():
            return lambda column: _long_rows(_millis_of_day(data_type, column) * _MICROS_PER_MILLI)
        case types.TimestampType():
            return _micros
        case _:
            raise UnsupportedError(
                f"A column of type {data_type} cannot be the bucket key of a table in"
                " Iceberg's format.",
                hint="Use INT, BIGINT, DATE, TIME, TIMESTAMP, DECIMAL, STRING or BYTES.",
            )


def _raw_bytes(column: pa.Array) -> row_bytes.RowBytes:
    return row_bytes.RowBytes.from_arrow(column.cast(pa.binary()))


def _raw_numbers(column: pa.Array) -> row_bytes.RowBytes:
    if pa.types.is_floating(column.type):
        return _fixed_rows(column.to_numpy(zero_copy_only=False).reshape(-1, 1))
    plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    return _long_rows(plain.fill_null(0).to_numpy().astype(np.int64))


def _millis_of_day(data_type: types.TimeType, column: pa.Array) -> row_bytes.Longs:
    form = form_of(data_type)
    assert isinstance(form, NumberForm)
    return as_words(form, column).view(np.int64)


def _micros(column: pa.Array) -> row_bytes.RowBytes:
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
    match column.type.unit:
        case "ns":
            return _long_rows(numbers // 1_000)
        case "us":
            return _long_rows(numbers)
        case unit:
            return _long_rows(numbers * (1_000 if unit == "ms" else 1_000_000))


def _long_rows(numbers: row_bytes.Longs) -> row_bytes.RowBytes:
    return _fixed_rows(numbers.reshape(-1, 1))


@lru_cache
def _zeros() -> pa.BinaryArray:
    """Make so many zero bytes; on demand, since it loads pandas."""
    return pa.array([bytes(count) for count in range(DECIMAL_BYTES + 1)], pa.binary())


# Decoding keys of lake formats, for the few places that have nothing else of a row.

_ORIGIN = Origin("key")
_SIZE_MASK = np.uint64(0xFFFF_FFFF)
_PER_MICRO = {"ns": (1_000, 1), "us": (1, 1), "ms": (1, 1_000), "s": (1, 1_000_000)}

_ReadColumn = Callable[[row_bytes.RowBytes], pa.Array]


@dataclass(frozen=True, slots=True, eq=False)
class PaimonKeyReader:
    """Decode keys that are Paimon's binary rows; made once for many batches."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "PaimonKeyReader":
        """Work out how to decode key columns of these types."""
        return cls(fields_of(data_types))

    def decode(self, keys: row_bytes.RowBytes) -> list[pa.Array]:
        """Decode all keys, or reject the first that points outside of itself."""
        header = (len(self.fields) + _RESERVED_BITS + _WORD_BITS - 1) // _WORD_BITS
        size = (header + len(self.fields)) * _WORD_BYTES
        _ORIGIN.refuse(keys.lengths < size, "is too short")
        return [
            _read_slot(field, keys, slot_at=keys.starts + (header + index) * _WORD_BYTES)
            for index, field in enumerate(self.fields)
        ]


def _read_slot(field: Field, keys: row_bytes.RowBytes, *, slot_at: row_bytes.Longs) -> pa.Array:
    origin = _ORIGIN.named(f"key.{field.name}")
    slots = row_bytes.overlapping_words(keys.data)[slot_at]
    match field.form:
        case NumberForm() as form:
            return form.from_numbers(row_bytes.overlapping(keys.data, form.dtype)[slot_at], origin)
        case InstantForm() as form:
            nanos = (slots & _SIZE_MASK).view(np.int64)
            tail = _pointed(keys, slots, np.full(len(keys), _WORD_BYTES), origin)
            millis = row_bytes.overlapping_words(keys.data)[tail.starts].view(np.int64)
            return form.join(millis, nanos, origin)
        case LargeDecimal() as form:
            sizes = (slots & _SIZE_MASK).view(np.int64)
            return form.from_spans(_pointed(keys, slots, sizes, origin), origin)
        case SpanForm() as form:
            return form.from_spans(_texts(keys, slots, slot_at=slot_at, origin=origin), origin)


def _texts(
    keys: row_bytes.RowBytes, slots: row_bytes.Words, *, slot_at: row_bytes.Longs, origin: Origin
) -> row_bytes.RowBytes:
    """Find strings in their slots, or where these point to."""
    marks = slots >> _MARK_SHIFT
    is_short = marks >= _INLINE_MARK
    kept = (marks & ~_INLINE_MARK).view(np.int64)
    origin.refuse(is_short & (kept > _INLINE_BYTES_MAX), "declares more bytes than a slot has")
    # Slots that contain a string are not pointers, so they get one that leads nowhere.
    pointers = np.where(is_short, np.uint64(0), slots)
    tails = _pointed(keys, pointers, (pointers & _SIZE_MASK).view(np.int64), origin)
    starts = np.where(is_short, slot_at, tails.starts)
    return row_bytes.RowBytes(keys.data, starts, np.where(is_short, slot_at + kept, tails.ends))


def _pointed(
    keys: row_bytes.RowBytes, slots: row_bytes.Words, sizes: row_bytes.Longs, origin: Origin
) -> row_bytes.RowBytes:
    offsets = (slots >> _POINTER_SHIFT).view(np.int64)
    origin.refuse(offsets + sizes > keys.lengths, "points outside of its key")
    starts = keys.starts + offsets
    return row_bytes.RowBytes(keys.data, starts, starts + sizes)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergKeyReader:
    """Decode keys of one column as Iceberg hashes its values; made once for many batches."""

    read: _ReadColumn

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "IcebergKeyReader":
        """Work out how to decode a key column of this type."""
        if len(data_types) != 1:
            raise UnsupportedError(
                f"A key in Iceberg's format has one column, not {len(data_types)}."
            )
        return cls(_iceberg_column(data_types[0]))

    def decode(self, keys: row_bytes.RowBytes) -> list[pa.Array]:
        """Decode all keys, or reject the first whose size does not fit its type."""
        return [self.read(keys)]


def _iceberg_column(data_type: types.DataType) -> _ReadColumn:
    form = form_of(data_type)
    match data_type:
        case types.StringType() | types.CharType() | types.BytesType() | types.BinaryType():
            assert isinstance(form, SpanForm)
            return lambda keys: form.from_spans(keys, _ORIGIN)
        case types.DecimalType():
            decimal = LargeDecimal(arrow_type(data_type), is_inlined=False, reserved_bytes=0)
            return lambda keys: decimal.from_spans(keys, _ORIGIN)
        case types.TimestampType():
            return lambda keys: _from_micros(arrow_type(data_type), _read_longs(keys))
        case types.TimeType():
            return lambda keys: _numbers(form, _read_longs(keys) // _MICROS_PER_MILLI)
        case types.IntType() | types.DateType() | types.BigIntType():
            return lambda keys: _numbers(form, _read_longs(keys))
        case types.FloatType() | types.DoubleType():
            assert isinstance(form, NumberForm)
            dtype = form.dtype
            return lambda keys: form.from_numbers(_fixed(keys, dtype), _ORIGIN)
        case _:
            raise UnsupportedError(f"A key of type {data_type} is not supported in Iceberg.")


def _fixed(keys: row_bytes.RowBytes, dtype: np.dtype[np.generic]) -> Numbers:
    _ORIGIN.refuse(keys.lengths != dtype.itemsize, f"does not have {dtype.itemsize} bytes")
    return row_bytes.overlapping(keys.data, dtype)[keys.starts]


def _read_longs(keys: row_bytes.RowBytes) -> row_bytes.Longs:
    return _fixed(keys, np.dtype(np.int64)).view(np.int64)


def _numbers(form: object, values: row_bytes.Longs) -> pa.Array:
    assert isinstance(form, NumberForm)
    numbers = values.astype(form.dtype)
    _ORIGIN.refuse(numbers != values, "is out of range")
    return form.from_numbers(numbers, _ORIGIN)


def _from_micros(arrow: pa.DataType, micros: row_bytes.Longs) -> pa.Array:
    times, part = _PER_MICRO[arrow.unit]
    return array_of(arrow, micros // part * times)


# The key encoding of a table.

FIRST_KV_FORMAT = 1


class Encoder(Protocol):
    """Encode keys."""

    def encode(self, columns: Sequence[pa.Array], /) -> row_bytes.RowBytes:
        """Encode one key per element of the columns."""


class Decoder(Protocol):
    """Decode keys."""

    def decode(self, keys: row_bytes.RowBytes, /) -> list[pa.Array]:
        """Decode the columns of all keys; a malformed key is an error."""


def key_encoder(data_types: Sequence[types.DataType], lake: LakeFormat | None) -> Encoder:
    """Make the key encoder of a lake format for these types."""
    make: Callable[[Sequence[types.DataType]], Encoder] = KeyEncoder.of
    if lake is LakeFormat.PAIMON:
        make = PaimonKeys.of
    elif lake is LakeFormat.ICEBERG:
        make = IcebergKeys.of
    return make(data_types)


def primary_key_format(descriptor: TableDescriptor) -> LakeFormat | None:
    """Pick the lake format whose key encoding the primary key uses; None means Fluss's own."""
    lake = DATALAKE_FORMAT.of(descriptor.properties)
    version = KV_FORMAT_VERSION.of(descriptor.properties) or FIRST_KV_FORMAT
    is_whole = descriptor.bucket_keys in ((), descriptor.physical_primary_key)
    # Only Fluss's own keys can start with a bucket key; newer tables use them for that.
    is_own = lake is LakeFormat.HUDI or (version > FIRST_KV_FORMAT and not is_whole)
    return lake if lake in (LakeFormat.PAIMON, LakeFormat.ICEBERG) and not is_own else None


def primary_key_encoder(descriptor: TableDescriptor) -> Encoder:
    """Make the encoder of a table's physical primary key, as Apache Fluss stores it."""
    return key_encoder(_key_types(descriptor), primary_key_format(descriptor))


def primary_key_decoder(descriptor: TableDescriptor) -> Decoder:
    """Make the decoder of a table's physical primary key."""
    data_types = _key_types(descriptor)
    match primary_key_format(descriptor):
        case LakeFormat.PAIMON:
            return PaimonKeyReader.of(data_types)
        case LakeFormat.ICEBERG:
            return IcebergKeyReader.of(data_types)
        case _:
            return KeyDecoder.of(data_types)


def _key_types(descriptor: TableDescriptor) -> list[types.DataType]:
    return [descriptor.schema.column(name).type for name in descriptor.physical_primary_key]
