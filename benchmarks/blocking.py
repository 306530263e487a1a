"""A blocking client of the wire protocol, as thin as Python allows."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import pyarrow as pa
from google.protobuf.message import Message

from headwater.rows.log_batch import BatchHeader, build_batch, iterate, read_sections
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, ApiKey
from headwater.wire.fetch import decode_fetch_answer
from headwater.wire.frames import LENGTH, request_head, response_frame
from headwater.wire.write import BucketRecords, ProduceRequest, encode_produce

_KINDS = {
    pa.int64(): {"type": "BIGINT"},
    pa.int32(): {"type": "INTEGER"},
    pa.float64(): {"type": "DOUBLE"},
    pa.string(): {"type": "STRING"},
    pa.timestamp("us"): {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 6},
}


@dataclass(frozen=True, slots=True)
class BenchTable:
    """Name a table and know its id."""

    table_id: int
    schema: pa.Schema


class BlockingConnection:
    """Send one request at a time and wait for its answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffers = cycle([bytearray(20 << 20), bytearray(20 << 20)])

    def send(self, request: Message) -> None:
        """Send a request."""
        self.send_frame(self.frame(request))

    def frame(self, request: Message) -> bytes:
        """Return an encoded request."""
        api, body = API_OF_REQUEST[type(request)], request.SerializeToString()
        return request_head(api.key, api.version_max, 1, body_bytes=len(body)) + body

    def receive(self) -> memoryview:
        """Return the body of the next answer, valid until the call after the next."""
        view = memoryview(next(self._buffers))
        self._fill(view[:4])
        (length,) = LENGTH.unpack_from(view)
        self._fill(view[:length])
        frame = response_frame(view[:length])
        if frame.kind:
            raise RuntimeError(pb.ErrorResponse.FromString(bytes(frame.body)).error_message)
        return frame.body

    def call(self, request: Message) -> memoryview:
        """Send a request and return the body of its answer."""
        self.send(request)
        return self.receive()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("The server closed the connection.")
            view = view[count:]

    # ---- tables

    def create(
        self,
        name: str,
        schema: pa.Schema,
        *,
        buckets: int,
        compression: str,
        primary_key: tuple[str, ...] = (),
    ) -> BenchTable:
        """Create a table."""
        columns = [
            {"name": field.name, "data_type": _KINDS[field.type], "id": number}
            for number, field in enumerate(schema)
        ]
        path = pb.TablePath(database_name="fluss", table_name=name)
        table = {
            "version": 1,
            "schema": {
                "version": 1,
                "columns": columns,
                "primary_key": list(primary_key),
                "highest_field_id": len(columns) - 1,
            },
            "partition_key": [],
            "bucket_count": buckets,
            "properties": {"table.log.arrow.compression.type": compression},
            "custom_properties": {},
        }
        request = pb.CreateTableRequest(
            table_path=path, table_json=json.dumps(table).encode(), ignore_if_exists=False
        )
        self.call(request)
        info = pb.GetTableInfoResponse.FromString(
            bytes(self.call(pb.GetTableInfoRequest(table_path=path)))
        )
        return BenchTable(info.table_id, schema)

    def append(self, table: BenchTable, bucket: int, records: bytes, *, acks: int) -> None:
        """Append one batch and wait for the ack."""
        self.send_append(table, bucket, records, acks=acks)
        self.receive_ack()

    def send_append(self, table: BenchTable, bucket: int, records: bytes, *, acks: int) -> None:
        """Send one batch."""
        parts = _append_parts(table, bucket, records, acks=acks)
        sent = self._socket.sendmsg(parts)
        if sent < sum(map(len, parts)):
            self._socket.sendall(memoryview(b"".join(parts))[sent:])

    def append_frame(self, table: BenchTable, bucket: int, records: bytes, *, acks: int) -> bytes:
        """Return the request to append one batch."""
        return b"".join(_append_parts(table, bucket, records, acks=acks))

    def send_frame(self, frame: bytes) -> None:
        """Send a request that is encoded already."""
        self._socket.sendall(frame)

    def receive_ack(self) -> None:
        """Wait for one ack."""
        check_ack(self.receive())

    def scan(
        self, table: BenchTable, bucket: int, *, columns: list[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read a bucket from its start to its end."""
        schema = table.schema if columns is None else pa.schema([table.schema[c] for c in columns])
        self.send(_fetch(table.table_id, bucket, 0, columns))
        offset, end = 0, 1
        while offset < end:
            answer = decode_fetch_answer(self.receive())[0].buckets[0]
            end = answer.fields.high_watermark
            found = [(records, *each) for records in answer.records for each in iterate(records)]
            offset = found[-1][1].end_offset
            if offset < end:
                # The next answer is on its way while this one is decoded.
                self.send(_fetch(table.table_id, bucket, offset, columns))
            for records, header, position in found:
                yield _decoded(records, header, position, schema)


def check_ack(body: memoryview) -> None:
    """Raise if the answer to an append is an error."""
    answer = pb.ProduceLogResponse.FromString(bytes(body)).buckets_resp[0]
    if answer.error_code:
        raise RuntimeError(answer.error_message)


def _append_parts(
    table: BenchTable, bucket: int, records: bytes, *, acks: int
) -> list[bytes | memoryview]:
    request = ProduceRequest(acks, table.table_id, 60_000, [BucketRecords(bucket, records)])
    parts = encode_produce(request)
    head = request_head(ApiKey.PRODUCE_LOG, 1, 1, body_bytes=sum(map(len, parts)))
    return [head, *parts]


def _decoded(
    records: memoryview, header: BatchHeader, position: int, schema: pa.Schema
) -> pa.RecordBatch:
    batch = records[position : position + header.size]
    start = read_sections(batch, header).changes_end
    return pa.ipc.read_record_batch(pa.py_buffer(batch[start:]), schema)


def _fetch(
    table_id: int, bucket: int, offset: int, columns: list[int] | None
) -> pb.FetchLogRequest:
    asked = pb.FetchLogBucketRequest(
        bucket_id=bucket, fetch_offset=offset, max_fetch_bytes=16 << 20
    )
    table = pb.FetchLogTableRequest(
        table_id=table_id,
        projection_pushdown_enabled=columns is not None,
        projected_fields=columns or [],
        buckets_req=[asked],
    )
    return pb.FetchLogRequest(
        follower_server_id=-1, max_bytes=16 << 20, max_wait_ms=1000, min_bytes=1, tables_req=[table]
    )


def log_batch(batch: pa.RecordBatch, codec: str | None) -> bytes:
    """Encode a batch as a client sends it."""
    return build_batch(memoryview(message_of(batch, codec)), schema_id=1, record_count=len(batch))


def message_of(batch: pa.RecordBatch, codec: str | None) -> pa.Buffer:
    """Encode the Arrow message of a batch."""
    if codec is None:
        return batch.serialize()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
        end = sink.tell()
    # The schema comes before the batch, an end mark behind it.
    start = batch.schema.serialize().size
    return sink.getvalue().slice(start, end - start)
