"""A client as far as writing goes, and the raw logs of what it wrote."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

import pyarrow as pa

from headwater.cluster.admin import Admin
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Pool, TcpConnection, TcpDialer
from headwater.cluster.paths import parse_addresses
from headwater.config.client import ClientSettings
from headwater.model.arrow import arrow_schema
from headwater.model.path import TablePath
from headwater.model.table import TableInfo, descriptor_from_json
from headwater.rows.log_batch import ChangeType, check_crc, iterate, read_sections
from headwater.runtime.clock import SystemClock
from headwater.wire import fluss_pb2 as pb
from headwater.write.pipeline import Appender, Upserter
from headwater.write.target import WriteContext

_numbers = count()
CHANGES = {kind.value: kind.name for kind in ChangeType}


class WritingClient:
    """Create tables and write to them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writers = WriteContext(cluster)

    async def create(
        self,
        columns: dict[str, str],
        *,
        key: Sequence[str] = (),
        partition: Sequence[str] = (),
        bucket_key: Sequence[str] = (),
        numbered: Sequence[str] = (),
        buckets: int = 1,
        properties: dict[str, str] | None = None,
    ) -> TableInfo:
        described = {
            "version": 1,
            "schema": {
                "version": 1,
                "columns": [
                    {"name": name, "data_type": {"type": kind, "nullable": name not in key}}
                    for name, kind in columns.items()
                ],
                "primary_key": list(key),
                "auto_increment_column": list(numbered),
            },
            "partition_key": list(partition),
            "bucket_key": list(bucket_key),
            "bucket_count": buckets,
            "properties": properties or {},
            "custom_properties": {},
        }
        path = TablePath("fluss", f"client_writes_{next(_numbers)}")
        descriptor = descriptor_from_json(json.loads(json.dumps(described)))
        return await Admin(self.cluster).create_table(path, descriptor, exists_ok=False)

    def appender(self, table: TableInfo) -> Appender:
        return Appender(self.cluster, table, self.writers)

    def upserter(self, table: TableInfo) -> Upserter:
        return Upserter(self.cluster, table, self.writers)

    async def partitions(self, table: TableInfo) -> dict[str, int]:
        return await self.cluster.partitions(table)


@asynccontextmanager
async def writing_client(port: int, **limits) -> AsyncIterator[WritingClient]:
    settings = ClientSettings(**limits)
    cluster = Cluster(
        parse_addresses(f"127.0.0.1:{port}"),
        Pool(TcpDialer()),
        settings=settings,
        clock=SystemClock(),
    )
    await cluster.connect()
    client = WritingClient(cluster)
    try:
        yield client
    finally:
        await client.writers.close()
        await cluster.close()


def batch_of(table: TableInfo, *rows: tuple, columns: Sequence[str] | None = None):
    """Make a batch of some columns, or of all."""
    schema = arrow_schema(table.schema)
    names = schema.names if columns is None else columns
    fields = [schema.field(name) for name in names]
    arrays = [pa.array([row[at] for row in rows], each.type) for at, each in enumerate(fields)]
    return pa.record_batch(arrays, schema=pa.schema(fields))


async def logged(
    port: int, table: TableInfo, bucket: int = 0, *, partition_id: int | None = None
) -> list[tuple[str, tuple]]:
    """Return what happened in a bucket, checking checksums and that offsets have no gap."""
    connection = await TcpConnection.open("127.0.0.1", port)
    found, offset, end = [], 0, 1
    while offset < end:
        answer = await _fetch(connection, table, bucket, partition_id, offset)
        assert not answer.error_code, answer.error_message
        end = answer.high_watermark
        for header, position in iterate(answer.records):
            data = memoryview(answer.records)[position : position + header.size]
            check_crc(data, header)
            assert header.base_offset == offset, "offsets have a gap"
            offset = header.end_offset
            found += _read(data, header, table)
    await connection.close()
    return found


def _read(data, header, table: TableInfo) -> list[tuple[str, tuple]]:
    if not header.record_count:
        return []
    sections = read_sections(data, header)
    message = pa.py_buffer(data[sections.changes_end :])
    rows = pa.ipc.read_record_batch(message, arrow_schema(table.schema))
    tuples = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    if header.is_append_only:
        return [("APPEND", row) for row in tuples]
    kinds = [CHANGES[kind] for kind in data[sections.statistics_end : sections.changes_end]]
    return list(zip(kinds, tuples, strict=True))


async def _fetch(connection, table, bucket, partition_id, offset) -> pb.FetchLogBucketResponse:
    wanted = pb.FetchLogBucketRequest(
        bucket_id=bucket,
        partition_id=partition_id,
        fetch_offset=offset,
        max_fetch_bytes=8 << 20,
    )
    request = pb.FetchLogRequest(
        follower_server_id=-1,
        max_bytes=16 << 20,
        max_wait_ms=0,
        min_bytes=1,
        tables_req=[
            pb.FetchLogTableRequest(
                table_id=table.table_id, projection_pushdown_enabled=False, buckets_req=[wanted]
            )
        ],
    )
    answer = await connection.call(request, pb.FetchLogResponse)
    return answer.tables_resp[0].buckets_resp[0]


async def rows_in(
    port: int, table: TableInfo, *, partition_id: int | None = None
) -> list[list[tuple]]:
    """Return the rows of every bucket of a log table."""
    return [
        [row for _, row in await logged(port, table, bucket, partition_id=partition_id)]
        for bucket in range(table.bucket_count)
    ]


async def state_of(port: int, table: TableInfo, *, partition_id: int | None = None) -> set[tuple]:
    """Return the rows of a primary-key table, folded from its changelog."""
    rows: set[tuple] = set()
    for bucket in range(table.bucket_count):
        for kind, row in await logged(port, table, bucket, partition_id=partition_id):
            if kind in ("INSERT", "UPDATE_AFTER"):
                rows.add(row)
            else:
                rows.remove(row)
    return rows
