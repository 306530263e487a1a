"""Inputs that broke something once: each is a file, and each file is a test."""

from hashlib import sha256
from pathlib import Path

from tests.fuzz.every import TARGETS, slug

FOUND = Path(__file__).parent / "found"
_DIGITS = 12
_SHOWN_BYTES_MAX = 2000


def keep(name: str, data: bytes) -> Path:
    """Keep an input for its target."""
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{slug(name)}--{sha256(data).hexdigest()[:_DIGITS]}.bin"
    path.write_bytes(data)
    return path


def kept() -> list[tuple[str, Path]]:
    """Return all inputs with the names of their targets."""
    names = {slug(name): name for name in TARGETS}
    paths = sorted(FOUND.glob("*.bin"))
    return [(names[path.stem.rpartition("--")[0]], path) for path in paths]


def told(name: str, data: bytes, why: str) -> str:
    """Keep an input, and say what it does in words that a failing test shows."""
    path = keep(name, data)
    shown = data[:_SHOWN_BYTES_MAX].hex()
    return f"{name}: {why}\nkept as {path.name}, {len(data)} bytes: {shown}"
