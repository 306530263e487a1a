"""Amounts, times and columns of text, short enough for a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 1000
_UNITS = ("kB", "MB", "GB", "TB", "PB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
GAP = "  "


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits, such as `1.25 MB`."""
    if count < _STEP:
        return f"{count} B"
    amount = float(count)
    for unit in _UNITS:
        amount /= _STEP
        # What is rounded up to a thousand is one of the next unit.
        if amount < _STEP - 0.5:
            return f"{amount:.3g} {unit}"
    return f"{amount:.0f} {_UNITS[-1]}"


def count_text(count: int, noun: str) -> str:
    """Return a number of things, such as `1,204 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds_text(seconds: float) -> str:
    """Return a time that passed, in the unit that people would use."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


def moment_text(ms: int) -> str:
    """Return a moment in UTC."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return lines of cells side by side; the columns at `right` end at the same place."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
