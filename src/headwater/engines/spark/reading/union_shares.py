"""Which task reads which splits of lake and log: the same for the same splits, always."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from headwater.client.union.split import UnionSplit
from headwater.engines.spark.reading.plan import TASK_ROWS_MIN

# Where there are rows enough, about so many tasks share them.
TASKS_WANTED = 32

UnionShare: TypeAlias = tuple[UnionSplit, ...]
"""What one task reads."""


def union_shares(splits: Sequence[UnionSplit], *, rows_max: int) -> tuple[UnionShare, ...]:
    """Return what each task reads: large splits alone, small ones several together."""
    total = sum(map(rows_of, splits))
    wanted = min(max(total // TASKS_WANTED, TASK_ROWS_MIN), rows_max)
    return tuple(_packed(splits, rows_wanted=wanted))


def rows_of(split: UnionSplit) -> int:
    """Return how many rows a task looks at for a split, at most."""
    files = 0 if split.lake is None else split.lake.row_count
    if split.log is None:
        return files
    return files + split.log.end - (0 if split.reads_state else split.log.start)


def _packed(splits: Iterable[UnionSplit], *, rows_wanted: int) -> Iterator[UnionShare]:
    waiting: list[UnionSplit] = []
    rows = 0
    for split in splits:
        here = rows_of(split)
        if waiting and rows + here > rows_wanted:
            yield tuple(waiting)
            waiting, rows = [], 0
        waiting.append(split)
        rows += here
    if waiting:
        yield tuple(waiting)
