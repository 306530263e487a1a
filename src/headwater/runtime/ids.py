"""Chance: bytes that nobody can guess, and numbers that need no secrecy."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Source:
    bytes: Callable[[int], bytes]
    fraction: Callable[[], float]


_source = _Source(os.urandom, random.random)


def random_bytes(count: int) -> bytes:
    """Return bytes for salts and keys."""
    return _source.bytes(count)


def random_fraction() -> float:
    """Return a number in [0, 1), for spreading what would otherwise happen at once."""
    return _source.fraction()


@contextmanager
def chance_from(seeded: random.Random) -> Iterator[None]:
    """Draw everything from a seed meanwhile, so that a run can be repeated; never in earnest."""
    before = (_source.bytes, _source.fraction)
    _source.bytes, _source.fraction = seeded.randbytes, seeded.random
    try:
        yield
    finally:
        _source.bytes, _source.fraction = before
