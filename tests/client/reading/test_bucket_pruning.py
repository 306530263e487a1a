"""Buckets that a filter leaves out by the keys that it names."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.router import BUCKET_HASH, TableKeys
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor
from headwater.model.types import BigIntType, DoubleType, StringType
from headwater.read.filters import Filter
from headwater.read.prune import wanted_numbers

COUNT = 16


def table_of(**custom: str) -> TableDescriptor:
    columns = (
        Column(name="id", type=BigIntType()),
        Column(name="city", type=StringType()),
        Column(name="amount", type=DoubleType()),
    )
    return TableDescriptor(
        schema=with_column_ids(Schema(columns=columns)),
        bucket_keys=("id", "city"),
        bucket_count=COUNT,
        custom_properties=custom,
    )


def numbers(where, descriptor: TableDescriptor | None = None) -> frozenset[int] | None:
    descriptor = descriptor or table_of()
    return wanted_numbers(Filter.of(where, descriptor.schema), descriptor, COUNT)


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=12), st.sampled_from(["java", "pyfluss"]))
def test_the_bucket_of_a_key_is_among_those_wanted_whoever_wrote_it(number, city, client):
    rows = pa.record_batch({"id": pa.array([number], pa.int64()), "city": pa.array([city])})
    keys = TableKeys.of(table_of(**{BUCKET_HASH: client}))

    found = numbers([("id", "==", number), ("city", "==", city), ("amount", ">", 1.0)])

    assert keys.buckets(rows, COUNT)[0] in found
    assert len(found) <= 2


def test_lists_and_alternatives_want_all_the_buckets_that_they_name():
    listed = numbers([("id", "in", [1, 2, 3]), ("city", "in", ["Ulm", "Bonn"])])
    either = numbers(
        [
            [("id", "==", number), ("city", "==", city)]
            for number in (1, 2, 3)
            for city in ("Ulm", "Bonn")
        ]
    )

    assert listed == either
    assert 1 < len(listed) < COUNT


def test_a_filter_that_leaves_a_part_of_the_key_open_leaves_out_no_bucket():
    assert numbers([("id", "==", 1)]) is None
    assert numbers([("id", ">", 1), ("city", "==", "Ulm")]) is None
    assert numbers([[("id", "==", 1), ("city", "==", "Ulm")], [("amount", ">", 1.0)]]) is None
    assert numbers([("id", "in", list(range(500))), ("city", "==", "Ulm")]) is None


def test_a_filter_that_nothing_can_meet_wants_no_bucket():
    assert numbers([("id", "in", []), ("city", "==", "Ulm")]) == frozenset()
