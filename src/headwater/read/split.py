"""Splits: what one task reads of a table, as plain values that travel.

There are four kinds, and each has the fields that it needs and no others. They pickle, and have a
documented form in JSON (docs/reference/split-json.md), so that an engine with a planner and workers
can share them out.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

from headwater.errors import InvalidTableError, RequestError
from headwater.lake.split import (
    LakeFile,
    LakeSplit,
    Node,
    flag_of,
    int_or_none,
    lake_document,
    lake_of_document,
)
from headwater.model import LakeBucket, OffsetRange, TableBucket, TableInfo
from headwater.model.type_json import Json, int_of, object_of, text_of, type_to_json
from headwater.read.filters import Filter, filter_text
from headwater.read.offsets import Place
from headwater.read.token import token_text
from headwater.read.view import TableView

SPLIT_VERSION = 1


class Tier(StrEnum):
    """Say where the rows of a split come from."""

    LAKE_ONLY = "LAKE_ONLY"
    LOG_ONLY = "LOG_ONLY"
    HYBRID = "HYBRID"
    """Rows by key: those of the lake that were not changed since, and the changed ones."""


@dataclass(frozen=True, slots=True)
class UnionSplit(ABC):
    """Name what one task reads of one bucket.

    Every split is a LogRange, a StateAt, a LakeFiles or a Hybrid of `headwater.read.split`.
    """

    @property
    @abstractmethod
    def tier(self) -> Tier:
        """Return where the rows come from."""

    @property
    @abstractmethod
    def partition(self) -> str | None:
        """Return the name of the partition, with its values in the order of the partition keys."""

    @property
    @abstractmethod
    def bucket(self) -> int:
        """Return the bucket, or -1 where the lake does not keep rows by bucket."""

    @property
    def lake(self) -> LakeSplit | None:
        """Return the files, with format, bounds and snapshot; None for LOG_ONLY."""
        return None

    @property
    def tail(self) -> "LogPart | None":
        """Return what is read of the log; None for LAKE_ONLY."""
        return None

    @property
    def log_bucket(self) -> LakeBucket | None:
        """Return the bucket whose log is read; None for LAKE_ONLY."""
        return None if self.tail is None else self.tail.log_bucket

    @property
    def log(self) -> OffsetRange | None:
        """Return the offsets that are read of the log; None for LAKE_ONLY."""
        return None if self.tail is None else self.tail.offsets

    @property
    def reads_state(self) -> bool:
        """Return whether servers tell the rows at `log.end`, however far back the log goes."""
        return isinstance(self.tail, StateAt)

    def to_json(self) -> dict[str, Json]:
        """Return the split as a document, whose form is documented."""
        return {
            "version": SPLIT_VERSION,
            "tier": str(self.tier),
            "partition": self.partition,
            "bucket": self.bucket,
            "lake": None if self.lake is None else lake_document(self.lake),
            "log": None if self.tail is None else _tail_document(self.tail),
        }

    @classmethod
    def from_json(cls, document: Json) -> "Split":
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


# Fields below stand in for properties of UnionSplit. Without `field()`, a dataclass would take the
# inherited property for the default of the field.


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogSplit(UnionSplit):
    """Hold what a range of a log and a state have in common."""

    partition: str | None = field()
    bucket: int = field()
    partition_id: int | None
    """The id of the partition, since one that is dropped and made anew begins its offsets anew."""

    @property
    def tier(self) -> Tier:
        """Return that the lake is not read."""
        return Tier.LOG_ONLY

    @property
    def log_bucket(self) -> LakeBucket:
        """Return the bucket as it is named among those of its table."""
        return LakeBucket(self.partition_id, self.bucket)

    @property
    def place(self) -> Place:
        """Return the bucket as people name it."""
        return Place(self.partition, self.bucket)

    def bucket_of(self, table: TableInfo) -> TableBucket:
        """Return the bucket as servers name it."""
        return TableBucket(table.table_id, self.bucket, self.partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange(_LogSplit):
    """Read the rows of a log table, or the changes of a table by key, between two offsets.

    A union read folds the changes and gives the rows that they leave.
    """

    offsets: OffsetRange

    @classmethod
    def of(cls, place: Place, bucket: LakeBucket | TableBucket, offsets: OffsetRange) -> "LogRange":
        """Return a range of a bucket."""
        return cls(
            partition=place.partition,
            bucket=place.bucket,
            partition_id=bucket.partition_id,
            offsets=offsets,
        )

    @property
    def tail(self) -> "LogRange":
        """Return the split itself."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAt(_LogSplit):
    """Read the rows of a bucket by key as they are at an offset of its log; servers tell them."""

    at: int

    @classmethod
    def of(cls, place: Place, bucket: LakeBucket | TableBucket, at: int) -> "StateAt":
        """Return the state of a bucket."""
        return cls(
            partition=place.partition,
            bucket=place.bucket,
            partition_id=bucket.partition_id,
            at=at,
        )

    @property
    def offsets(self) -> OffsetRange:
        """Return the offsets that the rows stand for."""
        return OffsetRange(0, self.at)

    @property
    def tail(self) -> "StateAt":
        """Return the split itself."""
        return self


LogPart: TypeAlias = LogRange | StateAt
"""What is read of the log of one bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFiles(UnionSplit):
    """Read files of the lake."""

    partition: str | None = field()
    bucket: int = field()
    files: LakeSplit

    @property
    def tier(self) -> Tier:
        """Return that the log is not read."""
        return Tier.LAKE_ONLY

    @property
    def lake(self) -> LakeSplit:
        """Return the files."""
        return self.files


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid(UnionSplit):
    """Read a bucket by key: the rows of files that were not changed since, and the changed ones."""

    files: LakeSplit
    tail: LogPart = field()

    @property
    def tier(self) -> Tier:
        """Return that both are read."""
        return Tier.HYBRID

    @property
    def partition(self) -> str | None:
        """Return the name of the partition."""
        return self.tail.partition

    @property
    def bucket(self) -> int:
        """Return the bucket."""
        return self.tail.bucket

    @property
    def lake(self) -> LakeSplit:
        """Return the files."""
        return self.files


Split: TypeAlias = LogRange | StateAt | LakeFiles | Hybrid
"""What one task reads of one bucket. Match on it, and end with `assert_never`."""


def known_splits(splits: Iterable[UnionSplit]) -> tuple[Split, ...]:
    """Return splits that a caller gave, or say which is none."""
    return tuple(map(_known, splits))


def _known(split: UnionSplit) -> Split:
    if isinstance(split, LogRange | StateAt | LakeFiles | Hybrid):
        return split
    raise RequestError(
        f"{split!r} is not a split.", hint="Use those of view.plan() or of UnionSplit.from_json()."
    )


def rows_max_of(split: Split) -> int:
    """Return how many rows a task looks at for a split, at most."""
    match split:
        case LogRange(offsets=offsets):
            return offsets.end - offsets.start
        case StateAt(at=at):
            return at
        case LakeFiles(files=files):
            return files.row_count
        case Hybrid(files=files, tail=tail):
            return files.row_count + rows_max_of(tail)
        case other:
            assert_never(other)


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

    splits: tuple[Split, ...]
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
    tail: tuple[Split, ...]
    """LOG_ONLY and HYBRID splits whose log part the reader gives, and lake part the engine."""
    others: tuple[Split, ...] = ()
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


def _tail_document(tail: LogPart) -> Json:
    return {
        "partition_id": tail.partition_id,
        "bucket": tail.bucket,
        "start": tail.offsets.start,
        "end": tail.offsets.end,
        "reads_state": isinstance(tail, StateAt),
    }


def _split(node: Node) -> Split:
    tier = Tier(text_of(node, "tier"))
    partition = None if node.get("partition") is None else text_of(node, "partition")
    place = Place(partition, int_of(node, "bucket"))
    lake = None if node.get("lake") is None else object_of(node["lake"], what="lake")
    log = None if node.get("log") is None else object_of(node["log"], what="log")
    match tier, lake, log:
        case Tier.LAKE_ONLY, Mapping(), None:
            files = lake_of_document(lake)
            return LakeFiles(partition=partition, bucket=place.bucket, files=files)
        case Tier.LOG_ONLY, None, Mapping():
            return _tail(log, place)
        case Tier.HYBRID, Mapping(), Mapping():
            return Hybrid(files=lake_of_document(lake), tail=_tail(log, place))
        case _:
            raise ValueError(f"'lake' and 'log' are not those of a {tier} split")


def _tail(log: Node, place: Place) -> LogPart:
    start, end = int_of(log, "start"), int_of(log, "end")
    if not 0 <= start <= end:
        raise ValueError(f"{start} to {end} are not offsets")
    bucket = LakeBucket(int_or_none(log, "partition_id"), int_of(log, "bucket"))
    if bucket.bucket != place.bucket:
        raise ValueError(f"its bucket is {place.bucket}, but the log is of bucket {bucket.bucket}")
    if flag_of(log, "reads_state"):
        return StateAt.of(place, bucket, end)
    return LogRange.of(place, bucket, OffsetRange(start, end))


# The JSON form of plans, for engines that share splits out by other means than pickle.
#
# The form is part of the public interface: `docs/reference/split-json.md` describes it.

VERSION = 1


def plan_document(
    view: TableView,
    plan: ReadPlan,
    *,
    columns: Sequence[str] | None = None,
    wanted: Filter | None = None,
) -> dict[str, Json]:
    """Write a plan with what a worker has to know beside its split."""
    names = view.table.schema.names if columns is None else tuple(columns)
    snapshot = view.snapshot
    return {
        "version": VERSION,
        "table": str(view.table.path),
        "table_id": view.table.table_id,
        "schema_id": view.table.schema_id,
        "token": token_text(view),
        "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "primary_key": list(view.table.schema.primary_key),
        "columns": [_column(view, name) for name in names],
        "filter": None if wanted is None else filter_text(wanted),
        "splits": [split_document(split) for split in plan.splits],
        "pruned": [_pruned_document(each) for each in plan.pruned],
        "notes": list(view.notes),
    }


def split_document(split: UnionSplit) -> dict[str, Json]:
    """Write a split."""
    return split.to_json()


def split_of_document(document: Json) -> Split:
    """Read a split, or say what is wrong with it."""
    return UnionSplit.from_json(document)


def _column(view: TableView, name: str) -> Json:
    column = view.table.schema.column(name)
    return {"id": column.column_id, "name": name, "type": type_to_json(column.type)}


def _pruned_document(each: Pruned) -> Json:
    return {"what": each.what, "why": each.why, "rows": each.row_count, "bytes": each.byte_count}
