"""Keys as lake formats write them, so that a row finds the same bucket in Fluss and in the lake."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidValueError, UnsupportedError
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
from headwater.rows.compacted.form_of import form_of
from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, SpanForm
from headwater.rows.compacted.row_write import as_words, joined
from headwater.rows.compacted.span_forms import DECIMAL_BYTES, LargeDecimal
from headwater.rows.row_bytes import (
    PADDING,
    Longs,
    RowBytes,
    Words,
    nulls_of,
    overlapping_words,
)

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
    """Write keys as Paimon's binary rows; made once for many batches."""

    forms: tuple[Form, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "PaimonKeys":
        """Work out how to write key columns of these types."""
        return cls(tuple(form_of(each) for each in types))

    def encode(self, columns: Sequence[pa.Array], /) -> RowBytes:
        """Write one key per element of the columns."""
        header = (len(columns) + _RESERVED_BITS + _WORD_BITS - 1) // _WORD_BITS
        rows = _Rows.of(len(columns[0]), header_words=header, field_count=len(columns))
        for form, column in zip(self.forms, columns, strict=True):
            rows.add(form, column)
        return rows.to_bytes()


@dataclass(slots=True)
class _Rows:
    """Collect one slot per field, and what follows the slots."""

    slots: npt.NDArray[np.uint64]
    header_words: int
    ends: Longs
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
            nulls = nulls_of(column)
            slots = np.where(nulls, np.uint64(0), slots)
            word, bit = divmod(self.added + _RESERVED_BITS, _WORD_BITS)
            self.slots[:, word] |= nulls.astype(np.uint64) << np.uint64(bit)
        self.slots[:, self.header_words + self.added] = slots
        self.added += 1
        if tail is not None:
            self.tails.append(tail)
            self.ends += pc.binary_length(tail).fill_null(0).to_numpy()

    def to_bytes(self) -> RowBytes:
        """Return the rows."""
        fixed = _fixed_rows(self.slots)
        return joined([fixed.to_arrow(), *self.tails]) if self.tails else fixed


def _slots_of(form: Form, column: pa.Array, ends: Longs) -> tuple[Words, pa.BinaryArray | None]:
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


def _text_slots(spans: pa.BinaryArray, ends: Longs) -> tuple[Words, pa.BinaryArray | None]:
    """Keep short strings in their slot, and put the others into the tail."""
    texts = RowBytes.from_arrow(spans)
    lengths = texts.lengths
    is_short = lengths <= _INLINE_BYTES_MAX
    kept = np.minimum(lengths, _INLINE_BYTES_MAX)
    content = overlapping_words(texts.data)[texts.starts] & _INLINE_MASKS[kept]
    inlined = content | (kept.astype(np.uint64) | _INLINE_MARK) << _MARK_SHIFT
    if is_short.all():
        return inlined, None
    long = pc.if_else(pa.array(~is_short), spans, pa.scalar(b"", pa.binary()))
    return np.where(is_short, inlined, _pointers(ends, lengths)), _padded(long, spans)


def _pointers(ends: Longs, sizes: Longs) -> Words:
    return ends.view(np.uint64) << _POINTER_SHIFT | sizes.view(np.uint64)


def _padded(spans: pa.BinaryArray, column: pa.Array, *, to: int | None = None) -> pa.BinaryArray:
    """Fill strings up with zeros, to whole words or to a size; nulls stay without bytes."""
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


def _lengths(spans: pa.BinaryArray) -> Longs:
    lengths: Longs = pc.binary_length(spans).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _fixed_rows(words: npt.NDArray[np.generic]) -> RowBytes:
    """Return rows that all have the same number of bytes."""
    count, width = len(words), words.shape[1] * words.dtype.itemsize
    data = np.zeros(count * width + PADDING, np.uint8)
    data[: count * width] = np.ascontiguousarray(words).view(np.uint8).ravel()
    starts = np.arange(count, dtype=np.int64) * width
    return RowBytes(data, starts, starts + width)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergKeys:
    """Write keys of one column as Iceberg hashes its values; made once for many batches."""

    spread: Callable[[pa.Array], RowBytes]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "IcebergKeys":
        """Work out how to write a key column of this type."""
        if len(types) != 1:
            raise UnsupportedError(
                f"A table in Iceberg's format has {len(types)} bucket keys.",
                hint="Such a table takes exactly one.",
            )
        return cls(_iceberg_form(types[0]))

    def encode(self, columns: Sequence[pa.Array], /) -> RowBytes:
        """Write one key per element of the column, none of which may be null or empty."""
        (column,) = columns
        keys = self.spread(column)
        if column.null_count or (len(keys) and int(keys.lengths.min()) == 0):
            raise InvalidValueError(
                "A bucket key of a table in Iceberg's format is null or empty.",
                hint="Write a value for the bucket key in every row.",
            )
        return keys


def _iceberg_form(data_type: DataType) -> Callable[[pa.Array], RowBytes]:
    match data_type:
        case StringType() | CharType() | BytesType() | BinaryType():
            return _raw_bytes
        case DecimalType():
            form = LargeDecimal(arrow_type(data_type), is_inlined=False, reserved_bytes=0)
            return lambda column: RowBytes.from_arrow(form.to_spans(column))
        case IntType() | DateType() | BigIntType() | FloatType() | DoubleType():
            return _raw_numbers
        case TimeType():
            return lambda column: _longs(_millis_of_day(data_type, column) * _MICROS_PER_MILLI)
        case TimestampType():
            return _micros
        case _:
            raise UnsupportedError(
                f"A column of type {data_type} cannot be the bucket key of a table in"
                " Iceberg's format.",
                hint="Use INT, BIGINT, DATE, TIME, TIMESTAMP, DECIMAL, STRING or BYTES.",
            )


def _raw_bytes(column: pa.Array) -> RowBytes:
    return RowBytes.from_arrow(column.cast(pa.binary()))


def _raw_numbers(column: pa.Array) -> RowBytes:
    if pa.types.is_floating(column.type):
        return _fixed_rows(column.to_numpy(zero_copy_only=False).reshape(-1, 1))
    plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    return _longs(plain.fill_null(0).to_numpy().astype(np.int64))


def _millis_of_day(data_type: TimeType, column: pa.Array) -> Longs:
    form = form_of(data_type)
    assert isinstance(form, NumberForm)
    return as_words(form, column).view(np.int64)


def _micros(column: pa.Array) -> RowBytes:
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
    match column.type.unit:
        case "ns":
            return _longs(numbers // 1_000)
        case "us":
            return _longs(numbers)
        case unit:
            return _longs(numbers * (1_000 if unit == "ms" else 1_000_000))


def _longs(numbers: Longs) -> RowBytes:
    return _fixed_rows(numbers.reshape(-1, 1))


@lru_cache
def _zeros() -> pa.BinaryArray:
    """Return so many bytes of 0 at each place; made when needed, as it loads pandas."""
    return pa.array([bytes(count) for count in range(DECIMAL_BYTES + 1)], pa.binary())
