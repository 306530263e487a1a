"""Writers that remember what was acked, and a reader that checks every offset."""

import asyncio
import json

import pyarrow as pa

from headwater.cluster.links import TcpConnection
from headwater.errors import HeadwaterError
from headwater.rows.log_batch import build_batch, check_crc, iterate, read_sections
from headwater.wire import fluss_pb2 as pb

SCHEMA = pa.schema([("writer", pa.int32()), ("number", pa.int64())])
TABLE = pb.TablePath(database_name="fluss", table_name="rows")
ROWS_PER_BATCH = 7
ACKS_PER_ROUND = 5
DUPLICATE_SEQUENCE = 32


def table_json(schema: pa.Schema = SCHEMA, *, buckets: int = 1, **properties: str) -> bytes:
    kinds = {pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.string(): "STRING"}
    columns = [
        {"name": field.name, "data_type": {"type": kinds[field.type]}, "id": number}
        for number, field in enumerate(schema)
    ]
    return json.dumps(
        {
            "version": 1,
            "schema": {"version": 1, "columns": columns, "highest_field_id": len(columns) - 1},
            "partition_key": [],
            "bucket_count": buckets,
            "properties": properties,
            "custom_properties": {},
        }
    ).encode()


async def with_table(port: int, *, buckets: int = 1, **properties: str) -> int:
    connection = await TcpConnection.open("127.0.0.1", port)
    request = pb.CreateTableRequest(
        table_path=TABLE,
        table_json=table_json(buckets=buckets, **properties),
        ignore_if_exists=True,
    )
    await connection.call(request, pb.CreateTableResponse)
    info = await connection.call(pb.GetTableInfoRequest(table_path=TABLE), pb.GetTableInfoResponse)
    await connection.close()
    return info.table_id


def batch_of(rows: list[tuple[int, int]], *, writer_id: int = -1, sequence: int = -1) -> bytes:
    columns = [[row[0] for row in rows], [row[1] for row in rows]]
    message = pa.record_batch(columns, schema=SCHEMA).serialize()
    return build_batch(
        memoryview(message),
        schema_id=1,
        record_count=len(rows),
        writer_id=writer_id,
        sequence=sequence,
    )


def produce(table_id: int, bucket: int, records: bytes, *, acks: int = -1) -> pb.ProduceLogRequest:
    return pb.ProduceLogRequest(
        acks=acks,
        table_id=table_id,
        timeout_ms=30_000,
        buckets_req=[pb.ProduceLogBucketRequest(bucket_id=bucket, records=records)],
    )


class Writer:
    """Append with idempotent sequences, resending after a crash what was not acked."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acked: set[tuple[int, int]] = set()
        self.sent: set[tuple[int, int]] = set()
        self._writer_id: int | None = None
        self._sequences: dict[int, int] = {}
        self._unknown: tuple[int, bytes, list[tuple[int, int]]] | None = None
        self._next = 0
        self._round = asyncio.Event()

    async def acked_some(self) -> None:
        await self._round.wait()

    async def append_until_cut(self, port: int, table_id: int, buckets: int) -> None:
        self._round.clear()
        connection = await TcpConnection.open("127.0.0.1", port)
        try:
            await self._ensure_writer_id(connection)
            count = 0
            while True:
                bucket, records, rows = self._unknown or self._new_batch(count % buckets)
                self._unknown = (bucket, records, rows)
                await self._send(connection, produce(table_id, bucket, records))
                self.acked |= set(rows)
                self._unknown = None
                self._sequences[bucket] = self._sequences.get(bucket, 0) + 1
                count += 1
                if count >= ACKS_PER_ROUND:
                    self._round.set()
        except (HeadwaterError, ConnectionError) as cut:
            assert isinstance(cut, ConnectionError) or cut.retriable, cut
        finally:
            await connection.close()

    async def _ensure_writer_id(self, connection: TcpConnection) -> None:
        if self._writer_id is None:
            answer = await connection.call(pb.InitWriterRequest(), pb.InitWriterResponse)
            self._writer_id = answer.writer_id

    def _new_batch(self, bucket: int) -> tuple[int, bytes, list[tuple[int, int]]]:
        rows = [(self.number, self._next + each) for each in range(ROWS_PER_BATCH)]
        self._next += ROWS_PER_BATCH
        self.sent |= set(rows)
        sequence = self._sequences.get(bucket, 0)
        return bucket, batch_of(rows, writer_id=self._writer_id or 0, sequence=sequence), rows

    async def _send(self, connection: TcpConnection, request: pb.ProduceLogRequest) -> None:
        answer = (await connection.call(request, pb.ProduceLogResponse)).buckets_resp[0]
        assert answer.error_code in (0, DUPLICATE_SEQUENCE), answer.error_message


async def read_rows(port: int, table_id: int, *, buckets: int) -> list[tuple[int, int]]:
    """Read everything, checking checksums and that offsets follow without a gap."""
    connection = await TcpConnection.open("127.0.0.1", port)
    rows: list[tuple[int, int]] = []
    for bucket in range(buckets):
        offset, end = 0, 1
        while offset < end:
            answer = await fetch(connection, table_id, bucket, offset)
            assert not answer.error_code, answer.error_message
            end = answer.high_watermark
            for header, position in iterate(answer.records):
                batch = memoryview(answer.records)[position : position + header.size]
                check_crc(batch, header)
                assert header.base_offset == offset, "offsets have a gap"
                offset = header.end_offset
                message = pa.py_buffer(batch[read_sections(batch, header).changes_end :])
                data = pa.ipc.read_record_batch(message, SCHEMA)
                rows += zip(data["writer"].to_pylist(), data["number"].to_pylist(), strict=True)
    await connection.close()
    return rows


async def fetch(
    connection: TcpConnection,
    table_id: int,
    bucket: int,
    offset: int,
    *,
    wait_ms: int = 0,
    **selection,
) -> pb.FetchLogBucketResponse:
    request = pb.FetchLogRequest(
        follower_server_id=-1,
        max_bytes=16 << 20,
        max_wait_ms=wait_ms,
        min_bytes=1,
        tables_req=[
            pb.FetchLogTableRequest(
                table_id=table_id,
                projection_pushdown_enabled="projected_fields" in selection,
                **selection,
                buckets_req=[
                    pb.FetchLogBucketRequest(
                        bucket_id=bucket, fetch_offset=offset, max_fetch_bytes=1 << 20
                    )
                ],
            )
        ],
    )
    answer = await connection.call(request, pb.FetchLogResponse)
    return answer.tables_resp[0].buckets_resp[0]
