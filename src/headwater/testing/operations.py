"""Operations of a history: each is opened once, and closed at most once for good."""

from enum import StrEnum

from headwater.errors import InvalidValueError


class Outcome(StrEnum):
    """Say what a client knows of an operation that it began."""

    DONE = "done"
    FAILED = "failed"  # it certainly has no effect
    UNKNOWN = "unknown"  # it may take effect at any time from its begin on, once or never


class Outcomes:
    """Number operations, and remember how each ended."""

    def __init__(self) -> None:
        self._ends: list[Outcome] = []

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, operation: int) -> Outcome:
        return self._ends[operation]

    def open(self) -> int:
        """Return the number of a new operation, whose outcome is unknown until it is closed."""
        self._ends.append(Outcome.UNKNOWN)
        return len(self._ends) - 1

    def close(self, operation: int, outcome: Outcome) -> None:
        """Say how an operation ended; what was given up as unknown may still be answered."""
        if not 0 <= operation < len(self._ends):
            raise InvalidValueError(f"There is no operation {operation}.")
        held = self._ends[operation]
        if held is not Outcome.UNKNOWN and outcome is not held:
            raise InvalidValueError(f"Operation {operation} ended as {held} before.")
        self._ends[operation] = outcome
