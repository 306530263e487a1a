"""What long tests did, in numbers, for the table that `make torture` prints."""

import json
import os
from pathlib import Path

VARIABLE = "HEADWATER_FIGURES"
TIMES_VARIABLE = "HEADWATER_TIMES"


def times(count: int) -> int:
    """Return how often a long test does something: as often as usual, or as whoever runs it says.

    HEADWATER_TIMES=10 makes it ten times as much, and 0.1 a tenth.
    """
    return max(1, round(count * float(os.environ.get(TIMES_VARIABLE, "1"))))


def note(part: str, **figures: float | str) -> None:
    """Add figures of a part; they are added up over all tests of it, texts are joined."""
    target = os.environ.get(VARIABLE)
    if target is None:
        return
    line = json.dumps({"part": part, **figures}) + "\n"
    # One short write at the end of the file: tests in several processes do not mix their lines.
    with Path(target).open("a", encoding="utf-8") as file:
        file.write(line)
