"""What a stream reads next, decided from where it is and where the logs end."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.reading.log_batch import Place
from headwater.client.reading.places import Buckets
from headwater.engines.spark.reading.rates import shared_out, states_read
from headwater.engines.spark.reading.splits import LogSplit, Split, StateSplit
from headwater.engines.spark.reading.starts import partition_ids
from headwater.engines.spark.reading.stream_offset import Position, StreamOffset


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


def splits_between(start: StreamOffset, end: StreamOffset, table_id: int) -> list[Split]:
    """Return what lies between two offsets, which is the same each time it is asked for."""
    splits: list[Split] = []
    for place, until in end.positions.items():
        if until is None:
            continue
        bucket = end.bucket(place, table_id)
        at = start.position(place, bucket)
        if at is None:
            splits.append(StateSplit(place, bucket, until, end.state_ms or 0))
        else:
            splits.append(LogSplit(place, bucket, at, until))
    return splits
