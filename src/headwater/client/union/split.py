"""Splits of a union read: what one task reads, as plain values that travel.

They pickle, and have a documented form in JSON (`split_json`), so that an engine with a planner
and workers can share them out.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from headwater.lake.split import LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange


class Tier(StrEnum):
    """Say where the rows of a split come from."""

    LAKE_ONLY = "LAKE_ONLY"
    LOG_ONLY = "LOG_ONLY"
    HYBRID = "HYBRID"
    """Rows by key: those of the lake that were not changed since, and the changed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionSplit:
    """Name what one task reads of one bucket."""

    tier: Tier
    partition: str | None
    """The name of the partition, with its values in the order of the partition keys."""
    bucket: int
    """The bucket, or -1 where the lake does not keep rows by bucket."""
    lake: LakeSplit | None = None
    """The files, with format, bounds and snapshot; None for LOG_ONLY."""
    log_bucket: LakeBucket | None = None
    """The bucket whose log is read; None for LAKE_ONLY."""
    log: OffsetRange | None = None
    """The offsets that are read of the log. By key, their changes are folded; None if LAKE_ONLY."""
    reads_state: bool = False
    """LOG_ONLY by key where the lake holds nothing of the bucket: the rows are those that the
    changes before `log.end` leave, however far back the log goes. Servers tell them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Tell what a plan leaves out, and why."""

    what: str
    """E.g. `partition 2026-11-16`, `bucket 3`, `file …/00000-0.parquet`."""
    why: str
    """E.g. `day = '2026-11-17'`, `id in [0, 99]`."""
    row_count: int = 0
    byte_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """Hold the splits of a view that can hold wanted rows."""

    splits: tuple[UnionSplit, ...]
    pruned: tuple[Pruned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Name lake files that an engine reads by itself in one go."""

    files: tuple[LakeFile, ...]
    """All `is_native`, all with the same `names`, and either all with deletes or none."""
    is_touched: bool
    """Whether rows may be in them that were changed since: leave those with a changed key out."""
    partition: tuple[tuple[str, str], ...] = ()
    bucket: int = -1

    @property
    def names(self) -> tuple[tuple[int, str], ...]:
        """Return what the columns are called in the files, by their ids."""
        names = self.files[0].names
        assert names is not None
        return names


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePlan:
    """Divide a plan for an engine that reads Parquet files by itself.

    The rows of the table are: those of the files, without positions that their deletes name, and
    without rows of touched groups whose key is among the changed ones; then the tail (rows of the
    log; by key the folded ones that are left); then the rows of the other splits.
    """

    groups: tuple[FileGroup, ...]
    tail: tuple[UnionSplit, ...]
    """LOG_ONLY and HYBRID splits whose log part the reader gives, and lake part the engine."""
    others: tuple[UnionSplit, ...] = ()
    """Splits that only the reader can read, whole."""
    key: tuple[str, ...] = field(default=())
    """The primary key, by which rows of touched groups are left out."""
