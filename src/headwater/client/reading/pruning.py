"""Which partitions and buckets can hold rows that a filter wants, told without reading them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.client.reading.bucket_pruning import wanted_numbers
from headwater.client.reading.filters import Filter
from headwater.client.reading.places import Buckets
from headwater.client.reading.view import View
from headwater.errors import InvalidPartitionError
from headwater.model.arrow import arrow_type
from headwater.model.descriptor import TableDescriptor
from headwater.model.partition import partition_values
from headwater.model.partition_values import partition_value
from headwater.model.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    IntType,
    SmallIntType,
    StringType,
    TinyIntType,
)

# In the names of partitions these are what they are in rows. Times are rounded there, and numbers
# with a fraction have several values that are equal.
_EXACT = (
    BooleanType,
    TinyIntType,
    SmallIntType,
    IntType,
    BigIntType,
    StringType,
    CharType,
    BytesType,
    BinaryType,
    DateType,
)


def pruned(buckets: Buckets, view: View) -> Buckets:
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
    names: Sequence[str], keys: Mapping[str, DataType], *, wanted: Filter
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
    names: Sequence[str], keys: Mapping[str, DataType], *, used: Sequence[str]
) -> Iterable[tuple[str, pa.Array]]:
    """Yield the partition columns of which every value can be read."""
    texts = [partition_values(name) for name in names]
    for place, (key, kind) in enumerate(keys.items()):
        if key not in used or not isinstance(kind, _EXACT):
            continue
        try:
            values = [partition_value(each[place], kind) for each in texts]
            yield key, pa.array(values, arrow_type(kind))
        except (InvalidPartitionError, IndexError, OverflowError, pa.ArrowException):
            # A name that nobody can read may stand for anything.
            continue
