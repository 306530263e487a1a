"""The messages of PostgreSQL's logical replication, as pgoutput writes them (protocol version 1).

Bytes become frozen messages; nothing here talks to a server. Values of rows stay the bytes of their
text: they are converted by columns, many rows at once.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias, TypeVar

from headwater.errors import StorageError

PROTOCOL_VERSION = 1
NO_TYPMOD = -1


class Unchanged(Enum):
    """What stands for a large value that an update did not change, and that was not sent."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value: TypeAlias = bytes | Unchanged | None
Row: TypeAlias = tuple[Value, ...]


class ReplicaIdentity(StrEnum):
    """What the log of the database says of rows that are updated or deleted."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as the log describes it."""

    name: str
    type_id: int
    modifier: int = NO_TYPMOD
    is_key: bool = False
    """Whether it is part of the replica identity."""


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """A table as it was when the changes after this message were made."""

    relation_id: int
    schema: str
    name: str
    identity: ReplicaIdentity
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TxnBegin:
    """A transaction begins; the log has them whole, in the order of their commits."""

    commit_lsn: int
    time_us: int
    """Microseconds since 2000, when it was committed."""
    xid: int


@dataclass(frozen=True, slots=True)
class TxnCommit:
    """A transaction ends."""

    commit_lsn: int
    end_lsn: int
    time_us: int


@dataclass(frozen=True, slots=True)
class InsertedRow:
    """A new row."""

    relation_id: int
    row: Row


@dataclass(frozen=True, slots=True)
class UpdatedRow:
    """A changed row."""

    relation_id: int
    row: Row
    old: Row | None = None
    """The key that the row had, if it changed, or the whole row that was."""


@dataclass(frozen=True, slots=True)
class DeletedRow:
    """A row that is gone; what is no part of the key is None unless the whole row is sent."""

    relation_id: int
    old: Row


@dataclass(frozen=True, slots=True)
class TruncatedTables:
    """Tables that were emptied."""

    relation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """A message that says nothing of rows: an origin, a type, a logical message."""

    kind: str


Message: TypeAlias = (
    TxnBegin
    | TxnCommit
    | RelationMessage
    | InsertedRow
    | UpdatedRow
    | DeletedRow
    | TruncatedTables
    | OtherMessage
)
_M = TypeVar("_M")

_BEGIN = struct.Struct(">qqI")
_COMMIT = struct.Struct(">Bqqq")
_INT = struct.Struct(">I")
_SIGNED = struct.Struct(">i")
_SHORT = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_TEXT, _BINARY, _NULL, _TOAST = b"tbnu"
_NEW = ord("N")


def decode(payload: bytes) -> Message:
    """Decode one message; raises if it is not whole, or has more bytes than it should."""
    try:
        return _decode(payload)
    except (struct.error, IndexError, ValueError) as fault:
        raise _broken(payload, str(fault)) from None


def _decode(payload: bytes) -> Message:
    decoder = _DECODERS.get(payload[:1])
    if decoder is None:
        raise _broken(payload, "its kind is not known")
    return decoder(payload)


def _begin(payload: bytes) -> TxnBegin:
    return _whole(payload, 1 + _BEGIN.size, TxnBegin(*_BEGIN.unpack_from(payload, 1)))


def _commit(payload: bytes) -> TxnCommit:
    _, commit, end, time = _COMMIT.unpack_from(payload, 1)
    return _whole(payload, 1 + _COMMIT.size, TxnCommit(commit, end, time))


def _insert(payload: bytes) -> InsertedRow:
    row, end = _row(payload, _new_at(payload, 5))
    return _whole(payload, end, InsertedRow(_INT.unpack_from(payload, 1)[0], row))


def _delete(payload: bytes) -> DeletedRow:
    row, end = _row(payload, 6)
    return _whole(payload, end, DeletedRow(_INT.unpack_from(payload, 1)[0], row))


def _other(payload: bytes) -> OtherMessage:
    return OtherMessage(payload[:1].decode())


def _update(payload: bytes) -> UpdatedRow:
    old: Row | None = None
    at = 5
    if payload[at] != _NEW:
        old, at = _row(payload, at + 1)
    row, end = _row(payload, _new_at(payload, at))
    return _whole(payload, end, UpdatedRow(_INT.unpack_from(payload, 1)[0], row, old))


def _new_at(payload: bytes, at: int) -> int:
    """The place of a new row, which has a mark before it."""
    if payload[at] != _NEW:
        raise ValueError("a new row is missing")
    return at + 1


def _row(payload: bytes, at: int) -> tuple[Row, int]:
    """Cut a row into the bytes of its values, and tell where it ends."""
    (count,) = _SHORT.unpack_from(payload, at)
    at += 2
    values: list[Value] = []
    add, length_at = values.append, _SIGNED.unpack_from
    for _ in range(count):
        kind = payload[at]
        at += 1
        if kind == _TEXT:
            end = at + 4 + length_at(payload, at)[0]
            add(payload[at + 4 : end])
            at = end
        elif kind == _NULL:
            add(None)
        elif kind == _TOAST:
            add(UNCHANGED)
        else:
            raise ValueError(f"a value has the kind {chr(kind)!r}")
    return tuple(values), at


def _relation(payload: bytes) -> RelationMessage:
    (relation_id,) = _INT.unpack_from(payload, 1)
    schema, at = _name(payload, 5)
    name, at = _name(payload, at)
    identity = ReplicaIdentity(chr(payload[at]))
    (count,) = _SHORT.unpack_from(payload, at + 1)
    at += 3
    columns: list[RelationColumn] = []
    for _ in range(count):
        flags = payload[at]
        column, at = _name(payload, at + 1)
        type_id, modifier = _COLUMN.unpack_from(payload, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type_id, modifier, bool(flags & 1)))
    # What the server itself is made of has no schema on the wire.
    made = RelationMessage(relation_id, schema or "pg_catalog", name, identity, tuple(columns))
    return _whole(payload, at, made)


def _truncate(payload: bytes) -> TruncatedTables:
    (count,) = _INT.unpack_from(payload, 1)
    ids = struct.unpack_from(f">{count}I", payload, 6)
    return _whole(payload, 6 + 4 * count, TruncatedTables(ids))


def _name(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(0, at)
    return payload[at:end].decode(), end + 1


def _whole(payload: bytes, end: int, message: _M) -> _M:
    if end != len(payload):
        raise _broken(payload, f"it has {len(payload)} bytes, and {end} were expected")
    return message


def _broken(payload: bytes, why: str) -> StorageError:
    return StorageError(
        f"A message of the replication stream cannot be decoded: {why}. "
        f"It begins with {payload[:16].hex(' ')}."
    )


_DECODERS: Mapping[bytes, Callable[[bytes], Message]] = {
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"T": _truncate,
    **dict.fromkeys((b"O", b"Y", b"M"), _other),
}
