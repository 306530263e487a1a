"""A turn of a tierer with a table, the steps of its rounds, and what it tells while it works."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from headwater.cluster.lake import TieringAssignment
from headwater.lake.spi import LakeSnapshot, LakeStorage, LakeTableSpec
from headwater.model import LakeBucket, OffsetRange, TableInfo, TablePath
from headwater.model.boundary import TableIdentity, TieringEpoch

# A turn of a tierer with a table, and what came of it.


@dataclass(frozen=True, slots=True)
class TieringTurn:
    """Say whose turn it is with a table, and in which storage that is."""

    assignment: TieringAssignment
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
class LakeTarget:
    """Hold a table and the lake table that it goes to."""

    table: TableInfo
    lake: LakeStorage
    spec: LakeTableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """Tell what came of a round."""

    target: LakeTarget
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


# The steps of a round, and those who are told of them.


class RoundStep(Enum):
    """Name the steps of a round, in their order."""

    TABLE = "table"
    LAKE_TABLE = "lake table"
    HEAD = "head"
    LOGS = "logs"
    ADOPT = "adopt"
    PLAN = "plan"
    CLAIM = "claim"
    WRITE = "write"
    PREPARE = "prepare"
    COMMIT = "commit"
    REPORT = "report"


Watch = Callable[[RoundStep], Awaitable[None]]
"""Told of every step before it is taken; one that raises ends the round there."""


async def no_watch(_step: RoundStep) -> None:
    """Take no note of a step."""


# What a tierer tells while it works, for those who show it or wait for it.


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """Tell that a table was handed out."""

    path: TablePath


@dataclass(frozen=True, slots=True)
class Stepped:
    """Tell which step of a round comes now."""

    path: TablePath
    step: RoundStep


@dataclass(frozen=True, slots=True)
class Copied:
    """Tell how many tasks of a round have ended, and how many rows they wrote."""

    path: TablePath
    tasks_done: int
    tasks: int
    rows: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Tell that a round ended well."""

    path: TablePath
    report: RoundReport
    seconds: float


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """Tell that a table could not be tiered, or its lake table not be kept in order."""

    path: TablePath
    fault: Exception
    seconds: float
    is_upkeep: bool = False
    """Whether only the upkeep failed: the round itself is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepDone:
    """Tell what upkeep did to a lake table."""

    path: TablePath
    files_rewritten: int = 0
    snapshots_dropped: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Tell that there is nothing to do now, why, and when the server is asked again."""

    reason: str
    until_ms: int
    """In milliseconds since 1970."""


News: TypeAlias = TurnBegan | Stepped | Copied | TurnEnded | TurnFailed | UpkeepDone | Waits
Listener = Callable[[News], None]


def deaf(_news: News) -> None:
    """Listen to nothing."""
