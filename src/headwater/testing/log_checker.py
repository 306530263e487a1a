"""The checker of log histories: nothing lost, nothing duplicated, everything in order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headwater.errors import InvalidValueError
from headwater.testing.history import (
    Extent,
    LogHistory,
    OperationOutcome,
    Violation,
    ViolationKind,
    WasRead,
)

__all__ = ["LogHistory", "Violation", "ViolationKind", "check_log"]

Place = tuple[int, int]  # bucket, offset


@dataclass(slots=True)
class _Seen:
    """What all readers and responses say together, by position and by value."""

    values: dict[Place, str] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    told: set[tuple[Place, str]] = field(default_factory=set)  # violations, each reported once


def check_log(history: LogHistory, *, final_reader: str) -> list[Violation]:
    """Find everything that is wrong in a history.

    `final_reader` read each bucket from start to end after everything else was over. Rows that the
    log dropped on purpose from its start are not missed, if `history.end` says so.

    1. Each reader goes forward, offset by offset.
    2. An offset has one value and a value has one offset, for readers and responses alike.
    3. What is seen was sent, and did not fail.
    4. What was acknowledged, or seen by anyone, is there at the end.
    5. Values that a writer sent one after the other are in this order in their bucket.
    """
    seen = _Seen(operations=_numbers_of(history))
    final = [row for row in history.reads if row.reader == final_reader]
    return [
        *_progress(history.reads),
        *_extent(history, final),
        *_single_valued(history, seen),
        *_phantoms(history, seen),
        *_lost(history, seen, final=final),
        *_reordered(history, seen, final=final),
    ]


def _numbers_of(history: LogHistory) -> dict[str, int]:
    """Return the operation of each value; a value that was sent twice is ambiguous."""
    numbers = dict[str, int]()
    for number, sent in enumerate(history.sent):
        if numbers.setdefault(sent.value, number) != number:
            raise InvalidValueError(f"{sent.value!r} was sent twice; send each value once.")
    return numbers


def _progress(reads: Iterable[WasRead]) -> Iterator[Violation]:
    """Find readers that went back or skipped offsets."""
    at = dict[tuple[str, int], int]()
    for row in reads:
        before = at.get((row.reader, row.bucket))
        at[row.reader, row.bucket] = row.offset
        if before is None or row.offset == before + 1:
            continue
        where = f"Reader {row.reader!r} of bucket {row.bucket}"
        if row.offset <= before:
            text = f"{where} went back from offset {before} to {row.offset}."
            yield _at(row, ViolationKind.BACKWARDS, text)
        else:
            text = f"{where} saw offset {row.offset} right after {before}."
            yield _at(row, ViolationKind.GAP, text)


def _extent(history: LogHistory, final: Iterable[WasRead]) -> Iterator[Violation]:
    """Find buckets of which the last reader saw more or less than there is."""
    bounds = dict[int, tuple[int, int]]()
    for row in final:
        first, last = bounds.get(row.bucket, (row.offset, row.offset))
        bounds[row.bucket] = min(first, row.offset), max(last, row.offset)
    for bucket, extent in history.extents.items():
        if extent.start == extent.end and bucket not in bounds:
            continue
        yield from _bounds(bucket, extent, bounds.get(bucket))


def _bounds(bucket: int, extent: Extent, read: tuple[int, int] | None) -> Iterator[Violation]:
    covers = f"bucket {bucket} has offsets {extent.start} to {extent.end}"
    if read is None:
        text = f"Nothing was read at the end, though {covers}."
        yield Violation(kind=ViolationKind.GAP, message=text, bucket=bucket, offset=extent.start)
        return
    first, last = read
    if first < extent.start or last >= extent.end:
        offset = first if first < extent.start else last
        text = f"Offset {offset} was read, though {covers}."
        yield Violation(kind=ViolationKind.CONFLICTING, message=text, bucket=bucket, offset=offset)
    if first > extent.start or last < extent.end - 1:
        offset = extent.start if first > extent.start else last + 1
        text = f"Offset {offset} was not read at the end, though {covers}."
        yield Violation(kind=ViolationKind.GAP, message=text, bucket=bucket, offset=offset)


def _single_valued(history: LogHistory, seen: _Seen) -> Iterator[Violation]:
    """Find offsets with two values and values at two offsets, and record what was seen."""
    for row in history.reads:
        yield from _compared(seen, (row.bucket, row.offset), row.value, f"reader {row.reader!r}")
    for number, sent in enumerate(history.sent):
        if history.outcomes[number] is not OperationOutcome.DONE or sent.offset is None:
            continue
        read = seen.places.get(sent.value)
        bucket = sent.bucket if sent.bucket is not None or read is None else read[0]
        if bucket is not None:  # otherwise there is nothing to compare it with
            yield from _answered(seen, (bucket, sent.offset), sent.value)


def _compared(seen: _Seen, place: Place, value: str, who: str) -> Iterator[Violation]:
    held = seen.values.setdefault(place, value)
    first = seen.places.setdefault(value, place)
    if (held == value and first == place) or (place, value) in seen.told:
        return
    seen.told.add((place, value))
    if held != value:
        text = f"{_named(place)} is {held!r} for some and {value!r} for {who}."
        yield _of(place, ViolationKind.CONFLICTING, text)
    if first != place:
        text = f"{value!r} is at {_named(first)} and, for {who}, at {_named(place)}."
        yield _of(place, ViolationKind.DUPLICATED, text)


def _answered(seen: _Seen, place: Place, value: str) -> Iterator[Violation]:
    """Compare a response with what is read; whether it is read at all is checked elsewhere."""
    held = seen.values.setdefault(place, value)
    read = seen.places.get(value, place)
    if held != value:
        text = f"{_named(place)} was acknowledged for {value!r} and is {held!r}."
        yield _of(place, ViolationKind.CONFLICTING, text)
    elif read != place:
        text = f"{value!r} was acknowledged at {_named(place)} and is read at {_named(read)}."
        yield _of(place, ViolationKind.CONFLICTING, text)


def _phantoms(history: LogHistory, seen: _Seen) -> Iterator[Violation]:
    for value, place in seen.places.items():
        number = seen.operations.get(value)
        if number is None:
            text = f"{_named(place)} is {value!r}, which nobody sent."
            yield _of(place, ViolationKind.PHANTOM, text)
        elif history.outcomes[number] is OperationOutcome.FAILED:
            text = f"{_named(place)} is {value!r}, whose write failed."
            yield _of(place, ViolationKind.PHANTOM, text, number)


def _lost(history: LogHistory, seen: _Seen, *, final: list[WasRead]) -> Iterator[Violation]:
    """Find values that were acknowledged or read and are missing at the end."""
    kept = {row.value for row in final}
    for number, sent in enumerate(history.sent):
        if sent.value in kept:
            continue
        place = seen.places.get(sent.value)
        is_done = history.outcomes[number] is OperationOutcome.DONE
        if place is None and not is_done:
            continue
        if place is None and sent.bucket is not None and sent.offset is not None:
            place = sent.bucket, sent.offset
        if _may_be_dropped(history, sent.bucket if place is None else place[0], place):
            continue
        why = "was acknowledged" if is_done else "was read"
        where = "" if place is None else f" at {_named(place)}"
        yield Violation(
            kind=ViolationKind.LOST,
            message=f"{sent.value!r} {why}{where} and is missing at the end.",
            bucket=None if place is None else place[0],
            offset=None if place is None else place[1],
            operations=(number,),
        )


def _may_be_dropped(history: LogHistory, bucket: int | None, place: Place | None) -> bool:
    """Tell whether a value may be before the current start of its log."""
    if place is not None:
        extent = history.extents.get(place[0])
        return extent is not None and place[1] < extent.start
    extents = history.extents
    starts = [each.start for at, each in extents.items() if bucket is None or at == bucket]
    return any(start > 0 for start in starts)


def _reordered(history: LogHistory, seen: _Seen, *, final: list[WasRead]) -> Iterator[Violation]:
    """Find values after later ones of the same writer, in the final order of the log.

    A write with an unknown outcome may still be in flight when the next is acknowledged, so it may
    come after it; an acknowledged one may not.
    """
    latest = dict[tuple[int, str], int]()
    for row in sorted(final, key=lambda row: (row.bucket, row.offset)):
        number = seen.operations.get(row.value)
        if number is None:
            continue
        writer = row.bucket, history.sent[number].writer
        before = latest.get(writer, -1)
        if number >= before:
            latest[writer] = number
        elif history.outcomes[number] is OperationOutcome.DONE:
            text = f"{row.value!r} is after {history.sent[before].value!r}, which was sent later."
            yield _of((row.bucket, row.offset), ViolationKind.REORDERED, text, before, number)


def _named(place: Place) -> str:
    return f"offset {place[1]} of bucket {place[0]}"


def _at(row: WasRead, kind: ViolationKind, message: str) -> Violation:
    return _of((row.bucket, row.offset), kind, message)


def _of(place: Place, kind: ViolationKind, message: str, *operations: int) -> Violation:
    bucket, offset = place
    text = message[0].upper() + message[1:]
    return Violation(kind=kind, message=text, bucket=bucket, offset=offset, operations=operations)
