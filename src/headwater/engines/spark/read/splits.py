"""Shares: which task reads which splits of a table.

The same splits are always shared out in the same way, so that a query can be run again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, TypeVar, assert_never

from headwater.lake.split import LakeSplit
from headwater.model import OffsetRange
from headwater.read.offsets import Place
from headwater.read.split import (
    Hybrid,
    LakeFiles,
    LogPart,
    LogRange,
    Split,
    StateAt,
    rows_max_of,
    split_document,
    split_of_document,
)

# To begin a task takes as long as reading so many rows, so that less is not worth one.
TASK_ROWS_MIN = 50_000
# Where there are rows enough, about so many tasks share them.
TASKS_WANTED = 32

Share: TypeAlias = tuple[Split, ...]
"""What one task reads."""
SplitT = TypeVar("SplitT", bound=Split)


@dataclass(frozen=True, slots=True)
class LogShare:
    """Hold what one task reads of logs, without a view."""

    splits: tuple[LogPart, ...] = ()
    read_ms: int = 0
    """The moment that rows of a state are said to be of, where they are read as changes."""


def log_shares(
    parts: Iterable[LogPart], *, split_rows: int, cuts: bool = True, read_ms: int = 0
) -> tuple[LogShare, ...]:
    """Return what each task reads of logs: large ranges in pieces, small ones several together."""
    pieces = [
        piece
        for part in parts_in_order(parts)
        for piece in (_cut(part, split_rows) if cuts else [part])
    ]
    return tuple(LogShare(share, read_ms) for share in packed(pieces, rows_max=split_rows))


def parts_in_order(parts: Iterable[LogPart]) -> list[LogPart]:
    """Return what has rows, sorted by partition and bucket."""
    return sorted((each for each in parts if rows_max_of(each) > 0), key=_order)


def packed(splits: Sequence[SplitT], *, rows_max: int) -> Iterator[tuple[SplitT, ...]]:
    """Yield what each task reads, in the order of the splits: large ones alone, small together."""
    total = sum(map(rows_max_of, splits))
    wanted = min(max(total // TASKS_WANTED, TASK_ROWS_MIN), rows_max)
    waiting: list[SplitT] = []
    rows = 0
    for split in splits:
        here = rows_max_of(split)
        if waiting and rows + here > wanted:
            yield tuple(waiting)
            waiting, rows = [], 0
        waiting.append(split)
        rows += here
    if waiting:
        yield tuple(waiting)


def place_order(place: Place) -> tuple[str, int]:
    """Sort buckets by partition and number."""
    return place.partition or "", place.bucket


def _order(part: LogPart) -> tuple[str, int]:
    return place_order(part.place)


def _cut(part: LogPart, split_rows: int) -> Iterator[LogPart]:
    """Yield a range in pieces of nearly the same size; a state cannot be cut.

    Two pieces of one range have more rows together than `split_rows`, so that they never come to
    the same task.
    """
    rows = rows_max_of(part)
    if isinstance(part, StateAt) or rows <= split_rows:
        yield part
        return
    count = -(-rows // split_rows)
    edges = [part.offsets.start + rows * number // count for number in range(count + 1)]
    for start, end in pairwise(edges):
        yield replace(part, offsets=OffsetRange(start, end))


# Splits that somebody else planned, as an option of a read carries them to the reader.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplits:
    """Hold what is read, under which schema of the table."""

    schema_id: int
    splits: Share
    is_tail: bool
    """Whether only the rows of the logs are read, since Spark reads the files."""

    def to_text(self) -> str:
        """Write it as JSON."""
        node = {
            "schema_id": self.schema_id,
            "is_tail": self.is_tail,
            "splits": [split_document(split) for split in self.splits],
        }
        return json.dumps(node, separators=(",", ":"))


def planned_of(text: str) -> PlannedSplits:
    """Read what `to_text` wrote, in another process of the same version."""
    node = json.loads(text)
    return PlannedSplits(
        schema_id=node["schema_id"],
        is_tail=node["is_tail"],
        splits=tuple(split_of_document(each) for each in node["splits"]),
    )


# How many rows splits of lake and log have, where their files and offsets tell exactly.


def exact_rows(splits: Iterable[Split], *, is_keyed: bool) -> int | None:
    """Return how many rows all splits have together, or None where only reading tells."""
    total = 0
    for split in splits:
        rows = _exact(split, is_keyed=is_keyed)
        if rows is None:
            return None
        total += rows
    return total


def _exact(split: Split, *, is_keyed: bool) -> int | None:
    match split:
        case LakeFiles(files=files):
            return files.row_count if _is_exact(files) else None
        case LogRange() if not is_keyed:
            return rows_max_of(split)
        case LogRange() | StateAt() | Hybrid():
            # How many keys the changes leave is not known before they are folded.
            return None
        case other:
            assert_never(other)


def _is_exact(split: LakeSplit) -> bool:
    return all(file.stands_alone and not file.deletes for file in split.files)
