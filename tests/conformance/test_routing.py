"""Rows that the Fluss client writes are where our client looks for them."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headwater.cluster.router import Router
from headwater.cluster.schema_in import schema_of
from headwater.model.table import TableDescriptor
from headwater.rows.compacted.coders import KeyEncoder
from tests.conformance.client import EARLIEST, append, create

BUCKETS = 5
COUNT = 40
KEYS = {
    "bool": pa.array([number % 2 == 0 for number in range(COUNT)]),
    "tinyint": pa.array(range(-20, 20), pa.int8()),
    "smallint": pa.array(range(-2000, 2000, 100), pa.int16()),
    "int": pa.array([number**3 - 7000 for number in range(COUNT)], pa.int32()),
    "bigint": pa.array([number**11 - 7**10 for number in range(COUNT)], pa.int64()),
    "float": pa.array([number / 7 for number in range(COUNT)], pa.float32()),
    "double": pa.array([number / 7 - 2 for number in range(COUNT)], pa.float64()),
    "string": pa.array(["añ" * number for number in range(COUNT)]),
    "bytes": pa.array([bytes(range(number)) for number in range(COUNT)]),
    "decimal": pa.array([Decimal(number) / 4 for number in range(COUNT)], pa.decimal128(9, 2)),
    "large_decimal": pa.array(
        [Decimal(number) * 10**17 for number in range(COUNT)], pa.decimal128(30, 2)
    ),
    "date": pa.array(range(-20, 20), pa.date32()),
    "time": pa.array(range(3_000_000, 3_040_000, 1000), pa.time32("ms")),
    "timestamp": pa.array([number**10 for number in range(COUNT)], pa.timestamp("ms")),
    "fine": pa.array([number**10 - 10**9 for number in range(COUNT)], pa.timestamp("us")),
    "instant": pa.array([number**10 for number in range(COUNT)], pa.timestamp("us", "UTC")),
}


def batch_of(*keys: pa.Array) -> pa.RecordBatch:
    named = {f"key{index}": key for index, key in enumerate(keys)}
    return pa.record_batch(named | {"number": pa.array(range(len(keys[0])))})


async def buckets_by_number(table) -> list[int]:
    found = {}
    for bucket in range(BUCKETS):
        scanner = await table.new_scan().create_record_batch_log_scanner()
        scanner.subscribe_buckets({bucket: EARLIEST})
        for number in (await scanner.to_arrow()).column("number").to_pylist():
            found[number] = bucket
    return [found[number] for number in range(COUNT)]


def routed(batch: pa.RecordBatch, names: tuple[str, ...]) -> list[int]:
    schema = schema_of(batch.schema)
    descriptor = TableDescriptor(schema=schema, bucket_keys=names, bucket_count=BUCKETS)
    buckets = np.full(batch.num_rows, -1)
    for share in Router.of(descriptor).route(batch):
        buckets[share.rows] = share.bucket
    return buckets.tolist()


def is_agreed(key: bytes) -> bool:
    """Tell whether the clients of Apache Fluss agree on the bucket of a key.

    After the last whole word, the one in Java takes bytes for signed numbers and pyfluss does not.
    """
    return all(byte < 0x80 for byte in key[len(key) // 4 * 4 :])


@pytest.mark.parametrize(
    "kinds", [*((kind,) for kind in KEYS), ("int", "string", "decimal")], ids="-".join
)
async def test_rows_are_in_the_bucket_of_their_key(connection, admin, path, kinds):
    batch = batch_of(*(KEYS[kind] for kind in kinds))
    names = tuple(batch.schema.names[:-1])
    await create(admin, path, batch.schema, bucket_count=BUCKETS, bucket_keys=list(names))
    table = await connection.get_table(path)

    await append(table, batch)

    types = [schema_of(batch.schema).column(name).type for name in names]
    keys = KeyEncoder.of(types).encode(batch.columns[:-1]).to_list()
    agreed = [number for number, key in enumerate(keys) if is_agreed(key)]
    found, expected = await buckets_by_number(table), routed(batch, names)
    assert len(agreed) >= COUNT // 8
    assert [found[number] for number in agreed] == [expected[number] for number in agreed]
