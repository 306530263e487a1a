"""The index of a sealed segment: its marks, the last of them at its end."""

from collections.abc import Sequence

from headwater.log.mark import Mark, decode_marks, encode_marks
from headwater.log.sealed_file import disclose, enclose

_MAGIC = b"HWINDEX1"


def encode_index(marks: Sequence[Mark]) -> bytes:
    """Write the marks of a sealed segment."""
    return enclose(_MAGIC, encode_marks(marks))


def decode_index(content: bytes) -> tuple[Mark, ...]:
    """Read the marks of a sealed segment or raise CorruptFileError."""
    marks, _ = decode_marks(disclose(_MAGIC, content), 0)
    return marks
