"""What a crash may do to the changes that are not yet durable."""

from collections.abc import Iterator
from itertools import combinations

from headwater.store.memory import ChangeKind, DiskChange, Fate

NEWEST = 4
GARBAGE = b"\xa5"
SECTOR = 512


def fates(changes: tuple[DiskChange, ...]) -> Iterator[tuple[str, Fate]]:
    """Yield every fate, with what it is called; unknown changes of others are lost."""
    numbers = [change.number for change in changes]
    yield "all lost", _keeping(set())
    yield "all kept", _keeping(set(numbers))
    for at, number in enumerate(numbers):
        yield f"lost {number}", _keeping({*numbers} - {number})
        yield f"only {number}", _keeping({number})
        yield f"up to {number}", _keeping({*numbers[:at]})
    for pair in combinations(numbers[-NEWEST:], 2):
        yield f"lost {pair}", _keeping({*numbers} - {*pair})
        yield f"only {pair}", _keeping({*pair})
    yield from _torn(changes)


def _torn(changes: tuple[DiskChange, ...]) -> Iterator[tuple[str, Fate]]:
    """Yield fates in which the last write, or the last before others are lost, is not whole."""
    writes = [change for change in changes if change.kind is ChangeKind.WRITE]
    kept = {change.number for change in changes}
    for last in writes[-1:]:
        for label, data in _tears(last.data):
            yield f"{label} of {last.number}", _keeping(kept, {last.number: data})
            yield f"only {label} of {last.number}", _keeping({last.number}, {last.number: data})
    for last in writes[:-1]:
        before = {number for number in kept if number <= last.number}
        half = last.data[: len(last.data) // 2]
        yield f"half of {last.number}, then nothing", _keeping(before, {last.number: half})
        yield f"half of {last.number}", _keeping(kept, {last.number: half})


def _tears(data: bytes) -> Iterator[tuple[str, bytes]]:
    size = len(data)
    for cut in sorted({1, size // 2, SECTOR, size - 1} & {*range(1, size)}):
        yield f"{cut} bytes", data[:cut]
        yield f"all but {cut} bytes", bytes(cut) + data[cut:]
    yield "garbage instead", GARBAGE * size
    yield "garbage behind", data + GARBAGE * 77
    yield "zeros behind", data + bytes(77)


def _keeping(kept: set[int], instead: dict[int, bytes] | None = None) -> Fate:
    given = instead or {}

    def fate(change: DiskChange) -> bytes | None:
        return given.get(change.number, change.data) if change.number in kept else None

    return fate
