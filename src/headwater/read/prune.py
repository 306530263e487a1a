"""Which partitions and buckets can hold rows that are wanted, told without reading them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from headwater.cluster.router import TableKeys
from headwater.config.options import DATALAKE_FORMAT, LakeFormat
from headwater.errors import InvalidPartitionError, NotPartitionedError, PartitionMissingError
from headwater.lake.split import UNKNOWN_BUCKET
from headwater.model import TableDescriptor, types
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import partition_value
from headwater.model.path import partition_values
from headwater.model.predicate import LeafFunction
from headwater.read.filters import Filter, RowView, filter_text
from headwater.read.lake import PlaceContent, tail_of
from headwater.read.literals import Comparison, Native, scalar_of
from headwater.read.offsets import Buckets
from headwater.read.split import Pruned
from headwater.read.view import TableView
from headwater.rows.buckets import BucketFunction

# Which buckets can hold rows that a filter wants, told by the keys that it names.

# More keys than this are in most buckets anyway.
KEYS_MAX = 256
# Values of these types that are equal have the same bytes.
_EXACT_KEYS = (
    types.BooleanType,
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.StringType,
    types.DateType,
)
_NAMING = (LeafFunction.EQUAL, LeafFunction.IN)
# Clients of Apache Fluss disagree on the bucket of some keys, and either may have written.
_RELATED = {
    BucketFunction.FLUSS: (BucketFunction.FLUSS, BucketFunction.FLUSS_UNSIGNED),
    BucketFunction.FLUSS_UNSIGNED: (BucketFunction.FLUSS, BucketFunction.FLUSS_UNSIGNED),
    BucketFunction.PAIMON: (BucketFunction.PAIMON, BucketFunction.PAIMON_UNSIGNED),
    BucketFunction.PAIMON_UNSIGNED: (BucketFunction.PAIMON, BucketFunction.PAIMON_UNSIGNED),
    BucketFunction.ICEBERG: (BucketFunction.ICEBERG,),
}


def wanted_numbers(
    wanted: Filter, descriptor: TableDescriptor, count: int
) -> frozenset[int] | None:
    """Return the numbers of the buckets that can hold wanted rows, or None for all of them."""
    is_known = DATALAKE_FORMAT.of(descriptor.properties) is not LakeFormat.HUDI
    keys = TableKeys.of(descriptor) if is_known else None
    if keys is None or count == 1:
        return None
    found: set[int] = set()
    for branch in wanted.branches:
        batch = _named(branch, keys.names)
        if batch is None:
            return None
        for function in _RELATED[keys.function]:
            found |= set(replace(keys, function=function).buckets(batch, count).tolist())
    return frozenset(found)


def _named(branch: Sequence[Comparison], names: Sequence[str]) -> pa.RecordBatch | None:
    """Return the keys that a branch names, or None if it leaves them open."""
    tests = [_naming(branch, name) for name in names]
    known = [test for test in tests if test is not None]
    if len(known) < len(names) or prod(len(test.values) for test in known) > KEYS_MAX:
        return None
    rows = list(product(*(test.values for test in known)))
    columns = [_column([row[at] for row in rows], test) for at, test in enumerate(known)]
    return pa.record_batch(columns, names=list(names))


def _naming(branch: Sequence[Comparison], name: str) -> Comparison | None:
    for test in branch:
        is_exact = isinstance(test.column.type, _EXACT_KEYS) and test.function in _NAMING
        if test.column.name == name and is_exact:
            return test
    return None


def _column(values: Sequence[Native], test: Comparison) -> pa.Array:
    kind = test.column.type
    return pa.array([scalar_of(value, kind) for value in values], arrow_type(kind))


# Which partitions and buckets can hold rows that a filter wants, told without reading them.

# In the names of partitions these are what they are in rows. Times are rounded there, and numbers
# with a fraction have several values that are equal.
_EXACT_PARTITIONS = (
    types.BooleanType,
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.StringType,
    types.CharType,
    types.BytesType,
    types.BinaryType,
    types.DateType,
)


def pruned(buckets: Buckets, view: RowView) -> Buckets:
    """Return the buckets that can hold rows which the filter of a view wants."""
    return wanted_buckets(buckets, view.table.descriptor, view.filter)


def wanted_buckets(buckets: Buckets, descriptor: TableDescriptor, wanted: Filter | None) -> Buckets:
    """Return the buckets of a table that can hold rows which a filter wants."""
    if wanted is None:
        return buckets
    count = descriptor.bucket_count or 1
    numbers = wanted_numbers(wanted, descriptor, count)
    if numbers is not None:
        buckets = {place: each for place, each in buckets.items() if place.bucket in numbers}
    if not descriptor.partition_keys:
        return buckets
    keys = {name: descriptor.schema.column(name).type for name in descriptor.partition_keys}
    names = {place.partition for place in buckets if place.partition is not None}
    found = matching(sorted(names), keys, wanted=wanted)
    return {place: bucket for place, bucket in buckets.items() if place.partition in found}


def matching(
    names: Sequence[str], keys: Mapping[str, types.DataType], *, wanted: Filter
) -> frozenset[str]:
    """Return the partitions for which a filter does not say that it wants none of their rows."""
    columns = dict(_columns(names, keys, used=wanted.columns))
    found = np.zeros(len(names), np.bool_)
    for branch in wanted.branches:
        held = np.ones(len(names), np.bool_)
        for test in branch:
            column = columns.get(test.column.name)
            if column is not None:
                held &= test.mask(column).to_numpy(zero_copy_only=False)
        found |= held
    return frozenset(name for name, is_wanted in zip(names, found, strict=True) if is_wanted)


def _columns(
    names: Sequence[str], keys: Mapping[str, types.DataType], *, used: Sequence[str]
) -> Iterable[tuple[str, pa.Array]]:
    """Yield the partition columns of which every value can be read."""
    texts = [partition_values(name) for name in names]
    for place, (key, kind) in enumerate(keys.items()):
        if key not in used or not isinstance(kind, _EXACT_PARTITIONS):
            continue
        try:
            values = [partition_value(each[place], kind) for each in texts]
            yield key, pa.array(values, arrow_type(kind))
        except (InvalidPartitionError, IndexError, OverflowError, pa.ArrowException):
            # A name that nobody can read may stand for anything.
            continue


# Which partitions and buckets can hold rows that are wanted, told without reading them.

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
    places: Sequence[PlaceContent],
    *,
    partitions: frozenset[str] | None,
    wanted: Filter | None,
) -> tuple[list[PlaceContent], list[Pruned]]:
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


def _check_partitions(
    view: TableView, places: Sequence[PlaceContent], wanted: frozenset[str]
) -> None:
    if not view.table.is_partitioned:
        raise NotPartitionedError(f"{view.table.path} has no partitions.")
    known = {*view.partitions.values(), *(each.place.partition for each in places)} - {None}
    if unknown := sorted(wanted - known):
        raise PartitionMissingError(
            f"{view.table.path} has no partition {unknown[0]}.",
            hint=f"Its partitions are {_some(sorted(filter(None, known))) or 'none'}.",
        )


def _matching(view: TableView, places: Iterable[PlaceContent], wanted: Filter) -> frozenset[str]:
    schema, keys = view.table.schema, view.table.descriptor.partition_keys
    names = sorted({each.place.partition for each in places} - {None}, key=str)
    return matching(
        [str(name) for name in names],
        {key: schema.column(key).type for key in keys},
        wanted=wanted,
    )


def _parted(
    places: Iterable[PlaceContent], wanted: Collection[str | None]
) -> tuple[list[PlaceContent], list[PlaceContent]]:
    kept, others = list[PlaceContent](), list[PlaceContent]()
    for each in places:
        (kept if each.place.partition in wanted else others).append(each)
    return kept, others


def _may_be_in(held: PlaceContent, numbers: frozenset[int]) -> bool:
    return held.place.bucket in numbers or held.place.bucket == UNKNOWN_BUCKET


def _pruned_partitions(
    view: TableView, others: Sequence[PlaceContent], *, why: str
) -> Iterable[Pruned]:
    names = sorted({str(each.place.partition) for each in others})
    if not names:
        return
    what = (
        f"partition {names[0]}" if len(names) == 1 else f"{len(names)} partitions: {_some(names)}"
    )
    yield _pruned(view, others, what=what, why=why)


def _pruned_buckets(
    view: TableView, places: Iterable[PlaceContent], numbers: frozenset[int], wanted: Filter
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


def _all_of(view: TableView, places: Sequence[PlaceContent]) -> Iterable[Pruned]:
    if places:
        yield _pruned(view, places, what="everything", why="no row can match")


def _pruned(view: TableView, places: Iterable[PlaceContent], *, what: str, why: str) -> Pruned:
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
