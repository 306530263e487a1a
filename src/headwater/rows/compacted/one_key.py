"""A single key or row in bytes, with plain Python: quicker than numpy for just one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.types import (
    BigIntType,
    BooleanType,
    CharType,
    DataType,
    IntType,
    StringType,
)
from headwater.rows.compacted.row_read import null_byte_count

_Write = Callable[[object], bytes]
_INT_MASK, _LONG_MASK = (1 << 32) - 1, (1 << 64) - 1
_SEVEN_BITS, _MORE = 0x7F, 0x80


@dataclass(frozen=True, slots=True, eq=False)
class OneKeyEncoder:
    """Write one key whose columns are whole numbers or texts, as nearly all keys are."""

    writes: tuple[_Write, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "OneKeyEncoder | None":
        """Return an encoder, or None if a column is of a type that is left to the other one."""
        writes = [_WRITES.get(type(each)) for each in types]
        known = tuple(write for write in writes if write is not None)
        return cls(known) if len(known) == len(writes) else None

    def encode(self, columns: Sequence[pa.Array]) -> bytes | None:
        """Write the only element of the columns; None if one is null, as others can tell better."""
        values = [column[0].as_py() for column in columns]
        if None in values:
            return None
        return b"".join(write(value) for write, value in zip(self.writes, values, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class OneRowEncoder:
    """Write one row whose columns are whole numbers, texts and booleans."""

    writes: tuple[_Write, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "OneRowEncoder | None":
        """Return an encoder, or None if a column is of a type that is left to the other one."""
        writes = [_ROW_WRITES.get(type(each)) for each in types]
        known = tuple(write for write in writes if write is not None)
        return cls(known) if len(known) == len(writes) else None

    def encode(self, columns: Sequence[pa.Array]) -> bytes:
        """Write the only element of the columns; what is null is a bit at the start."""
        values = [column[0].as_py() for column in columns]
        nulls = sum(1 << at for at, value in enumerate(values) if value is None)
        written = [nulls.to_bytes(null_byte_count(len(values)), "little")]
        for write, value in zip(self.writes, values, strict=True):
            if value is not None:
                written.append(write(value))
        return b"".join(written)


def _int(value: object) -> bytes:
    assert isinstance(value, int)
    return _varint(value & _INT_MASK)


def _long(value: object) -> bytes:
    assert isinstance(value, int)
    return _varint(value & _LONG_MASK)


def _text(value: object) -> bytes:
    assert isinstance(value, str)
    data = value.encode()
    return _varint(len(data)) + data


def _flag(value: object) -> bytes:
    return b"\x01" if value else b"\x00"


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > _SEVEN_BITS:
        written.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)


_WRITES: dict[type[DataType], _Write] = {
    IntType: _int,
    BigIntType: _long,
    StringType: _text,
    CharType: _text,
}
_ROW_WRITES: dict[type[DataType], _Write] = _WRITES | {BooleanType: _flag}
