"""Few rows as one Arrow message, with plain Python: quicker than Arrow for one or a few.

To make an Arrow array of Python values costs more than to write a row's bytes. The metadata is that
of a sample which Arrow wrote, with other numbers in it, so that the message has the very bytes that
Arrow would write for the same rows.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType

import pyarrow as pa

from headwater.rows.message import MessageSample

Values = tuple[object, ...]
_Buffers = tuple[bytes, ...]
_Write = Callable[[Values], _Buffers]
_PADS = tuple(bytes(-size % 8) for size in range(8))
_FIXED = {
    pa.int8(): ("b", int),
    pa.int16(): ("h", int),
    pa.int32(): ("i", int),
    pa.int64(): ("q", int),
    pa.float64(): ("d", float),
}


@dataclass(frozen=True, slots=True, eq=False)
class FewRowsMessage:
    """Write messages of few rows of one schema."""

    sample: MessageSample
    writes: tuple[_Write, ...]
    kinds: tuple[frozenset[type], ...]
    """The types of values that each column takes."""

    @classmethod
    def of(cls, schema: pa.Schema) -> "FewRowsMessage | None":
        """Return a writer, or None if a column is of a type that is left to Arrow."""
        writes = [_write_of(field.type) for field in schema]
        known = tuple(write for write in writes if write is not None)
        if len(known) < len(writes) or not known:
            return None
        kinds = [
            frozenset({_kind_of(field.type), *([NoneType] if field.nullable else [])})
            for field in schema
        ]
        return cls(MessageSample.of(schema), known, tuple(kinds))

    def write(self, columns: Sequence[Values], *, bytes_max: int) -> bytes | None:
        """Return the message of rows given as columns; None leaves them to Arrow.

        That is so if a value does not fit its column, or if the values take more bytes.
        """
        count, size, at = len(columns[0]), 0, 0
        nodes: list[int] = []
        buffers: list[int] = []
        body: list[bytes] = []
        try:
            for column, kinds, write in zip(columns, self.kinds, self.writes, strict=True):
                if not kinds.issuperset(map(type, column)):
                    return None
                nulls = column.count(None)
                nodes += (count, nulls)
                for data in (_validity(column) if nulls else b"", *write(column)):
                    length = len(data)
                    buffers += (at, length)
                    body += (data, _PADS[length % 8])
                    at += length + -length % 8
                    size += length
        except (struct.error, ValueError, OverflowError):
            return None
        if size > bytes_max:
            return None
        return b"".join((self.sample.filled(count, nodes, buffers, body_length=at), *body))


def _validity(column: Values) -> bytes:
    bits = 0
    for at, value in enumerate(column):
        if value is not None:
            bits |= 1 << at
    return bits.to_bytes((len(column) + 7) // 8, "little")


def _write_of(kind: pa.DataType) -> _Write | None:
    if kind in _FIXED:
        return _fixed_writer(_FIXED[kind][0])
    if pa.types.is_string(kind):
        return _write_texts
    if pa.types.is_binary(kind):
        return _write_bytes
    return _write_flags if pa.types.is_boolean(kind) else None


def _kind_of(kind: pa.DataType) -> type:
    if kind in _FIXED:
        return _FIXED[kind][1]
    if pa.types.is_string(kind):
        return str
    return bytes if pa.types.is_binary(kind) else bool


def _fixed_writer(code: str) -> _Write:
    one = struct.Struct(f"<{code}").pack
    zero = one(0)

    def write(column: Values) -> _Buffers:
        return (b"".join([zero if value is None else one(value) for value in column]),)

    return write


def _write_texts(column: Values) -> _Buffers:
    return _joined([b"" if value is None else str.encode(value) for value in column])  # type: ignore[arg-type]


def _write_bytes(column: Values) -> _Buffers:
    return _joined([value if isinstance(value, bytes) else b"" for value in column])


def _joined(values: Sequence[bytes]) -> _Buffers:
    offsets, end = [0], 0
    for value in values:
        end += len(value)
        offsets.append(end)
    return struct.pack(f"<{len(offsets)}i", *offsets), b"".join(values)


def _write_flags(column: Values) -> _Buffers:
    bits = 0
    for at, value in enumerate(column):
        if value:
            bits |= 1 << at
    return (bits.to_bytes((len(column) + 7) // 8, "little"),)
