"""A request at a limit is answered in turns, one above it is refused, and others are served."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import RecordTooLargeError, RequestError
from headwater.rows.log_batch import build_batch
from headwater.rows.message import MessageWriter
from headwater.runtime.tasks import CALLS_PER_TURN, ITEMS_PER_TURN
from headwater.server.connection import Session
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, ApiKey
from headwater.wire.frames import RequestFrame, ResponseKind, request_head
from headwater.wire.limits import BUCKETS_MAX, LISTS, LOOKUPS_MAX, WRITES_MAX
from tests.clocks import loop_turns
from tests.flows.appending import SCHEMA, TABLE, produce, with_table
from tests.server.support import (
    KIB,
    RawClient,
    append,
    connected,
    encoded,
    fetch_request,
    is_served,
    running,
)
from tests.server.test_memory import memory_of
from tests.serving import serving
from tests.wire.test_limits import body_with, paths_to_lists

MIB = KIB * KIB
VALUES = {
    "database_name": "fluss",
    "table_name": "rows",
    "data_type_json": b'{"type":"BIGINT"}',
    "acks": -1,
    "timeout_ms": 1000,
    "max_bytes": MIB,
    "max_fetch_bytes": MIB,
    "records": b"",
    "offset_type": 0,
    "op_type": 0,
    "function": 0,
    "column_position_type": 0,
    "field_id": 0,
    "ignore_if_not_exists": False,
    "projection_pushdown_enabled": False,
}
NUMBERED = ("bucket_id", "column_name", "old_column_name", "new_column_name", "config_key", "key")


def value_of(field, table_id: int, number: int):
    """Return what a field holds that must be there."""
    if field.name == "table_id":
        return table_id
    if field.name in NUMBERED:
        return number if field.name == "bucket_id" else f"{field.name}{number}"
    if field.name in VALUES:
        return VALUES[field.name]
    return {field.CPPTYPE_STRING: "x", field.CPPTYPE_BOOL: False}.get(field.cpp_type, 1)


def fill(message, path, *, count: int, table_id: int, number: int = 0):
    """Fill a message so that the list at the end of a path has so many items."""
    for field in message.DESCRIPTOR.fields:
        if path and field.name == path[0].name:
            _fill_list(message, field, path, count=count, table_id=table_id)
        elif field.name == "type" and message.DESCRIPTOR.name == "Predicate":
            message.type = 1 if path else 0
        elif field.name == "leaf" and not path:
            fill(message.leaf, (), count=0, table_id=table_id)
        elif field.is_required and field.message_type is not None:
            fill(getattr(message, field.name), (), count=0, table_id=table_id)
        elif field.is_required:
            value = value_of(field, table_id, number)
            is_bytes = field.type == field.TYPE_BYTES and isinstance(value, str)
            setattr(message, field.name, value.encode() if is_bytes else value)
    return message


def _fill_list(message, field, path, *, count, table_id):
    inner = getattr(message, field.name)
    if field.type == field.TYPE_BYTES:
        inner.extend(str(number).encode() for number in range(count))
    elif field.message_type is None:
        inner.extend(range(count))
    elif not isinstance(field.default_value, list):
        fill(inner, path[1:], count=count, table_id=table_id)
    else:
        for number in range(count if len(path) == 1 else 1):
            fill(inner.add(), path[1:], count=count, table_id=table_id, number=number)


def lists():
    """Yield every list of every request with its limit."""
    for api in APIS.values():
        for path in paths_to_lists(api.request.DESCRIPTOR):
            name = f"{path[-1].containing_type.name}.{path[-1].name}"
            yield api, path, name


async def served(serve, api, request) -> tuple[ResponseKind, bytes, int]:
    """Have a request answered on this loop, and count how often others had a turn meanwhile."""
    frame = RequestFrame(api.key, 0, 1, memoryview(request.SerializeToString()))
    session = Session("test", "127.0.0.1", 1, _writable)
    answering = asyncio.create_task(serve(frame, session))
    turns = 0
    while not answering.done():
        await loop_turns()
        turns += 1
    kind, parts = answering.result()
    return kind, b"".join(parts), turns


async def _writable() -> None:
    pass


async def test_every_list_at_its_limit_is_answered_and_one_item_more_is_refused(tmp_path):
    async with running(tmp_path) as server:
        table_id = await with_table(server.port, buckets=4)
        for api, path, name in lists():
            most = fill(api.request(), path, count=LISTS[name], table_id=table_id)
            kind, answer, _ = await served(server.serve, api, most)
            if kind is ResponseKind.ERROR:
                fault = pb.ErrorResponse.FromString(answer)
                assert fault.error_code != -1, (name, fault)
                assert fault.error_code != RecordTooLargeError.code, (name, fault)

            more = fill(api.request(), path, count=LISTS[name] + 1, table_id=table_id)
            kind, answer, _ = await served(server.serve, api, more)
            fault = pb.ErrorResponse.FromString(answer)
            assert kind is ResponseKind.ERROR, name
            assert fault.error_code == RecordTooLargeError.code, (name, fault)
            assert f"{name} of a request has more than {LISTS[name]} items" in fault.error_message


async def test_long_lists_are_answered_in_turns_with_everybody_else(tmp_path):
    async with running(tmp_path) as server:
        table_id = await with_table(server.port, buckets=4)
        least = {
            "FetchLogTableRequest.buckets_req": BUCKETS_MAX // ITEMS_PER_TURN,
            "ListOffsetsRequest.bucket_id": BUCKETS_MAX // ITEMS_PER_TURN,
            "GetTableStatsRequest.buckets_req": BUCKETS_MAX // ITEMS_PER_TURN,
            "LookupRequest.buckets_req": LOOKUPS_MAX // CALLS_PER_TURN,
            "PrefixLookupRequest.buckets_req": LOOKUPS_MAX // ITEMS_PER_TURN,
            "ProduceLogRequest.buckets_req": WRITES_MAX // CALLS_PER_TURN,
            "PutKvRequest.buckets_req": WRITES_MAX // CALLS_PER_TURN,
        }
        for api, path, name in lists():
            if name in least:
                request = fill(api.request(), path, count=LISTS[name], table_id=table_id)
                kind, _, turns = await served(server.serve, api, request)

                assert kind is ResponseKind.ANSWER, name
                assert turns >= least[name], name


async def test_what_is_named_twice_is_read_once_and_written_never(tmp_path):
    async with running(tmp_path) as server:
        table_id = await with_table(server.port, buckets=2)
        async with connected(server) as connection:
            await append(connection, table_id)
            asked = pb.FetchLogBucketRequest(bucket_id=0, fetch_offset=0, max_fetch_bytes=MIB)
            table = pb.FetchLogTableRequest(
                table_id=table_id, projection_pushdown_enabled=False, buckets_req=[asked] * 1000
            )
            fetched = await connection.call(
                pb.FetchLogRequest(follower_server_id=-1, max_bytes=MIB, tables_req=[table]),
                pb.FetchLogResponse,
            )
            metadata = await connection.call(
                pb.MetadataRequest(table_path=[TABLE] * 1000), pb.MetadataResponse
            )
            offsets = await connection.call(
                pb.ListOffsetsRequest(
                    follower_server_id=-1, offset_type=0, table_id=table_id, bucket_id=[1, 0] * 500
                ),
                pb.ListOffsetsResponse,
            )
            twice = [pb.ProduceLogBucketRequest(bucket_id=0, records=b"")] * 2
            with pytest.raises(RequestError, match="names a bucket more than once"):
                await connection.call(
                    pb.ProduceLogRequest(
                        acks=-1, table_id=table_id, timeout_ms=1000, buckets_req=twice
                    ),
                    pb.ProduceLogResponse,
                )

    assert len(fetched.tables_resp[0].buckets_resp) == len(metadata.table_metadata) == 1
    assert len(metadata.table_metadata[0].bucket_metadata) == 2
    assert [each.bucket_id for each in offsets.buckets_resp] == [1, 0]


async def test_a_projection_that_repeats_a_column_is_refused(tmp_path):
    async with running(tmp_path) as server:
        table_id = await with_table(server.port)
        async with connected(server) as connection:
            await append(connection, table_id)
            request = fetch_request(table_id)
            request.tables_req[0].projection_pushdown_enabled = True
            request.tables_req[0].projected_fields.extend([1] * 4000)
            answer = await connection.call(request, pb.FetchLogResponse)

    (bucket,) = answer.tables_resp[0].buckets_resp
    assert "names a column more than once" in bucket.error_message
    assert not bucket.records


@pytest.mark.timeout(110)
async def test_requests_far_above_every_limit_neither_end_a_server_nor_make_it_grow(tmp_path):
    with serving(tmp_path / "data") as process:
        table_id = await with_table(process.port)
        client = await RawClient.open(process)
        client.send(encoded(fetch_request(table_id), ApiKey.FETCH_LOG))
        assert await client.answer_id() == 1
        before, sent = memory_of(process.pid), 0
        for api, path, name in lists():
            request = fill(api.request(), path, count=1, table_id=table_id).SerializeToString()
            body = body_with(path, 4_000_000)
            head = request_head(api.key, 0, sent, body_bytes=len(request) + len(body))
            client.send(head + request + body)
            assert await client.answer_id() == sent, name
            sent += 1
        grown = memory_of(process.pid) - before
        assert await is_served(process)
        client.abort()
        RawClient.opened.clear()

    assert sent == len(list(lists()))
    assert grown < 150 * MIB


def bomb(rows: int, codec: str) -> bytes:
    """Return a small batch whose values are many zeros."""
    zeros = pa.record_batch(
        [pa.array(np.zeros(rows, kind)) for kind in (np.int32, np.int64)], schema=SCHEMA
    )
    codec = pa.Codec(codec)
    message = MessageWriter(SCHEMA, codec).write(zeros)
    return build_batch(message, schema_id=1, record_count=rows)


async def test_batches_that_grow_are_decoded_beside_the_loop_and_not_all_at_once(tmp_path):
    async with running(tmp_path, decoded_bytes_max=40 * MIB) as server:
        table_id = await with_table(server.port, buckets=4)
        records = bomb(2_000_000, "lz4")
        buckets = [pb.ProduceLogBucketRequest(bucket_id=n, records=records) for n in range(4)]
        request = pb.ProduceLogRequest(
            acks=-1, table_id=table_id, timeout_ms=30_000, buckets_req=buckets
        )
        decoding, held = server._services.tablets._decoding, set()
        frame = RequestFrame(ApiKey.PRODUCE_LOG, 0, 1, memoryview(request.SerializeToString()))
        answering = asyncio.create_task(
            server.serve(frame, Session("test", "127.0.0.1", 1, _writable))
        )
        while not answering.done():
            held.add(decoding.used_bytes)
            await loop_turns()
        answer = pb.ProduceLogResponse.FromString(b"".join(answering.result()[1]))

    assert len(records) < 200 * KIB
    assert held == {0, 24_000_000}, "one at a time, seen by a loop that went on"
    assert not any(each.error_code for each in answer.buckets_resp)


async def test_a_request_of_many_batches_that_grow_is_refused(tmp_path):
    limits = {"decoded_bytes_max": 40 * MIB, "request_decoded_bytes_max": 60 * MIB}
    async with running(tmp_path, **limits) as server:
        table_id = await with_table(server.port)
        async with connected(server) as connection:
            answers = [
                await connection.call(produce(table_id, 0, records), pb.ProduceLogResponse)
                for records in (
                    bomb(2_000_000, "zstd") * 3,
                    bomb(4_000_000, "zstd"),
                    bomb(9, "lz4"),
                )
            ]

    told = [answer.buckets_resp[0].error_message for answer in answers]
    assert "of a request take more than 62914560 bytes after decompression" in told[0]
    assert "A batch takes more than 41943040 bytes after decompression" in told[1]
    assert not told[2]
