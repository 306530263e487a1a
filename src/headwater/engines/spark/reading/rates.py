"""How much of what there is one micro-batch reads: rates, shared out fairly."""

from collections.abc import Mapping

from headwater.client.reading.log_batch import Place
from headwater.engines.spark.reading.plan import place_order


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
