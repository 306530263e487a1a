"""Chance: bytes that nobody can guess, and numbers that need no secrecy."""

import os
import random


def random_bytes(count: int) -> bytes:
    """Return bytes for salts and keys."""
    return os.urandom(count)


def random_fraction() -> float:
    """Return a number in [0, 1), for spreading what would otherwise happen at once."""
    return random.random()
