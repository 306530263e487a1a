"""What a checker found wrong in a history."""

from dataclasses import dataclass
from enum import StrEnum


class ViolationKind(StrEnum):
    """Name the promise that was broken."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    CONFLICTING = "conflicting"
    GAP = "gap"
    BACKWARDS = "backwards"
    PHANTOM = "phantom"
    NOT_LINEARIZABLE = "not linearizable"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Say in one sentence what went wrong, and where."""

    kind: ViolationKind
    message: str
    bucket: int | None = None
    offset: int | None = None
    key: str | None = None
    operations: tuple[int, ...] = ()  # the numbers of those it takes to see the violation

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
