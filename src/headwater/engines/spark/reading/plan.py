"""Which task reads what: the same for the same splits, always."""

from collections.abc import Iterable, Iterator

from headwater.client.reading.log_batch import Place
from headwater.engines.spark.reading.splits import LogSplit, Share, Split, StateSplit

# To begin a task takes as long as reading so many rows, so that less is not worth one.
TASK_ROWS_MIN = 50_000


def shares(splits: Iterable[Split], *, split_rows: int, cuts: bool = True) -> tuple[Share, ...]:
    """Return what each task reads: large ranges in pieces, small ones several together."""
    pieces = [
        piece
        for split in sorted(splits, key=_order)
        for piece in (_cut(split, split_rows) if cuts else [split])
        if piece.weight > 0
    ]
    return tuple(_packed(pieces, rows_min=min(TASK_ROWS_MIN, split_rows)))


def one_share(splits: Iterable[Split]) -> tuple[Share, ...]:
    """Return everything for a single task, which alone can tell when there are rows enough."""
    found = tuple(split for split in sorted(splits, key=_order) if split.weight > 0)
    return (found,) if found else ()


def place_order(place: Place) -> tuple[str, int]:
    """Sort buckets by partition and number."""
    return place.partition or "", place.bucket


def _order(split: Split) -> tuple[str, int]:
    return place_order(split.place)


def _cut(split: Split, split_rows: int) -> Iterator[Split]:
    """Yield a range in pieces of nearly the same size; a state cannot be cut."""
    if isinstance(split, StateSplit) or split.weight <= split_rows:
        yield split
        return
    count = -(-split.weight // split_rows)
    for number in range(count):
        start = split.start + split.weight * number // count
        end = split.start + split.weight * (number + 1) // count
        yield LogSplit(split.place, split.bucket, start, end)


def _packed(pieces: Iterable[Split], *, rows_min: int) -> Iterator[Share]:
    waiting: list[Split] = []
    for piece in pieces:
        # One bucket is read from one place at a time.
        if any(each.place == piece.place for each in waiting):
            yield tuple(waiting)
            waiting = []
        waiting.append(piece)
        if sum(each.weight for each in waiting) >= rows_min:
            yield tuple(waiting)
            waiting = []
    if waiting:
        yield tuple(waiting)
