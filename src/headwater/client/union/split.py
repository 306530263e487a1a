"""Splits of a union read: what one task reads, as plain values that travel.

They pickle, and have a documented form in JSON (docs/reference/split-json.md), so that an engine
with a planner and workers can share them out.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from headwater.errors import InvalidTableError, RequestError
from headwater.lake.split import LakeFile, LakeSplit
from headwater.lake.split_json import (
    Node,
    flag_of,
    int_or_none,
    lake_document,
    lake_of_document,
)
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.type_json import Json, int_of, object_of, text_of

SPLIT_VERSION = 1


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

    def to_json(self) -> dict[str, Json]:
        """Return the split as a document, whose form is documented."""
        return {
            "version": SPLIT_VERSION,
            "tier": str(self.tier),
            "partition": self.partition,
            "bucket": self.bucket,
            "lake": None if self.lake is None else lake_document(self.lake),
            "log": _log_document(self),
        }

    @classmethod
    def from_json(cls, document: Json) -> "UnionSplit":
        """Read a split from its document, or say what is wrong with it."""
        try:
            node = object_of(document, what="split")
            _check_version(int_of(node, "version"))
            return _split(node)
        except (ValueError, InvalidTableError) as fault:
            raise RequestError(
                f"The split cannot be read: {fault}.",
                hint="The reference page 'Splits in JSON' shows one.",
            ) from fault


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


# ---- documents


def _check_version(version: int) -> None:
    if version != SPLIT_VERSION:
        raise RequestError(
            f"The split has version {version}, and this Headwater reads {SPLIT_VERSION}.",
            hint="Use the same version of Headwater where splits are planned and read.",
        )


def _log_document(split: UnionSplit) -> Json:
    if split.log is None or split.log_bucket is None:
        return None
    return {
        "partition_id": split.log_bucket.partition_id,
        "bucket": split.log_bucket.bucket,
        "start": split.log.start,
        "end": split.log.end,
        "reads_state": split.reads_state,
    }


def _split(node: Node) -> UnionSplit:
    tier = Tier(text_of(node, "tier"))
    lake = None if node.get("lake") is None else object_of(node["lake"], what="lake")
    log = None if node.get("log") is None else object_of(node["log"], what="log")
    if (lake is None) != (tier is Tier.LOG_ONLY) or (log is None) != (tier is Tier.LAKE_ONLY):
        raise ValueError(f"'lake' and 'log' are not those of a {tier} split")
    split = UnionSplit(
        tier=tier,
        partition=None if node.get("partition") is None else text_of(node, "partition"),
        bucket=int_of(node, "bucket"),
        lake=None if lake is None else lake_of_document(lake),
    )
    return split if log is None else _with_log(split, log)


def _with_log(split: UnionSplit, log: Node) -> UnionSplit:
    start, end = int_of(log, "start"), int_of(log, "end")
    if not 0 <= start <= end:
        raise ValueError(f"{start} to {end} are no offsets")
    return replace(
        split,
        log_bucket=LakeBucket(int_or_none(log, "partition_id"), int_of(log, "bucket")),
        log=OffsetRange(start, end),
        reads_state=flag_of(log, "reads_state"),
    )
