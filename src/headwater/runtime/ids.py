"""Chance: bytes that nobody can guess."""

import os


def random_bytes(count: int) -> bytes:
    """Return bytes for salts and keys."""
    return os.urandom(count)
