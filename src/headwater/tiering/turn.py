"""A turn of a tierer with a table, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.client.lake.values import Assignment
from headwater.lake.spi import LakeSnapshot, LakeStorage
from headwater.lake.table import LakeTableSpec
from headwater.model.boundary import LakeBucket, TableIdentity, TieringEpoch
from headwater.model.bucket import OffsetRange
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True)
class Turn:
    """Say whose turn it is with a table, and in which storage that is."""

    assignment: Assignment
    storage_id: str | None = None
    """None where the server does not tell, as Apache Fluss does not."""
    fence: TieringEpoch | None = None
    """What stands for the epoch of the assignment in the lake, where that began to count anew."""

    @property
    def epoch(self) -> TieringEpoch:
        """Return what fences earlier turns."""
        return self.fence or self.assignment.epoch

    def identity(self, table: TableInfo) -> TableIdentity:
        """Return what tells the table apart from others of its name or id."""
        return identity_in(self.storage_id, table)


def identity_in(storage_id: str | None, table: TableInfo) -> TableIdentity:
    """Return what tells a table of a storage apart from others of its name or id."""
    return TableIdentity(storage_id or f"created-{table.created_ms}", table.table_id)


@dataclass(frozen=True, slots=True)
class Target:
    """Hold a table and the lake table that it goes to."""

    table: TableInfo
    lake: LakeStorage
    spec: LakeTableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """Tell what came of a round."""

    target: Target
    snapshot: LakeSnapshot | None
    """The newest snapshot, whether this round made it or not; None if the lake holds nothing."""
    tiered: Mapping[LakeBucket, OffsetRange] = field(default_factory=dict)
    """The offsets that came to the lake."""
    row_count: int = 0
    file_count: int = 0
    byte_count: int = 0
    rows_left: int = 0
    """Offsets that wait for the next round, since this one had enough."""
    adopted: bool = False
    """Whether the server was told of a snapshot that an earlier tierer had not reported."""
