"""What tierers and a coordinator tell each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.boundary import LakeBucket, TieringEpoch
from headwater.model.path import TablePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Name a table that a tierer was given, for as long as it is heard of."""

    path: TablePath
    table_id: int
    epoch: TieringEpoch
    unsettled: int | None = None
    """The last turn whose tierer may still be alive; None where the server does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRound:
    """Tell that a table was tiered, or given back."""

    assignment: Assignment
    is_forced: bool = False
    """Ended before all was tiered, so that the table is due again at once."""
    file_size: int | None = None
    """Bytes that the lake table takes now."""
    record_count: int | None = None
    """Rows that the lake table holds now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRound:
    """Tell that a table could not be tiered, and why."""

    assignment: Assignment
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringState:
    """Tell where a table stands between two rounds."""

    path: TablePath
    table_id: int
    state: str
    """One of scheduled, pending, tiering and failed."""
    epoch: int
    freshness_ms: int
    due_in_ms: int
    """Time until it is handed out; negative if it waits for a tierer."""
    last_tiered_ms: int | None = None
    """When a round ended well, in milliseconds since 1970."""
    last_duration_ms: int | None = None
    snapshot_id: int | None = None
    """The newest snapshot that was reported."""
    failures: int = 0
    """Rounds in a row that failed."""
    last_failure: str | None = None
    file_size: int | None = None
    record_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """Hold what a coordinator answers to a heartbeat."""

    coordinator_epoch: int
    storage_id: str | None = None
    """Which storage it is; None if the server does not tell, as Apache Fluss does not."""
    assigned: Assignment | None = None
    fenced: frozenset[int] = frozenset()
    """Ids of tables named in the heartbeat that are not the tierer's any more."""
    states: tuple[TieringState, ...] = ()
    now_ms: int | None = None
    """The time that the server believes; None if it does not tell, as Apache Fluss does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSnapshot:
    """Hold what the coordinator was told of a lake snapshot; the lake itself knows better."""

    table_id: int
    snapshot_id: int
    ends: Mapping[LakeBucket, int] = field(default_factory=dict)
    """The first offset of each bucket that the snapshot does not hold."""
