"""File names in the directory of a bucket."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

CHECKPOINT = "checkpoint"
_SEGMENT = re.compile(r"(\d{20})\.log(\.damaged)?")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """Name one segment file by the offset it starts at."""

    base_offset: int
    is_damaged: bool

    def __str__(self) -> str:
        return segment_name(self.base_offset) + (".damaged" if self.is_damaged else "")


def segment_name(base_offset: int) -> str:
    """Return the name of a segment."""
    return f"{base_offset:020d}.log"


def index_name(base_offset: int) -> str:
    """Return the name of a sealed segment's index."""
    return f"{base_offset:020d}.index"


def torn_name(base_offset: int, names: Iterable[str]) -> str:
    """Return the first free name for bytes that are cut from a segment."""
    taken = set(names)
    number = 1
    while f"{segment_name(base_offset)}.torn-{number}" in taken:
        number += 1
    return f"{segment_name(base_offset)}.torn-{number}"


def segment_names(names: Iterable[str]) -> list[SegmentName]:
    """Return the segments among the names of a directory, by offset.

    A damaged one no longer counts once an operator has put a good copy beside it.
    """
    matches = filter(None, map(_SEGMENT.fullmatch, names))
    found = [SegmentName(int(match[1]), match[2] is not None) for match in matches]
    found.sort(key=lambda name: (name.base_offset, name.is_damaged))
    return [
        name
        for at, name in enumerate(found)
        if at == 0 or found[at - 1].base_offset != name.base_offset
    ]
