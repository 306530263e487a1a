"""Sections of a bucket: files whose ranges of keys overlap belong together, others do not.

Sections follow one another in the order of keys. One that is a single file without rows that
delete is current as it stands; the rows of any other have to be merged.
"""

import math
from collections.abc import Sequence

import pyarrow as pa

from headwater.errors import CorruptBatchError, CorruptFileError
from headwater.lake.paimon.binary_row import from_binary_row
from headwater.lake.paimon.manifests import DataFile, Entry
from headwater.model.predicate import Literal

# Numbers that are none come after all others, as files are sorted.
_Rank = tuple[tuple[bool, Literal], ...]
KeyRange = tuple[tuple[Literal, ...], tuple[Literal, ...]]


def sections_of(entries: Sequence[Entry], key_types: Sequence[pa.DataType]) -> list[list[Entry]]:
    """Divide the files of one bucket, each section with what was written earlier first."""
    ranked: list[tuple[_Rank, _Rank, Entry]] = []
    for entry in entries:
        found = key_range(entry.file, key_types)
        if found is None:
            # Nobody knows with which others it overlaps.
            return [sorted(entries, key=_age)] if entries else []
        ranked.append((_rank(found[0]), _rank(found[1]), entry))
    sections: list[list[Entry]] = []
    end: _Rank | None = None
    for low, high, entry in sorted(ranked, key=_start):
        if end is None or low > end:
            sections.append([])
        sections[-1].append(entry)
        end = high if end is None else max(end, high)
    return [sorted(section, key=_age) for section in sections]


def is_current(section: Sequence[Entry]) -> bool:
    """Tell whether the rows of a section are the current ones as they stand in its file."""
    return len(section) == 1 and not section[0].file.delete_count


def key_range(file: DataFile, key_types: Sequence[pa.DataType]) -> KeyRange | None:
    """Return the lowest and the highest key of a file; None if it does not tell them."""
    found = []
    for name in ("_MIN_KEY", "_MAX_KEY"):
        row = file.record.get(name)
        try:
            key = from_binary_row(key_types, row) if isinstance(row, bytes) else ()
        except (CorruptFileError, CorruptBatchError):
            return None
        if not key or None in key:
            return None
        found.append(key)
    return found[0], found[1]


def _rank(key: tuple[Literal, ...]) -> _Rank:
    return tuple(
        (True, None) if isinstance(value, float) and math.isnan(value) else (False, value)
        for value in key
    )


def _start(ranked: tuple[_Rank, _Rank, Entry]) -> tuple[_Rank, _Rank]:
    return ranked[0], ranked[1]


def _age(entry: Entry) -> tuple[int, str]:
    return entry.file.sequence_min, entry.file.name
