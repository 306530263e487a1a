"""Which partitions and buckets can hold rows that are wanted, told without reading them."""

from collections.abc import Collection, Iterable, Sequence

from headwater.client.reading.bucket_pruning import wanted_numbers
from headwater.client.reading.filters import Filter
from headwater.client.reading.pruning import matching
from headwater.client.union.places import Held, tail_of
from headwater.client.union.split import Pruned
from headwater.client.union.view import TableView
from headwater.client.union.wording import filter_text
from headwater.errors import NotPartitionedError, PartitionMissingError
from headwater.lake.split import UNKNOWN_BUCKET
from headwater.model.predicate import LeafFunction

NAMES_SHOWN_MAX = 8


def possible(wanted: Filter | None) -> Filter | None:
    """Return a filter without alternatives that never hold; it may have none left."""
    if wanted is None:
        return None
    branches = tuple(
        branch
        for branch in wanted.branches
        if not any(test.function is LeafFunction.IN and not test.values for test in branch)
    )
    return wanted if len(branches) == len(wanted.branches) else Filter(branches)


def chosen_places(
    view: TableView,
    places: Sequence[Held],
    *,
    partitions: frozenset[str] | None,
    wanted: Filter | None,
) -> tuple[list[Held], list[Pruned]]:
    """Return the places that can hold wanted rows, and what is left out for it."""
    kept, pruned = list(places), list[Pruned]()
    if partitions is not None:
        _check_partitions(view, places, partitions)
        kept, others = _parted(kept, {each.place.partition for each in kept} & partitions)
        pruned += _pruned_partitions(view, others, why="not asked for")
    if wanted is None:
        return kept, pruned
    if not wanted.branches:
        return [], [*pruned, *_all_of(view, kept)]
    if view.table.is_partitioned:
        kept, others = _parted(kept, _matching(view, kept, wanted))
        why = filter_text(wanted, only=view.table.descriptor.partition_keys)
        pruned += _pruned_partitions(view, others, why=why)
    numbers = wanted_numbers(wanted, view.table.descriptor, view.table.bucket_count)
    if numbers is not None:
        pruned += _pruned_buckets(view, kept, numbers, wanted)
        kept = [each for each in kept if _may_be_in(each, numbers)]
    return kept, pruned


def _check_partitions(view: TableView, places: Sequence[Held], wanted: frozenset[str]) -> None:
    if not view.table.is_partitioned:
        raise NotPartitionedError(f"{view.table.path} has no partitions.")
    known = {*view.partitions.values(), *(each.place.partition for each in places)} - {None}
    if unknown := sorted(wanted - known):
        raise PartitionMissingError(
            f"{view.table.path} has no partition {unknown[0]}.",
            hint=f"Its partitions are {_some(sorted(filter(None, known))) or 'none'}.",
        )


def _matching(view: TableView, places: Iterable[Held], wanted: Filter) -> frozenset[str]:
    schema, keys = view.table.schema, view.table.descriptor.partition_keys
    names = sorted({each.place.partition for each in places} - {None}, key=str)
    return matching(
        [str(name) for name in names],
        {key: schema.column(key).type for key in keys},
        wanted=wanted,
    )


def _parted(
    places: Iterable[Held], wanted: Collection[str | None]
) -> tuple[list[Held], list[Held]]:
    kept, others = list[Held](), list[Held]()
    for each in places:
        (kept if each.place.partition in wanted else others).append(each)
    return kept, others


def _may_be_in(held: Held, numbers: frozenset[int]) -> bool:
    return held.place.bucket in numbers or held.place.bucket == UNKNOWN_BUCKET


def _pruned_partitions(view: TableView, others: Sequence[Held], *, why: str) -> Iterable[Pruned]:
    names = sorted({str(each.place.partition) for each in others})
    if not names:
        return
    what = (
        f"partition {names[0]}" if len(names) == 1 else f"{len(names)} partitions: {_some(names)}"
    )
    yield _pruned(view, others, what=what, why=why)


def _pruned_buckets(
    view: TableView, places: Iterable[Held], numbers: frozenset[int], wanted: Filter
) -> Iterable[Pruned]:
    others = [each for each in places if not _may_be_in(each, numbers)]
    named = sorted({each.place.bucket for each in others})
    if not named:
        return
    keys = view.table.descriptor.bucket_keys or view.table.descriptor.physical_primary_key
    where = "bucket " + _some([str(number) for number in sorted(numbers)])
    yield _pruned(
        view,
        others,
        what=f"bucket{'s' if len(named) > 1 else ''} {_some([str(each) for each in named])}",
        why=f"{filter_text(wanted, only=keys)} is in {where}",
    )


def _all_of(view: TableView, places: Sequence[Held]) -> Iterable[Pruned]:
    if places:
        yield _pruned(view, places, what="everything", why="no row can match")


def _pruned(view: TableView, places: Iterable[Held], *, what: str, why: str) -> Pruned:
    rows = size = 0
    for each in places:
        rows += sum(split.row_count for split in each.lake)
        size += each.byte_count
        if each.log_bucket is not None:
            tail = tail_of(view, each.log_bucket)
            rows += tail.end - tail.start
    return Pruned(what=what, why=why, row_count=rows, byte_count=size)


def _some(names: Sequence[str]) -> str:
    shown = list(names[:NAMES_SHOWN_MAX])
    return ", ".join([*shown, "…"] if len(names) > len(shown) else shown)
