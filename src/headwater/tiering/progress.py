"""What a tierer tells while it works, for those who show it or wait for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headwater.model.path import TablePath
from headwater.tiering.steps import Step
from headwater.tiering.turn import RoundReport


@dataclass(frozen=True, slots=True)
class Began:
    """Tell that a table was handed out."""

    path: TablePath


@dataclass(frozen=True, slots=True)
class Stepped:
    """Tell which step of a round comes now."""

    path: TablePath
    step: Step


@dataclass(frozen=True, slots=True)
class Copied:
    """Tell how many tasks of a round have ended, and how many rows they wrote."""

    path: TablePath
    tasks_done: int
    tasks: int
    rows: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Tell that a round ended well."""

    path: TablePath
    report: RoundReport
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Tell that a table could not be tiered, or its lake table not be kept in order."""

    path: TablePath
    fault: Exception
    seconds: float
    is_upkeep: bool = False
    """Whether only the upkeep failed: the round itself is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
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


News: TypeAlias = Began | Stepped | Copied | Ended | Failed | Kept | Waits
Listener = Callable[[News], None]


def deaf(_news: News) -> None:
    """Listen to nothing."""
