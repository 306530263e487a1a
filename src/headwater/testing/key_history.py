"""What clients of a primary-key table saw: puts, deletes and gets, and how each ended."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import merge as merge_sorted
from pathlib import Path
from typing import Protocol, Self

from headwater.runtime.clock import SystemClock
from headwater.testing.history import (
    Event,
    Journal,
    OperationOutcome,
    Outcomes,
    read_events,
    write_events,
)


class HistoryTimer(Protocol):
    """A clock that never goes back."""

    def monotonic(self) -> float:
        """Read the clock in seconds."""
        ...


class Verb(StrEnum):
    """What an operation does with its key."""

    PUT = "put"
    DELETE = "delete"
    GET = "get"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOperation:
    """One operation, with the positions of its start and end among all events."""

    number: int
    client: str
    verb: Verb
    key: str
    value: str | None  # what a put wrote or a get saw; None if there is no row
    begin: int
    end: int | None = None  # None if the outcome is unknown: it never ends
    outcome: OperationOutcome = OperationOutcome.UNKNOWN


_OUTCOMES = {
    "done": OperationOutcome.DONE,
    "fail": OperationOutcome.FAILED,
    "lose": OperationOutcome.UNKNOWN,
}


class KeyHistory:
    """Record what clients of a primary-key table saw, with the time of each event.

    When histories are merged, the times order the events of several processes of one machine;
    within one history the order of the calls counts. The journal works as in `LogHistory`.
    """

    def __init__(
        self, *, journal: str | Path | None = None, clock: HistoryTimer | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self.journal = Journal(journal)
        self._outcomes = Outcomes()
        self._operations: list[KeyOperation] = []

    def put(self, client: str, key: str, value: str) -> int:
        """Record that a client is about to write a row; return the number of the operation."""
        return self._begin({"event": "put", "client": client, "key": key, "value": value})

    def delete(self, client: str, key: str) -> int:
        """Record that a client is about to delete a row; return the number of the operation."""
        return self._begin({"event": "delete", "client": client, "key": key})

    def get(self, client: str, key: str) -> int:
        """Record that a client is about to look up a row; return the number of the operation."""
        return self._begin({"event": "get", "client": client, "key": key})

    def done(self, operation: int, value: str | None = None) -> None:
        """Record the answer; for a get it is the value, or None."""
        self._end(operation, {"event": "done", "value": value})

    def fail(self, operation: int) -> None:
        """Record that the operation certainly has no effect, now or later."""
        self._end(operation, {"event": "fail"})

    def lose(self, operation: int) -> None:
        """Record that the outcome of the operation is unknown, as if never closed."""
        self._end(operation, {"event": "lose"})

    def save(self, path: str | Path) -> None:
        """Write all events to a file, as JSON lines."""
        write_events(path, self.journal.events)

    def close(self) -> None:
        """Close the journal's file."""
        self.journal.close()

    @classmethod
    def load(cls, *paths: str | Path) -> Self:
        """Load one history from files, ordered by time."""
        return cls.of_events(*map(read_events, paths))

    @classmethod
    def merge(cls, *histories: "KeyHistory") -> Self:
        """Merge histories, ordered by time; operations get new numbers."""
        return cls.of_events(*(history.journal.events for history in histories))

    def operations(self) -> list[KeyOperation]:
        """List all operations in the order in which they started."""
        return list(self._operations)

    def _begin(self, event: Event) -> int:
        return self._add_begin({**event, "at": self._clock.monotonic()})

    def _end(self, operation: int, event: Event) -> None:
        self._add_end({**event, "operation": operation, "at": self._clock.monotonic()})

    def _add_begin(self, event: Event) -> int:
        operation = KeyOperation(
            number=self._outcomes.open(),
            client=str(event["client"]),
            verb=Verb(str(event["event"])),
            key=str(event["key"]),
            value=_text(event.get("value")),
            begin=len(self.journal.events),
        )
        self.journal.add(event)
        self._operations.append(operation)
        return operation.number

    def _add_end(self, event: Event) -> None:
        number = int(str(event["operation"]))
        outcome = _OUTCOMES[str(event["event"])]
        self._outcomes.close(number, outcome)
        begun = self._operations[number]
        value = _text(event.get("value")) if begun.verb is Verb.GET else begun.value
        end = None if outcome is OperationOutcome.UNKNOWN else len(self.journal.events)
        self._operations[number] = replace(begun, value=value, outcome=outcome, end=end)
        self.journal.add(event)

    @classmethod
    def of_events(cls, *parts: Iterable[Event]) -> Self:
        """Build a history from the events of journals.

        Of events with the same time, ends are sorted after starts: that makes their operations
        concurrent, so that no order is assumed that no clock showed. The order within each journal
        stays the same.
        """
        merged = cls()
        numbers = [list[int]() for _ in parts]
        streams = ([(part, event) for event in events] for part, events in enumerate(parts))
        for part, event in merge_sorted(*streams, key=lambda each: _moment(each[1])):
            known = numbers[part]
            if "operation" not in event:
                known.append(merged._add_begin(event))
            else:
                merged._add_end({**event, "operation": known[int(str(event["operation"]))]})
        return merged


def _moment(event: Event) -> tuple[float, bool]:
    return float(str(event["at"])), "operation" in event


def _text(value: str | float | None) -> str | None:
    return None if value is None else str(value)
