"""What clients of a log saw: operations, their journal, and the violations a checker reports."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from headwater.errors import InvalidValueError


class ViolationKind(StrEnum):
    """The guarantee that was violated."""

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
    """What went wrong, and where, in one sentence."""

    kind: ViolationKind
    message: str
    bucket: int | None = None
    offset: int | None = None
    key: str | None = None
    operations: tuple[int, ...] = ()  # the numbers of the operations that show the violation

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


# Operations of a history: each is opened once and closed at most once.


class OperationOutcome(StrEnum):
    """What a client knows of an operation that it started."""

    DONE = "done"
    FAILED = "failed"  # it certainly has no effect
    UNKNOWN = "unknown"  # it may take effect once at any time after its start, or never


class Outcomes:
    """Number operations, and remember how each ended."""

    def __init__(self) -> None:
        self._ends: list[OperationOutcome] = []

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, operation: int) -> OperationOutcome:
        return self._ends[operation]

    def open(self) -> int:
        """Number a new operation, whose outcome is unknown until it is closed."""
        self._ends.append(OperationOutcome.UNKNOWN)
        return len(self._ends) - 1

    def close(self, operation: int, outcome: OperationOutcome) -> None:
        """Record how an operation ended; one with an unknown outcome may still be answered."""
        if not 0 <= operation < len(self._ends):
            raise InvalidValueError(f"There is no operation {operation}.")
        held = self._ends[operation]
        if held is not OperationOutcome.UNKNOWN and outcome is not held:
            raise InvalidValueError(f"Operation {operation} already ended as {held}.")
        self._ends[operation] = outcome


# Events of a history as JSON lines, so that histories outlive their processes.

Event = dict[str, str | int | float | None]


class Journal:
    """Keep events in memory, and optionally append them to a new file."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.events: list[Event] = []
        # A restarted process needs another file: its operations are numbered from 0 again.
        self._file = None if path is None else Path(path).open("x", encoding="utf-8")  # noqa: SIM115

    def add(self, event: Event) -> None:
        """Record one event; once this returns, it survives a kill of the process."""
        self.events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_events(path: str | Path, events: Iterable[Event]) -> None:
    """Write all events to a file."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def read_events(path: str | Path) -> Iterator[Event]:
    """Yield the events of a file, except a last line that a kill truncated."""
    *lines, _ = Path(path).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        yield _event_of(line, f"{path}:{number}")


def _event_of(line: str, place: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise InvalidValueError(f"{place} is not a line of a history.")
    return event


# The history of a log.


@dataclass(frozen=True, slots=True)
class Sent:
    """One value that a writer sent, and its offset if the response said so."""

    writer: str
    value: str
    bucket: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class WasRead:
    """One row as a reader saw it."""

    reader: str
    bucket: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Extent:
    """The half-open range of offsets that a bucket has at the end."""

    start: int
    end: int


class LogHistory:
    """Record what writers and readers of a log saw, each in its own order.

    Values are texts that are sent only once, such as "writer/number". A writer and a reader are one
    session each: starting again, at another offset or with another writer id, takes a new name.
    With a journal, each event is in the file before its method returns, for clients that may be
    killed.
    """

    def __init__(self, *, journal: str | Path | None = None) -> None:
        self.sent: list[Sent] = []
        self.outcomes = Outcomes()
        self.reads: list[WasRead] = []
        self.extents: dict[int, Extent] = {}
        self.journal = Journal(journal)

    def send(self, writer: str, value: str) -> int:
        """Record that a writer is about to send a value; return the number of the operation."""
        self.journal.add({"event": "send", "writer": writer, "value": value})
        self.sent.append(Sent(writer, value))
        return self.outcomes.open()

    def ack(self, operation: int, *, bucket: int | None = None, offset: int | None = None) -> None:
        """Record that the value is durable, and its offset if the response said so."""
        self.outcomes.close(operation, OperationOutcome.DONE)
        place: Event = {"bucket": bucket, "offset": offset}
        self.journal.add({"event": "ack", "operation": operation, **place})
        sent = self.sent[operation]
        self.sent[operation] = Sent(sent.writer, sent.value, bucket, offset)

    def fail(self, operation: int) -> None:
        """Record that the value is certainly not written, now or later."""
        self.outcomes.close(operation, OperationOutcome.FAILED)
        self.journal.add({"event": "fail", "operation": operation})

    def lose(self, operation: int) -> None:
        """Record that it is unknown whether the value is written, as if never closed."""
        self.outcomes.close(operation, OperationOutcome.UNKNOWN)
        self.journal.add({"event": "lose", "operation": operation})

    def read(self, reader: str, *, bucket: int, offset: int, value: str) -> None:
        """Record that a reader saw a row."""
        place: Event = {"bucket": bucket, "offset": offset, "value": value}
        self.journal.add({"event": "read", "reader": reader, **place})
        self.reads.append(WasRead(reader, bucket, offset, value))

    def end(self, *, bucket: int, start: int, end: int) -> None:
        """Record which offsets a bucket has at the end."""
        self.journal.add({"event": "end", "bucket": bucket, "start": start, "end": end})
        self.extents[bucket] = Extent(start, end)

    def save(self, path: str | Path) -> None:
        """Write all events to a file, as JSON lines."""
        write_events(path, self.journal.events)

    def close(self) -> None:
        """Close the journal's file."""
        self.journal.close()

    @classmethod
    def load(cls, *paths: str | Path) -> Self:
        """Load one history from files, each of at least one client."""
        return cls.of_events(*map(read_events, paths))

    @classmethod
    def merge(cls, *histories: "LogHistory") -> Self:
        """Merge histories; operations get new numbers."""
        return cls.of_events(*(history.journal.events for history in histories))

    @classmethod
    def of_events(cls, *parts: Iterable[Event]) -> Self:
        """Build a history from the events of journals."""
        history = cls()
        for events in parts:
            history._replay(events)
        return history

    def _replay(self, events: Iterable[Event]) -> None:
        first = len(self.outcomes)
        calls: dict[str, Callable[..., object]] = {
            "send": self.send,
            "ack": self.ack,
            "fail": self.fail,
            "lose": self.lose,
            "read": self.read,
            "end": self.end,
        }
        for event in events:
            fields = {name: value for name, value in event.items() if name != "event"}
            if "operation" in fields:
                fields["operation"] = int(str(fields["operation"])) + first
            call = calls.get(str(event["event"]))
            if call is None:
                raise InvalidValueError(f"{event['event']!r} is not an event of a log.")
            call(**fields)
