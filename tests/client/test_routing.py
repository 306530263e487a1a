import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.router import BUCKET_HASH, Router
from headwater.cluster.schema_in import schema_of
from headwater.errors import (
    InvalidOptionError,
    InvalidPartitionError,
    InvalidValueError,
    UnsupportedError,
)
from headwater.model.arrow import arrow_schema
from headwater.model.partition_values import partition_texts
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.types import BigIntType, DateType, IntType, StringType
from headwater.rows.buckets import BucketFunction, buckets_of
from headwater.rows.compacted.coders import KeyEncoder
from headwater.rows.keys import IcebergKeys, PaimonKeys, primary_key_encoder
from tests.cases import cases

SCHEMA = Schema(
    columns=(
        Column(name="day", type=DateType()),
        Column(name="id", type=BigIntType(nullable=False)),
        Column(name="city", type=StringType()),
        Column(name="amount", type=IntType()),
    )
)


def table(**fields) -> TableDescriptor:
    schema = Schema(columns=SCHEMA.columns, primary_key=fields.pop("primary_key", ()))
    return TableDescriptor(schema=schema, **fields)


def batch_of(rows) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    types = arrow_schema(SCHEMA).types
    arrays = [pa.array(list(each), kind) for each, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=list(SCHEMA.names))


def seen(shares, count: int) -> list[tuple]:
    every = np.arange(count)
    return [
        (share.partition, share.bucket, (every if share.rows is None else share.rows).tolist())
        for share in shares
    ]


def bucket_alone(row, count: int) -> int:
    types = [StringType(), BigIntType()]
    key = KeyEncoder.of(types).encode([pa.array([row[2]]), pa.array([row[1]], pa.int64())])
    return int(buckets_of(key, count, function=BucketFunction.FLUSS)[0])


rows = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 19999]),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from(["bern", "oslo", "a-b", "x_1"]),
        st.integers(0, 9),
    ),
    min_size=1,
)


@given(rows, st.integers(1, 5))
def test_every_row_is_in_the_share_where_it_would_go_alone(rows, count):
    router = Router.of(
        table(
            primary_key=("day", "city", "id"),
            partition_keys=("city", "day"),
            bucket_keys=("city", "id"),
            bucket_count=count,
        )
    )

    found = seen(router.route(batch_of(rows)), len(rows))

    expected: dict[tuple, list[int]] = {}
    for at, row in enumerate(rows):
        (day,) = partition_texts(pa.array([row[0]], pa.date32()), DateType())
        expected.setdefault((f"{row[2]}${day}", bucket_alone(row, count)), []).append(at)
    assert found == [(*place, expected[place]) for place in sorted(expected)]


def test_a_log_table_without_bucket_key_goes_anywhere():
    found = Router.of(table(bucket_count=4)).route(batch_of([(0, 1, "a", 1), (1, 2, "b", 2)]))

    assert seen(found, 2) == [(None, None, [0, 1])]
    assert found[0].rows is None


def test_a_partitioned_log_table_is_shared_by_partition_only():
    router = Router.of(table(partition_keys=("city",), bucket_count=4))

    found = router.route(batch_of([(0, 1, "b", 1), (0, 2, "a", 1), (0, 3, "b", 1)]))

    assert seen(found, 3) == [("a", None, [1]), ("b", None, [0, 2])]


def test_a_keyed_table_is_shared_by_its_primary_key_unless_told_otherwise():
    rows = [(0, number, "a", 1) for number in range(100)]
    by_default = table(primary_key=("day", "id"), partition_keys=("day",), bucket_count=3)
    by_id = table(partition_keys=("day",), bucket_keys=("id",), bucket_count=3)

    found = [seen(Router.of(each).route(batch_of(rows)), 100) for each in (by_default, by_id)]

    assert found[0] == found[1]
    assert [bucket for _, bucket, _ in found[0]] == [0, 1, 2]


def test_an_empty_batch_has_no_shares():
    batch = batch_of([(0, 1, "a", 1)]).slice(0, 0)

    assert Router.of(table(bucket_keys=("id",), bucket_count=3)).route(batch) == []


def test_a_slice_of_a_batch_is_routed_by_its_own_rows():
    rows = [(0, number, str(number), 1) for number in range(50)]
    router = Router.of(table(partition_keys=("day",), bucket_keys=("city",), bucket_count=4))

    found = router.route(batch_of(rows).slice(7, 20))

    assert seen(found, 20) == seen(router.route(batch_of(rows[7:27])), 20)


def test_a_null_in_a_partition_column_is_refused():
    router = Router.of(table(partition_keys=("city",)))

    with pytest.raises(InvalidPartitionError, match="'city' contains 1 nulls"):
        router.route(batch_of([(0, 1, None, 1), (0, 1, "a", 1)]))


def test_a_value_that_cannot_name_a_partition_is_refused():
    router = Router.of(table(partition_keys=("city",)))

    with pytest.raises(InvalidPartitionError, match="new york"):
        router.route(batch_of([(0, 1, "new york", 1)]))


def test_a_null_in_a_bucket_key_is_refused():
    router = Router.of(table(bucket_keys=("city",), bucket_count=2))

    with pytest.raises(InvalidValueError, match="'city' contains 1 nulls"):
        router.route(batch_of([(0, 1, None, 1), (0, 1, "a", 1)]))


def buckets_by_id(lake: str) -> list[int]:
    rows = [(0, number, "a", 1) for number in range(64)]
    properties = {"table.datalake.format": lake}
    router = Router.of(table(bucket_keys=("id",), bucket_count=8, properties=properties))
    buckets = np.empty(64, np.int32)
    for share in router.route(batch_of(rows)):
        buckets[share.rows] = share.bucket
    return buckets.tolist()


@cases(
    ("lake", "encoder", "function"),
    [
        ("paimon", PaimonKeys, BucketFunction.PAIMON),
        ("iceberg", IcebergKeys, BucketFunction.ICEBERG),
        ("lance", KeyEncoder, BucketFunction.FLUSS),
    ],
)
def test_the_lake_format_decides_how_buckets_are_found(lake, encoder, function):
    keys = encoder.of([BigIntType()]).encode([pa.array(range(64), pa.int64())])

    found = buckets_by_id(lake)

    assert found == buckets_of(keys, 8, function=function).tolist()


def test_a_row_goes_to_the_bucket_of_icebergs_specification():
    # Its appendix B gives 34 the hash 2017239379.
    assert buckets_by_id("iceberg")[34] == 2017239379 % 8


def test_a_table_in_hudis_format_is_refused():
    descriptor = table(bucket_keys=("id",), properties={"table.datalake.format": "hudi"})

    with pytest.raises(UnsupportedError, match="Hudi"):
        Router.of(descriptor)


@cases(
    ("properties", "bucket_keys", "is_lake"),
    [
        ({}, (), False),
        ({"table.datalake.format": "paimon"}, (), True),
        ({"table.datalake.format": "paimon"}, ("id",), True),
        ({"table.datalake.format": "paimon", "table.kv.format-version": "2"}, (), True),
        ({"table.datalake.format": "paimon", "table.kv.format-version": "2"}, ("id",), False),
        ({"table.datalake.format": "hudi"}, (), False),
    ],
)
def test_primary_keys_are_written_as_fluss_keeps_them(properties, bucket_keys, is_lake):
    descriptor = table(primary_key=("id", "amount"), bucket_keys=bucket_keys, properties=properties)
    columns = [pa.array([1], pa.int64()), pa.array([2], pa.int32())]

    found = primary_key_encoder(descriptor).encode(columns).to_list()

    encoder = PaimonKeys if is_lake else KeyEncoder
    assert found == encoder.of([BigIntType(), IntType()]).encode(columns).to_list()


def test_a_table_may_follow_the_buckets_of_pyfluss():
    schema = schema_of({"id": "BIGINT"})
    keys = pa.record_batch({"id": pa.array(range(128, 1128))})
    tables = [
        TableDescriptor(
            schema=schema, bucket_keys=("id",), bucket_count=16, custom_properties=properties
        )
        for properties in (
            {},
            {"headwater.bucket-hash": "java"},
            {"headwater.bucket-hash": "pyfluss"},
        )
    ]

    default, java, pyfluss = (
        [share.rows.tolist() for share in Router.of(table).route(keys)] for table in tables
    )

    assert default == java != pyfluss


def test_an_unknown_way_to_find_buckets_is_refused():
    table = TableDescriptor(
        schema=schema_of({"id": "BIGINT"}),
        bucket_keys=("id",),
        custom_properties={BUCKET_HASH: "rust"},
    )

    with pytest.raises(InvalidOptionError, match="rust"):
        Router.of(table)
