"""Whether clients get on: what their journals tell that they did not tell a moment ago."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# Longer than patient clients wait for one answer; a request that was under way comes first.
PROGRESS_WITHIN_S = 150.0
LOOK_S = 0.05
WRITES = ("send", "put", "delete")
BEGINS = (*WRITES, "get")
ENDS = ("ack", "done")


class Follower:
    """Read on in the journal of a client, which may not be there yet."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.acked = 0
        """Writes that were answered, of those that began after `mark`."""
        self.newest: dict[int, int] = {}
        """The highest offset of each bucket that was acked or read."""
        self._begun: list[str] = []
        self._marked = 0
        self._read_bytes = 0

    def mark(self) -> None:
        """Count from here on."""
        self.look()
        self._marked, self.acked = len(self._begun), 0

    def look(self) -> None:
        """Take in what was written since the last look, without a line that is not whole."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read_bytes)
            lines, _, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(lines) + bool(lines)
        for line in lines.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict) -> None:
        if event["event"] in BEGINS:
            self._begun.append(event["event"])
        elif event["event"] in ENDS:
            operation = event["operation"]
            self.acked += operation >= self._marked and self._begun[operation] in WRITES
        if event.get("offset") is not None:
            bucket = event["bucket"]
            self.newest[bucket] = max(event["offset"], self.newest.get(bucket, -1))


def await_progress(
    files: Iterable[Path], *, within_s: float = PROGRESS_WITHIN_S, check: Callable[[], None]
) -> None:
    """Wait until every writer has an answer to something new, and every reader has new rows."""
    followers = [Follower(file) for file in files]
    for each in followers:
        each.mark()
    known: dict[int, int] = {}
    for bucket, offset in (pair for each in followers for pair in each.newest.items()):
        known[bucket] = max(offset, known.get(bucket, -1))
    deadline = time.monotonic() + within_s
    while stuck := [each.file.name for each in followers if not gets_on(each, known)]:
        check()
        told = f"no progress within {within_s} s: {', '.join(stuck)}"
        assert time.monotonic() < deadline, told
        time.sleep(LOOK_S)
        for each in followers:
            each.look()


def gets_on(follower: Follower, known: dict[int, int]) -> bool:
    """Tell whether there is news: for one who reads, an offset that nobody knew."""
    if follower.file.name.startswith("tail"):
        return any(offset > known.get(bucket, -1) for bucket, offset in follower.newest.items())
    return follower.acked > 0
