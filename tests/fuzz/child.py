"""A process that tries inputs one by one, so that a crash or a hang takes nobody else with it.

`python -m tests.fuzz.child NOTE SEED INPUTS TARGET...`; before each input is tried, NOTE holds
it, with the number of its target.
"""

import mmap
import random
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.broken import BROKEN
from tests.fuzz.edits import random_edits
from tests.fuzz.every import TARGETS
from tests.fuzz.limits import limit_memory
from tests.fuzz.target import Target
from tests.fuzz.targets_requests import close_server

SECONDS_MAX = 10
NOTE_BYTES = 8 * 1024**2
HEAD = struct.Struct("<iI")


class Note:
    """Hold the input that is being tried, where others find it after a crash."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(HEAD.pack(-1, 0) + bytes(NOTE_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def write(self, target: int, data: bytes) -> None:
        self._map[: HEAD.size + len(data)] = HEAD.pack(target, len(data)) + data


def try_inputs(
    target: Target, number: int, note: Note, *, chance: random.Random, count: int
) -> None:
    """Try inputs one by one, each within its time."""
    for data in inputs(target, chance, count=count):
        note.write(number, data)
        # Without a handler the signal ends the process, whatever holds it up.
        signal.alarm(SECONDS_MAX)
        target.takes(data)
        signal.alarm(0)


def inputs(target: Target, chance: random.Random, *, count: int) -> Iterator[bytes]:
    """Yield what is beyond a limit, then many that are near it, or near what is valid."""
    yield from target.refused()
    seeds = [*target.seeds(), *target.refused()]
    for _ in range(count):
        yield target.changed(chance.choice(seeds), random_edits(chance))[:NOTE_BYTES]


def main() -> None:
    path, seed, count, *names = sys.argv[1:]
    known = TARGETS | BROKEN
    note = Note(Path(path))
    chance = random.Random(int(seed))
    limit_memory()
    try:
        for number, name in enumerate(names):
            try_inputs(known[name], number, note, chance=chance, count=int(count))
    finally:
        close_server()


if __name__ == "__main__":
    main()
