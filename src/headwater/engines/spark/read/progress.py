"""What a stream reads next, decided from where it is, where logs end, and how much is allowed."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.engines.spark.read.splits import place_order
from headwater.engines.spark.read.start import partition_ids
from headwater.engines.spark.read.stream_offset import Position, StreamOffset
from headwater.model import OffsetRange
from headwater.read.offsets import Buckets, Place
from headwater.read.split import LogPart, LogRange, StateAt


def shared_out(unread: Mapping[Place, int], rows_max: int | None, *, turn: int) -> dict[Place, int]:
    """Return how many rows to read of each bucket, in proportion to what each has.

    Every bucket that has rows gets one at least, or its turn, so that none waits for ever: where
    there are more buckets than rows, as many as there are rows get one, beginning with the one
    whose turn it is. `turn` is the number of rows that were read before, so that the next time
    the next ones have theirs.
    """
    waiting = {place: unread[place] for place in sorted(unread, key=place_order) if unread[place]}
    total = sum(waiting.values())
    if rows_max is None or total <= rows_max:
        return waiting
    if rows_max < len(waiting):
        places = list(waiting)
        return {places[(turn + number) % len(places)]: 1 for number in range(rows_max)}
    spare = rows_max - len(waiting)
    more = total - len(waiting)
    found = {place: 1 + spare * (rows - 1) // more for place, rows in waiting.items()}
    # What rounding down left over goes to those who have most, one row each.
    left = rows_max - sum(found.values())
    ordered = sorted(waiting, key=lambda place: found[place] - waiting[place])
    for place in ordered[:left]:
        found[place] += 1
    return found


def states_read(rows: Mapping[Place, int], rows_max: int | None) -> tuple[Place, ...]:
    """Return the buckets whose rows are read by key now: as many as the limit allows, but one."""
    ordered = sorted(rows, key=place_order)
    if rows_max is None:
        return tuple(ordered)
    taken: list[Place] = []
    total = 0
    for place in ordered:
        total += rows[place]
        if taken and total > rows_max:
            break
        taken.append(place)
    return tuple(taken)


def rows_allowed(
    unread: Mapping[Place, int],
    row_bytes: Mapping[Place, float],
    *,
    rows_max: int | None,
    bytes_max: int | None,
) -> int | None:
    """Return how many rows may be read by both limits, given the size of rows of some buckets."""
    if bytes_max is None:
        return rows_max
    known = {place: size for place, size in row_bytes.items() if unread.get(place)}
    if not known:
        return rows_max
    weights = sum(unread[place] for place in known)
    # Shares are in proportion to what is unread, so that their rows have this size on average.
    size = sum(unread[place] * known[place] for place in known) / weights
    by_bytes = max(int(bytes_max / max(size, 1.0)), 1)
    return by_bytes if rows_max is None else min(rows_max, by_bytes)


# What a stream reads next, decided from where it is and where the logs end.


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Hold what a stream has not read, in rows."""

    positions: Mapping[Place, Position]
    """What is read next in each bucket."""
    rows: Mapping[Place, int]
    """The rows of each log that come next."""
    states: Mapping[Place, int]
    """The buckets whose rows are read by key, with the offsets at which they would be now."""

    @property
    def total(self) -> int:
        """Return how many rows are not read, counting rows by key as changes."""
        return sum(self.rows.values()) + sum(self.states.values())

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to read."""
        return not any(self.rows.values()) and not self.states


def unread(
    start: StreamOffset,
    ends: Mapping[Place, int],
    *,
    buckets: Buckets,
    begun_late: frozenset[Place] = frozenset(),
) -> Unread:
    """Return what lies between a start and the ends of logs; late ones are read by key."""
    positions: dict[Place, Position] = {}
    for place in ends:
        is_late = place in begun_late and not start.knows(place, buckets[place])
        positions[place] = None if is_late else start.position(place, buckets[place])
    return Unread(
        positions=positions,
        rows={place: max(ends[place] - at, 0) for place, at in positions.items() if at is not None},
        states={place: ends[place] for place, at in positions.items() if at is None},
    )


def next_offset(
    start: StreamOffset,
    left: Unread,
    *,
    buckets: Buckets,
    rows_max: int | None,
    state_rows: Mapping[Place, int],
    now_ms: int,
) -> StreamOffset:
    """Return how far to read now.

    A state is read as a whole, so that only as many of them are as the limit allows; what they
    leave of it goes to the logs.
    """
    # A bucket that is new as a state is named first, so that its read is that of a start.
    known = {place: rows for place, rows in state_rows.items() if place in start.positions}
    states = states_read(known, rows_max)
    spared = None
    if rows_max is not None:
        spared = max(rows_max - sum(known[place] for place in states), 0)
    turn = sum(at for at in left.positions.values() if at is not None)
    rows = shared_out(left.rows, spared, turn=turn)
    positions: dict[Place, Position] = {}
    for place, at in left.positions.items():
        if at is None:
            positions[place] = left.states[place] if place in states else None
        elif rows.get(place) or start.knows(place, buckets[place]):
            positions[place] = at + rows.get(place, 0)
    named = {place: buckets[place] for place in positions}
    return StreamOffset(
        positions=positions,
        partition_ids=partition_ids(named),
        state_ms=now_ms if states else start.state_ms,
    )


def splits_between(start: StreamOffset, end: StreamOffset, table_id: int) -> list[LogPart]:
    """Return what lies between two offsets, which is the same each time it is asked for."""
    splits: list[LogPart] = []
    for place, until in end.positions.items():
        if until is None:
            continue
        bucket = end.bucket(place, table_id)
        at = start.position(place, bucket)
        if at is None:
            splits.append(StateAt.of(place, bucket, until))
        else:
            splits.append(LogRange.of(place, bucket, OffsetRange(at, until)))
    return splits
