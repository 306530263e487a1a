"""A table at one position: the lake snapshot that is read, and how far the logs are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedSnapshot:
    """Name a lake snapshot with the boundary that stands in it."""

    format: str
    snapshot_id: int
    committed_ms: int
    ranges: Mapping[LakeBucket, OffsetRange]
    """Which offsets of each bucket it holds."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """The names of the partitions that have ranges."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which start of the storage wrote the last row of each range, as far as that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Hold what a read is planned from. Two reads of one view give the same rows."""

    table: TableInfo
    """Under the schema of the position, which may be older than the newest one."""
    snapshot: ViewedSnapshot | None
    """None where the table has no lake, or nothing of it is needed for the position."""
    logs: Mapping[LakeBucket, OffsetRange]
    """For every bucket there is: the first offset that the log still holds, and the position."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """Id and name of every partition that the storage has."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which start of the storage wrote the row before the position, as far as that is known."""
    read_ms: int = 0
    """When the view was taken, by the clock of the reader."""
    is_newest: bool = True
    """Whether the position is where the logs ended then, not one that was asked for."""
    as_of_ms: int | None = None
    """The moment that was asked for; None where the position was named in another way."""
    notes: tuple[str, ...] = ()
    """What a person who asks for an explanation should know, e.g. why the lake is not read."""
