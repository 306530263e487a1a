"""Small changes of bytes, written down as numbers so that any driver can make them up."""

import random
import struct
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

Edit = tuple[int, int, int]
"""Which change, where, and with what; all are taken modulo what there is."""

EDITS_MAX = 6
_RUN_BYTES_MAX = 64
_HEAD_BYTES = 128
_NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 12, 16, 48, 64, 127, 128, 255, 256, 1000, 32767, 32768, 65535)
_LARGE = (65536, 2**20, 2**24, 2**30, 2**31 - 1, -(2**31), -(2**31) + 8)
_HUGE = (2**31, 2**32 - 1, 2**32, 2**40, 2**48, 2**62, 2**63 - 1, -(2**63), -(2**63) + 16)

edit_lists = st.lists(
    st.tuples(st.integers(0, 63), st.integers(0, 2**31), st.integers(0, 2**31)),
    min_size=1,
    max_size=EDITS_MAX,
)


def random_edits(chance: random.Random) -> list[Edit]:
    """Make edits up; few are more likely to get past the first checks than many."""
    count = min(int(chance.expovariate(0.7)) + 1, EDITS_MAX)
    numbers = [chance.getrandbits(31) for _ in range(2 * count)]
    return [(chance.getrandbits(6), numbers[2 * n], numbers[2 * n + 1]) for n in range(count)]


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Make all changes, one after the other."""
    for kind, place, value in edits:
        # Headers are short, and most that can go wrong is in them.
        room = min(len(data), _HEAD_BYTES) if value % 2 else len(data)
        data = _CHANGES[kind % len(_CHANGES)](data, place % (room + 1), value // 2)
    return data


def _flip(data: bytes, at: int, value: int) -> bytes:
    return _put(data, at, bytes([data[at] ^ 1 << value % 8])) if at < len(data) else data


def _set(data: bytes, at: int, value: int) -> bytes:
    return _put(data, at, bytes([value % 256]))


def _short(data: bytes, at: int, value: int) -> bytes:
    return _put(data, at, struct.pack("<H", _of((*_NUMBERS, value), value) & 0xFFFF))


def _int(data: bytes, at: int, value: int) -> bytes:
    return _put(
        data, at, struct.pack("<I", _of((*_NUMBERS, *_LARGE, len(data)), value) & 0xFFFFFFFF)
    )


def _int_big_endian(data: bytes, at: int, value: int) -> bytes:
    return _put(
        data, at, struct.pack(">I", _of((*_NUMBERS, *_LARGE, len(data)), value) & 0xFFFFFFFF)
    )


def _long(data: bytes, at: int, value: int) -> bytes:
    number = _of((*_NUMBERS, *_LARGE, *_HUGE, len(data)), value)
    return _put(data, at - at % 8, struct.pack("<q", number))


def _nudge(data: bytes, at: int, value: int) -> bytes:
    """Add a little to a number of four bytes."""
    if at + 4 > len(data):
        return data
    (number,) = struct.unpack_from("<I", data, at)
    step = (1, -1, 8, -8, 4, -4, 16, 256)[value % 8]
    return _put(data, at, struct.pack("<I", (number + step) & 0xFFFFFFFF))


def _cut(data: bytes, at: int, _: int) -> bytes:
    return data[:at]


def _drop(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + data[at + 1 + value % _RUN_BYTES_MAX :]


def _repeat(data: bytes, at: int, value: int) -> bytes:
    run = data[at : at + 1 + value % _RUN_BYTES_MAX]
    return data[:at] + run + data[at:]


def _insert(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value % 256]) * (1 + value // 256 % _RUN_BYTES_MAX) + data[at:]


def _fill(data: bytes, at: int, value: int) -> bytes:
    length = min(1 + value // 2 % _RUN_BYTES_MAX, len(data) - at)
    return _put(data, at, (b"\xff" if value % 2 else b"\0") * length)


def _swap(data: bytes, at: int, value: int) -> bytes:
    """Exchange two words."""
    other = value % (len(data) + 1)
    low, high = sorted((at, other))
    if high - low < 8 or high + 8 > len(data):
        return data
    one, two = data[low : low + 8], data[high : high + 8]
    return _put(_put(data, low, two), high, one)


def _put(data: bytes, at: int, given: bytes) -> bytes:
    return data[:at] + given + data[at + len(given) :]


def _of(numbers: tuple[int, ...], value: int) -> int:
    return numbers[value % len(numbers)]


_CHANGES: tuple[Callable[[bytes, int, int], bytes], ...] = (
    _flip,
    _flip,
    _set,
    _short,
    _int,
    _int,
    _int_big_endian,
    _long,
    _long,
    _nudge,
    _nudge,
    _cut,
    _drop,
    _repeat,
    _insert,
    _fill,
    _swap,
)
