"""A snapshot of one bucket's state: what the index holds, and which files hold the rows.

Rows are not copied: a snapshot names segments that are on disk already. The file is
`u32 length of head | head (JSON) | arrays | u32 checksum of all before`.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.kv.location import Locations
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of
from headwater.rows.checksum import crc32c

VERSION = 1
_SHOWN_MAX = 60
_U32 = struct.Struct("<I")
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """Describe one segment on disk; its times tell when its rows were written."""

    number: int
    serial: int
    end: int
    crc: int
    live_bytes: int
    oldest_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class IdRange:
    """Hold the auto-increment numbers that a bucket has reserved: from next to last."""

    next_id: int
    last_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Hold the state of a bucket as it was at one log offset."""

    offset: int
    seed: int
    segments: tuple[SegmentFile, ...]
    hashes: Hashes
    locations: Locations
    collided: dict[bytes, int] = field(default_factory=dict)
    prefixes: tuple[Hashes, Hashes] | None = None
    ids: IdRange | None = None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot."""
    arrays = [snapshot.hashes, snapshot.locations, *(snapshot.prefixes or ())]
    head = json.dumps(
        {
            "version": VERSION,
            "offset": snapshot.offset,
            "seed": snapshot.seed,
            "segments": [_fields(segment) for segment in snapshot.segments],
            "collided": [[key.hex(), at] for key, at in snapshot.collided.items()],
            "ids": None if snapshot.ids is None else [snapshot.ids.next_id, snapshot.ids.last_id],
            "has_prefixes": snapshot.prefixes is not None,
            "counts": [len(array) for array in arrays],
        }
    ).encode()
    parts = [_U32.pack(len(head)), head, *(array.tobytes() for array in arrays)]
    content = b"".join(parts)
    return content + _U32.pack(crc32c(content))


def decode_snapshot(content: bytes) -> Snapshot:
    """Read a snapshot, or say that the file does not hold one."""
    if len(content) < 2 * _U32.size:
        raise CorruptFileError(f"A snapshot of {len(content)} bytes is too short.")
    (crc,) = _U32.unpack_from(content, len(content) - _U32.size)
    body = memoryview(content)[: -_U32.size]
    if crc32c(body) != crc:
        raise CorruptFileError("The checksum of a snapshot does not fit.")
    (length,) = _U32.unpack_from(body)
    try:
        head = object_of(document_of(bytes(body[_U32.size : _U32.size + length])), what="head")
        if int_of(head, "version") != VERSION:
            raise CorruptFileError(
                f"A snapshot has version {head['version']}, this program reads {VERSION}."
            )
        return _snapshot(head, body[_U32.size + length :])
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A snapshot cannot be read: {fault}.") from fault


def _snapshot(head: Mapping[str, Json], body: memoryview) -> Snapshot:
    arrays = _arrays(body, list(_numbers(head.get("counts"))))
    has_prefixes = head.get("has_prefixes") is True
    if len(arrays) != (4 if has_prefixes else 2) or len(arrays[0]) != len(arrays[1]):
        raise ValueError(f"it has {len(arrays)} arrays, not all of one length")
    return Snapshot(
        int_of(head, "offset"),
        int_of(head, "seed"),
        tuple(SegmentFile(*_numbers(each, count=7)) for each in list_of(head, "segments")),
        arrays[0],
        arrays[1].view(np.int64),
        dict(map(_collided, list_of(head, "collided"))),
        (arrays[2], arrays[3]) if has_prefixes else None,
        None if head.get("ids") is None else IdRange(*_numbers(head["ids"], count=2)),
    )


def _numbers(node: Json, *, count: int | None = None) -> tuple[int, ...]:
    """Return a list of whole numbers, as many as there must be."""
    given = node if isinstance(node, list) else []
    numbers = tuple(each for each in given if isinstance(each, int))
    if not isinstance(node, list) or len(numbers) != (len(node) if count is None else count):
        raise ValueError(f"{str(node)[:_SHOWN_MAX]} are not the numbers that belong there")
    return numbers


def _collided(node: Json) -> tuple[bytes, int]:
    match node:
        case [str(key), int(location)]:
            return bytes.fromhex(key), location
        case _:
            raise ValueError(f"{str(node)[:_SHOWN_MAX]} is no key with its place")


def _fields(segment: SegmentFile) -> list[int]:
    return [
        segment.number,
        segment.serial,
        segment.end,
        segment.crc,
        segment.live_bytes,
        segment.oldest_ms,
        segment.newest_ms,
    ]


def _arrays(body: memoryview, counts: list[int]) -> list[Hashes]:
    if min(counts, default=0) < 0 or sum(counts) * 8 != len(body):
        raise CorruptFileError("The arrays of a snapshot are cut off.")
    # Copied, because the bytes behind the head lie at any address.
    words = np.frombuffer(bytes(body), np.uint64)
    ends = np.cumsum(counts)
    return [words[end - count : end] for count, end in zip(counts, ends, strict=True)]
