"""Events of a history as lines of JSON, so that histories outlive the processes they are of."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.errors import InvalidValueError

Event = dict[str, str | int | float | None]


class Journal:
    """Keep events in memory, and in a new file where one is named, line by line as they come."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.events: list[Event] = []
        # A process that is started again takes another file: its operations count from 0 again.
        self._file = None if path is None else Path(path).open("x", encoding="utf-8")  # noqa: SIM115

    def add(self, event: Event) -> None:
        """Note one event; once this returns, no kill of the process takes it away."""
        self.events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_events(path: str | Path, events: Iterable[Event]) -> None:
    """Write all events to a file."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def read_events(path: str | Path) -> Iterator[Event]:
    """Yield the events of a file, without a last line that a kill cut off."""
    *lines, _ = Path(path).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        yield _event_of(line, f"{path}:{number}")


def _event_of(line: str, place: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise InvalidValueError(f"{place} is no line of a history.")
    return event
