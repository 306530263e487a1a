"""Ways in which a file can be damaged at a place."""

from collections.abc import Callable

Mutation = Callable[[bytes, int], bytes]

STEPS = 64
SECTOR, PAGE = 512, 4096
GARBAGE = bytes(range(1, 200))


def flip(data: bytes, at: int) -> bytes:
    """Flip one bit."""
    return data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def zero_sector(data: bytes, at: int) -> bytes:
    """Lose a sector."""
    return _zeroed(data, at, SECTOR)


def zero_page(data: bytes, at: int) -> bytes:
    """Lose a page."""
    return _zeroed(data, at, PAGE)


def cut(data: bytes, at: int) -> bytes:
    """Lose the rest."""
    return data[:at]


def insert(data: bytes, at: int) -> bytes:
    """Get bytes in between."""
    return data[:at] + GARBAGE + data[at:]


def _zeroed(data: bytes, at: int, size: int) -> bytes:
    end = min(at + size, len(data))
    return data[:at] + bytes(end - at) + data[end:]


MUTATIONS: tuple[Mutation, ...] = (flip, zero_sector, zero_page, cut, insert)


def places(size: int, *, steps: int = STEPS) -> list[int]:
    """Return every 64th of a file, and its last byte."""
    return sorted({step * size // steps for step in range(steps)} | {max(size - 1, 0)})


def mutated(data: bytes, *, steps: int = STEPS) -> list[tuple[str, bytes]]:
    """Return all damaged copies of a file that differ from it."""
    damaged = [
        (f"{mutation.__name__} at {at} of {len(data)}", mutation(data, at))
        for at in places(len(data), steps=steps)
        for mutation in MUTATIONS
        if data
    ]
    return [(label, each) for label, each in damaged if each != data]
