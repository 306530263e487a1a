"""The union of serialised roaring bitmaps, 32 and 64 bits wide.

Java writes the wide ones as a radix tree over containers; they are turned into portable ones
and back.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from headwater.errors import InvalidValueError, UnsupportedError

# The bytes of Java's Roaring64Bitmap, a radix tree over containers, from and to portable ones.
#
# Both forms hold the same containers of 65,536 numbers each; only what stands around them differs.

_EMPTY, _NOT_EMPTY = b"\x00", 1
_NOT_TRIMMED: Final = 0xFE
_LEAF: Final = 4
# The number of children a node can have and the bytes it needs to find them, by kind of node.
_NODE_CAPACITIES: Final = (4, 16, 48, 256)
_NODE_BYTES: Final = (4, 16, 256, 32)
_KEY_BYTES: Final = 6

_NODE_HEAD = struct.Struct("<BHB")
_LEAF_INDEX = struct.Struct("<q")
_CONTAINER_HEAD = struct.Struct("<Bi")
_TAIL = struct.Struct("<qii")

_RUN, _BITS, _ARRAY = 0, 1, 2
_ARRAY_CARDINALITY_MAX: Final = 4096
_BITS_BYTES: Final = 8192

_COOKIE_PLAIN: Final = 12346
_COOKIE_RUNS: Final = 12347
_RUNS_WITHOUT_OFFSETS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Container:
    """Hold the bytes of one container, which are the same in both forms."""

    kind: int
    cardinality: int
    body: bytes


class _Reader:
    """Read forward through bytes and refuse to run over their end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise InvalidValueError("A bitmap ends too early.")
        self._at += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))


def portable_from_art(content: bytes) -> bytes:
    """Bring the bytes of a Roaring64Bitmap into the portable form."""
    reader = _Reader(content)
    tag = reader.number(1)
    if tag != _NOT_EMPTY:
        return bytes(8)
    reader.take(8)  # the number of keys, which the tree tells again
    leaves = list(_leaves(reader))
    containers = _containers(reader)
    found: dict[int, Container] = {}
    for key, index in leaves:
        if index not in containers:
            raise InvalidValueError("A bitmap names a container that it does not hold.")
        found[key] = containers[index]
    return _portable64(found)


def _leaves(reader: _Reader) -> Iterator[tuple[int, int]]:
    """Yield key and container index of every leaf; nodes stand before their children."""
    pending = 1
    while pending:
        kind, child_count, prefix_size = reader.unpack(_NODE_HEAD)
        reader.take(prefix_size)
        pending -= 1
        if kind == _LEAF:
            key = int.from_bytes(reader.take(_KEY_BYTES), "big")
            yield key, reader.unpack(_LEAF_INDEX)[0]
        elif kind < _LEAF:
            reader.take(_NODE_BYTES[kind])
            pending += child_count
        else:
            raise InvalidValueError(f"A bitmap has a node of kind {kind}.")


def _containers(reader: _Reader) -> dict[int, Container]:
    found: dict[int, Container] = {}
    for first in range(reader.number(4)):
        reader.take(1)
        for second in range(reader.number(4)):
            if reader.number(1):
                found[first << 32 | second] = _container(reader)
    return found


def _container(reader: _Reader) -> Container:
    kind, cardinality = reader.unpack(_CONTAINER_HEAD)
    if kind == _RUN:
        count = reader.number(2)
        body = reader.take(4 * count)
        lengths = np.frombuffer(body, dtype="<u2")[1::2]
        cardinality = int(lengths.sum(dtype=np.int64)) + count
        return Container(_RUN, cardinality, count.to_bytes(2, "little") + body)
    if kind == _BITS:
        return _dense(reader.take(_BITS_BYTES), cardinality)
    if kind == _ARRAY and 0 < cardinality <= _ARRAY_CARDINALITY_MAX:
        return Container(_ARRAY, cardinality, reader.take(2 * cardinality))
    raise InvalidValueError(f"A bitmap has a container of kind {kind} with {cardinality} numbers.")


def _dense(body: bytes, cardinality: int) -> Container:
    """Keep a bit set, unless it is so sparse that the portable form takes it for an array."""
    if cardinality > _ARRAY_CARDINALITY_MAX:
        return Container(_BITS, cardinality, body)
    bits = np.unpackbits(np.frombuffer(body, dtype=np.uint8), bitorder="little")
    numbers = np.flatnonzero(bits).astype("<u2")
    return Container(_ARRAY, len(numbers), numbers.tobytes())


def _portable64(containers: Mapping[int, Container]) -> bytes:
    filled = sorted(key for key, container in containers.items() if container.cardinality)
    parts = [
        struct.pack("<I", high) + _portable32({key & 0xFFFF: containers[key] for key in keys})
        for high, keys in groupby(filled, key=lambda key: key >> 16)
    ]
    return struct.pack("<Q", len(parts)) + b"".join(parts)


def _portable32(containers: Mapping[int, Container]) -> bytes:
    size = len(containers)
    has_runs = any(container.kind == _RUN for container in containers.values())
    head = bytearray()
    if has_runs:
        head += struct.pack("<HH", _COOKIE_RUNS, size - 1)
        flags = [container.kind == _RUN for container in containers.values()]
        head += np.packbits(np.array(flags), bitorder="little").tobytes()
    else:
        head += struct.pack("<II", _COOKIE_PLAIN, size)
    for key, container in containers.items():
        head += struct.pack("<HH", key, container.cardinality - 1)
    if not has_runs or size > _RUNS_WITHOUT_OFFSETS_MAX:
        sizes = [len(container.body) for container in containers.values()]
        offsets = np.cumsum([len(head) + 4 * size, *sizes[:-1]])
        head += offsets.astype("<u4").tobytes()
    return bytes(head) + b"".join(container.body for container in containers.values())


def art_from_portable(content: bytes) -> bytes:
    """Bring a 64-bit bitmap from the portable form into the bytes of a Roaring64Bitmap."""
    containers = dict(_portable_containers(_Reader(content)))
    if not containers:
        return _EMPTY
    keys = [key.to_bytes(_KEY_BYTES, "big") for key in containers]
    tree = bytearray(struct.pack("<BQ", _NOT_EMPTY, len(keys)))
    _write_node(tree, keys, first=0, depth=0)
    tree += struct.pack("<IBI", 1, _NOT_TRIMMED, len(keys))
    for container in containers.values():
        tree += b"\x01" + _CONTAINER_HEAD.pack(container.kind, container.cardinality)
        tree += container.body
    return bytes(tree + _TAIL.pack(len(keys), 0, len(keys) - 1))


def _portable_containers(reader: _Reader) -> Iterator[tuple[int, Container]]:
    for _ in range(reader.number(8)):
        high = reader.number(4)
        cookie, size = reader.number(2), reader.number(2) + 1
        flags = np.zeros(0, dtype=np.uint8)
        if cookie == _COOKIE_RUNS:
            packed = np.frombuffer(reader.take((size + 7) // 8), dtype=np.uint8)
            flags = np.unpackbits(packed, bitorder="little")
        else:
            size = reader.number(4)
            flags = np.zeros(size, dtype=np.uint8)
        heads = [reader.unpack(struct.Struct("<HH")) for _ in range(size)]
        if cookie != _COOKIE_RUNS or size > _RUNS_WITHOUT_OFFSETS_MAX:
            reader.take(4 * size)
        for (low, cardinality_less_one), is_run in zip(heads, flags[:size], strict=True):
            container = _portable_container(reader, cardinality_less_one + 1, is_run=bool(is_run))
            yield high << 16 | low, container


def _portable_container(reader: _Reader, cardinality: int, *, is_run: bool) -> Container:
    if is_run:
        count = reader.take(2)
        runs = reader.take(4 * int.from_bytes(count, "little"))
        return Container(_RUN, cardinality, count + runs)
    if cardinality > _ARRAY_CARDINALITY_MAX:
        return Container(_BITS, cardinality, reader.take(_BITS_BYTES))
    return Container(_ARRAY, cardinality, reader.take(2 * cardinality))


def _write_node(tree: bytearray, keys: list[bytes], *, first: int, depth: int) -> None:
    """Write the node over some keys in order; `first` is the container of the first of them."""
    if len(keys) == 1:
        tree += _NODE_HEAD.pack(_LEAF, 0, 0) + keys[0] + _LEAF_INDEX.pack(first)
        return
    # Keys are sorted, so what the outermost two share is shared by all.
    split = next(at for at in range(depth, _KEY_BYTES) if keys[0][at] != keys[-1][at])
    children = [list(group) for _, group in groupby(keys, key=lambda key: key[split])]
    kind = next(kind for kind, size in enumerate(_NODE_CAPACITIES) if len(children) <= size)
    prefix = keys[0][depth:split]
    tree += _NODE_HEAD.pack(kind, len(children), len(prefix)) + prefix
    tree += _finder(kind, [child[0][split] for child in children])
    for child in children:
        _write_node(tree, child, first=first, depth=split + 1)
        first += len(child)


def _finder(kind: int, labels: list[int]) -> bytes:
    """Return the bytes by which a node finds the child for a label."""
    capacity = _NODE_CAPACITIES[kind]
    if capacity == _NODE_CAPACITIES[-1]:
        bits = np.zeros(capacity, dtype=np.uint8)
        bits[labels] = 1
        return np.packbits(bits, bitorder="little").tobytes()
    if kind <= 1:
        slots = np.zeros(capacity, dtype=np.uint8)
        slots[: len(labels)] = labels
    else:
        slots = np.full(_NODE_BYTES[kind], 0xFF, dtype=np.uint8)
        slots[labels] = np.arange(len(labels))
    # Java packs the slots into words, the first slot highest, and writes words lowest byte first.
    return slots.reshape(-1, min(capacity, 8))[:, ::-1].tobytes()


try:
    from pyroaring import BitMap, BitMap64
except ImportError:
    IS_AVAILABLE = False
else:
    IS_AVAILABLE = True


def require_bitmaps() -> None:
    """Refuse to go on where the library of bitmaps is not installed."""
    if not IS_AVAILABLE:
        raise UnsupportedError(
            "The aggregate functions rbm32 and rbm64 need the package pyroaring.",
            hint="Install it on the server: pip install headwater[bitmaps].",
        )


def union32(held: bytes, written: bytes) -> bytes:
    """Unite two bitmaps in the portable form."""
    union = _read32(held)
    union |= _read32(written)
    union.run_optimize()
    return union.serialize()


def union64(held: bytes, written: bytes) -> bytes:
    """Unite two bitmaps in the form of Java's Roaring64Bitmap."""
    union = _read64(held)
    union |= _read64(written)
    union.run_optimize()
    return art_from_portable(union.serialize())


def check32(content: bytes) -> None:
    """Refuse bytes that are no 32-bit bitmap."""
    _read32(content)


def check64(content: bytes) -> None:
    """Refuse bytes that are no 64-bit bitmap."""
    _read64(content)


def _read32(content: bytes) -> "BitMap":
    require_bitmaps()
    try:
        return BitMap.deserialize(content)
    except (ValueError, IndexError) as error:
        raise InvalidValueError(f"These are not the bytes of a 32-bit bitmap: {error}.") from error


def _read64(content: bytes) -> "BitMap64":
    require_bitmaps()
    try:
        return BitMap64.deserialize(portable_from_art(content))
    except (ValueError, IndexError) as error:
        raise InvalidValueError(f"These are not the bytes of a 64-bit bitmap: {error}.") from error
