"""Which buckets can hold rows that a filter wants, told by the keys that it names."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import pyarrow as pa

from headwater.client.bucket_keys import BucketKeys
from headwater.client.reading.comparisons import Comparison
from headwater.client.reading.filters import Filter
from headwater.client.reading.literals import Native, scalar_of
from headwater.config.choices import LakeFormat
from headwater.config.options import DATALAKE_FORMAT
from headwater.model.arrow import arrow_type
from headwater.model.descriptor import TableDescriptor
from headwater.model.predicate import LeafFunction
from headwater.model.types import (
    BigIntType,
    BooleanType,
    DateType,
    IntType,
    SmallIntType,
    StringType,
    TinyIntType,
)
from headwater.rows.bucketing import BucketFunction

# More keys than this are in most buckets anyway.
KEYS_MAX = 256
# Values of these types that are equal have the same bytes.
_EXACT = (
    BooleanType,
    TinyIntType,
    SmallIntType,
    IntType,
    BigIntType,
    StringType,
    DateType,
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
    keys = BucketKeys.of(descriptor) if is_known else None
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
        is_exact = isinstance(test.column.type, _EXACT) and test.function in _NAMING
        if test.column.name == name and is_exact:
            return test
    return None


def _column(values: Sequence[Native], test: Comparison) -> pa.Array:
    kind = test.column.type
    return pa.array([scalar_of(value, kind) for value in values], arrow_type(kind))
