"""A single row or key, with plain Python: quicker than numpy for just one."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import NoneType

import pyarrow as pa

from headwater.model import types
from headwater.model.arrow import arrow_type
from headwater.rows.compacted.row import null_byte_count

# A single key or row in bytes, with plain Python: quicker than numpy for just one.

_Write = Callable[[object], bytes]
_INT_MASK, _LONG_MASK = (1 << 32) - 1, (1 << 64) - 1
_SEVEN_BITS, _MORE = 0x7F, 0x80


@dataclass(frozen=True, slots=True, eq=False)
class OneKeyEncoder:
    """Write one key whose columns are whole numbers or texts, as nearly all keys are."""

    writes: tuple[_Write, ...]
    kinds: tuple[type, ...]
    """The types of the Python values that are written as they are."""

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "OneKeyEncoder | None":
        """Return an encoder, or None if a column is of a type that is left to the other one."""
        writes = [_WRITES.get(type(each)) for each in data_types]
        known = tuple(write for write in writes if write is not None)
        if len(known) < len(writes):
            return None
        return cls(known, tuple(str if write is _write_text else int for write in known))

    def encode_plain(self, values: Sequence[object]) -> bytes | None:
        """Write a key of Python values; None if one does not fit, as others can tell better."""
        written = b""
        try:
            for value, kind, write in zip(values, self.kinds, self.writes, strict=True):
                if type(value) is not kind:
                    return None
                written += write(value)
        except (OverflowError, UnicodeEncodeError):
            return None
        return written

    def encode(self, columns: Sequence[pa.Array]) -> bytes | None:
        """Write the only element of the columns; None if one is null, as others can tell better."""
        return self.written([column[0].as_py() for column in columns])

    def written(self, values: Sequence[object]) -> bytes | None:
        """Write one key given by its values; None if one is null."""
        if None in values:
            return None
        return b"".join([write(value) for write, value in zip(self.writes, values, strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class OneRowEncoder:
    """Write one row whose columns are numbers, texts, bytes and booleans."""

    writes: tuple[_Write, ...]
    kinds: tuple[frozenset[type], ...]
    """The types of values that each column takes."""

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "OneRowEncoder | None":
        """Return an encoder, or None if a column is of a type that is left to the other one."""
        writes = [_ROW_WRITES.get(type(each)) for each in data_types]
        known = tuple(write for write in writes if write is not None)
        if len(known) < len(writes):
            return None
        kinds = [
            frozenset({_KINDS[type(each)], *([NoneType] if each.nullable else [])})
            for each in data_types
        ]
        return cls(known, tuple(kinds))

    def encode(self, columns: Sequence[pa.Array]) -> bytes:
        """Write the only element of the columns; what is null is a bit at the start."""
        return self.written([column[0].as_py() for column in columns])

    def written(self, values: Sequence[object]) -> bytes:
        """Write one row given by its values, which are of the types that `kinds` names."""
        nulls, written = 0, [b""]
        for at, value in enumerate(values):
            if value is None:
                nulls |= 1 << at
            else:
                written.append(self.writes[at](value))
        written[0] = nulls.to_bytes(null_byte_count(len(values)), "little")
        return b"".join(written)


def _write_int(value: object) -> bytes:
    assert isinstance(value, int)
    _check_range(value, 32)
    return _write_varint(value & _INT_MASK)


def _write_long(value: object) -> bytes:
    assert isinstance(value, int)
    _check_range(value, 64)
    return _write_varint(value & _LONG_MASK)


def _check_range(value: int, bits: int) -> None:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowError(f"{value} has more than {bits} bits.")


def _write_text(value: object) -> bytes:
    assert isinstance(value, str)
    data = value.encode()
    return _write_varint(len(data)) + data


def _write_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return _write_varint(len(value)) + value


def _write_flag(value: object) -> bytes:
    return b"\x01" if value else b"\x00"


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > _SEVEN_BITS:
        written.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)


_WRITES: dict[type[types.DataType], _Write] = {
    types.IntType: _write_int,
    types.BigIntType: _write_long,
    types.StringType: _write_text,
    types.CharType: _write_text,
}
_ROW_WRITES: dict[type[types.DataType], _Write] = _WRITES | {
    types.BooleanType: _write_flag,
    types.BytesType: _write_bytes,
    types.DoubleType: struct.Struct("<d").pack,
    types.TinyIntType: struct.Struct("<b").pack,
    types.SmallIntType: struct.Struct("<h").pack,
}
_KINDS: dict[type[types.DataType], type] = {
    types.IntType: int,
    types.BigIntType: int,
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.StringType: str,
    types.CharType: str,
    types.BooleanType: bool,
    types.BytesType: bytes,
    types.DoubleType: float,
}


# A single compacted row to Arrow columns, with plain Python: quicker than numpy for just one.

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_Value = bool | int | float | str | bytes | Decimal
RowValues = dict[str, _Value | None]
_Reader = Callable[[bytes, int], tuple[_Value, int]]
_BITS_MAX = 63
_SMALL_DIGITS_MAX = 18
_MILLIS_DIGITS = range(1, 4)
_MICROS_DIGITS = range(4, 7)
_INT_SIGN, _INT_RANGE = 1 << 31, 1 << 32
_LONG_SIGN, _LONG_RANGE = 1 << 63, 1 << 64


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    read: _Reader
    nullable: bool
    shown: Callable[[_Value], object] | None
    """Makes what Arrow would of a value that was read; None if that is the value itself."""


@dataclass(frozen=True, slots=True, eq=False)
class OneRowDecoder:
    """Read one row of a schema whose columns are all of simple types."""

    columns: tuple[_Column, ...]
    arrow: pa.DataType
    """All columns as one, because Arrow takes them quicker so than one by one."""
    null_bytes: int

    @classmethod
    def of(cls, data_types: Sequence[types.DataType]) -> "OneRowDecoder | None":
        """Return a decoder, or None if a column is of a type that is left to the other one."""
        columns = []
        for number, each in enumerate(data_types):
            read = _reader(each)
            if read is None:
                return None
            columns.append(_Column(str(number), read, each.nullable, _shown(each)))
        fields = [(str(number), arrow_type(each)) for number, each in enumerate(data_types)]
        return cls(tuple(columns), pa.struct(fields), null_byte_count(len(columns)))

    def decode(self, row: bytes) -> list[pa.Array] | None:
        """Read a row; None if anything is odd, which the other decoder can tell better."""
        values = self.values(row)
        return None if values is None else self.columns_of([values])

    def columns_of(self, rows: Sequence["RowValues"]) -> list[pa.Array] | None:
        """Return few rows as columns; None if a value does not fit."""
        try:
            arrays: list[pa.Array] = pa.array(rows, self.arrow).flatten()
        except (OverflowError, pa.ArrowInvalid):
            return None
        return arrays

    def values(self, row: bytes) -> "RowValues | None":
        """Read the values of a row by the numbers of their columns; None if anything is odd."""
        try:
            return self._values(row)
        except (ValueError, IndexError, OverflowError, struct.error):
            return None

    def plain(self, row: bytes) -> list[object] | None:
        """Read a row as Python values, as Arrow would show them; None if anything is odd."""
        values = self.values(row)
        if values is None:
            return None
        try:
            return [
                value if column.shown is None or value is None else column.shown(value)
                for column, value in zip(self.columns, values.values(), strict=True)
            ]
        except (ValueError, OverflowError, pa.ArrowInvalid):
            return None

    def _values(self, row: bytes) -> "RowValues | None":
        at = self.null_bytes
        nulls = int.from_bytes(row[:at], "little")
        values: RowValues = {}
        for column in self.columns:
            values[column.name] = None
            if not nulls & 1:
                values[column.name], at = column.read(row, at)
            elif not column.nullable:
                return None
            nulls >>= 1
        return values if at == len(row) else None


def _shown(data_type: types.DataType) -> Callable[[_Value], object] | None:
    """Return what turns a value that was read into what Arrow shows of it."""
    match data_type:
        case types.DateType():
            return _as_date
        case types.DecimalType() | types.TimestampType() | types.TimestampLtzType():
            arrow = arrow_type(data_type)
            return lambda value: pa.array([value], arrow)[0].as_py()
        case _:
            return None


def _as_date(value: _Value) -> date:
    assert isinstance(value, int)
    return date.fromordinal(_EPOCH_DAY + value)


def _reader(data_type: types.DataType) -> _Reader | None:
    match data_type:
        case types.DecimalType(precision=precision, scale=scale) if precision <= _SMALL_DIGITS_MAX:
            return _decimal_reader(scale)
        case types.TimestampType(precision=precision) | types.TimestampLtzType(precision=precision):
            if precision in _MILLIS_DIGITS:
                return _long
            return _micros if precision in _MICROS_DIGITS else None
        case _:
            return _READERS.get(type(data_type))


def _fixed(layout: str) -> _Reader:
    packed = struct.Struct(layout)

    def read(row: bytes, at: int) -> tuple[_Value, int]:
        (value,) = packed.unpack_from(row, at)
        return value, at + packed.size

    return read


def _varint(row: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _BITS_MAX:
        byte = row[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value, at
        shift += 7
    raise ValueError("A varint does not end.")


def _int(row: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(row, at)
    if value >= _INT_RANGE:
        raise ValueError("A varint is too long.")
    return value - _INT_RANGE if value >= _INT_SIGN else value, at


def _long(row: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(row, at)
    if value >= _LONG_RANGE:
        raise ValueError("A varint is too long.")
    return value - _LONG_RANGE if value >= _LONG_SIGN else value, at


def _flag(row: bytes, at: int) -> tuple[bool, int]:
    if row[at] > 1:
        raise ValueError("A boolean is neither true nor false.")
    return row[at] == 1, at + 1


def _bytes(row: bytes, at: int) -> tuple[bytes, int]:
    length, at = _varint(row, at)
    if length > len(row) - at:
        raise ValueError("A string runs past the end of the row.")
    return row[at : at + length], at + length


def _text(row: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(row, at)
    return found.decode(), at


def _micros(row: bytes, at: int) -> tuple[int, int]:
    millis, at = _long(row, at)
    nanos, at = _varint(row, at)
    micros, rest = divmod(nanos, 1_000)
    if rest or micros >= 1_000:  # noqa: PLR2004 - microseconds of a millisecond
        raise ValueError("A timestamp is finer than its column.")
    return millis * 1_000 + micros, at


def _decimal_reader(scale: int) -> _Reader:
    def read(row: bytes, at: int) -> tuple[Decimal, int]:
        unscaled, at = _long(row, at)
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -scale)), at

    return read


_READERS: dict[type[types.DataType], _Reader] = {
    types.BooleanType: _flag,
    types.TinyIntType: _fixed("<b"),
    types.SmallIntType: _fixed("<h"),
    types.IntType: _int,
    types.DateType: _int,
    types.BigIntType: _long,
    types.FloatType: _fixed("<f"),
    types.DoubleType: _fixed("<d"),
    types.StringType: _text,
    types.CharType: _text,
    types.BytesType: _bytes,
}
