"""What clients of a log saw: what they sent, what was answered, and what was read where."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headwater.errors import InvalidValueError
from headwater.testing.journal import Event, Journal, read_events, write_events
from headwater.testing.operations import Outcome, Outcomes


@dataclass(frozen=True, slots=True)
class Sent:
    """Hold one value that a writer sent, and where the answer said that it is."""

    writer: str
    value: str
    bucket: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class WasRead:
    """Hold one row as a reader saw it."""

    reader: str
    bucket: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Extent:
    """Hold which offsets a bucket covers at the end, half-open."""

    start: int
    end: int


class LogHistory:
    """Record what writers and readers of a log saw, in the order in which each saw it.

    Values are texts that are sent once only, such as "writer/number". A writer and a reader are
    one session each: who starts anew, at another place or with another writer id, takes another
    name. With a journal, each event is in the file before its method returns, for clients that
    are killed.
    """

    def __init__(self, *, journal: str | Path | None = None) -> None:
        self.sent: list[Sent] = []
        self.outcomes = Outcomes()
        self.reads: list[WasRead] = []
        self.extents: dict[int, Extent] = {}
        self.journal = Journal(journal)

    def send(self, writer: str, value: str) -> int:
        """Note that a writer is about to send a value; return the number of the operation."""
        self.journal.add({"event": "send", "writer": writer, "value": value})
        self.sent.append(Sent(writer, value))
        return self.outcomes.open()

    def ack(self, operation: int, *, bucket: int | None = None, offset: int | None = None) -> None:
        """Note that the value is safe, and at which offset if the answer tells."""
        self.outcomes.close(operation, Outcome.DONE)
        place: Event = {"bucket": bucket, "offset": offset}
        self.journal.add({"event": "ack", "operation": operation, **place})
        sent = self.sent[operation]
        self.sent[operation] = Sent(sent.writer, sent.value, bucket, offset)

    def fail(self, operation: int) -> None:
        """Note that the value is certainly not written, now or later."""
        self.outcomes.close(operation, Outcome.FAILED)
        self.journal.add({"event": "fail", "operation": operation})

    def lose(self, operation: int) -> None:
        """Note that nobody knows whether the value is written, as if it were never closed."""
        self.outcomes.close(operation, Outcome.UNKNOWN)
        self.journal.add({"event": "lose", "operation": operation})

    def read(self, reader: str, *, bucket: int, offset: int, value: str) -> None:
        """Note that a reader saw a row."""
        place: Event = {"bucket": bucket, "offset": offset, "value": value}
        self.journal.add({"event": "read", "reader": reader, **place})
        self.reads.append(WasRead(reader, bucket, offset, value))

    def end(self, *, bucket: int, start: int, end: int) -> None:
        """Note which offsets a bucket covers when all is done."""
        self.journal.add({"event": "end", "bucket": bucket, "start": start, "end": end})
        self.extents[bucket] = Extent(start, end)

    def save(self, path: str | Path) -> None:
        """Write all events to a file, as lines of JSON."""
        write_events(path, self.journal.events)

    def close(self) -> None:
        """Let go of the journal's file."""
        self.journal.close()

    @classmethod
    def load(cls, *paths: str | Path) -> Self:
        """Return the history that files hold together; each is that of one client at least."""
        return cls.of_events(*map(read_events, paths))

    @classmethod
    def merge(cls, *histories: "LogHistory") -> Self:
        """Return one history of all; operations get new numbers."""
        return cls.of_events(*(history.journal.events for history in histories))

    @classmethod
    def of_events(cls, *parts: Iterable[Event]) -> Self:
        """Return the history that the events of journals make up."""
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
                raise InvalidValueError(f"A log has no event {event['event']!r}.")
            call(**fields)
