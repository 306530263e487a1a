"""Bad input gets a clear error, changes nothing, and the server serves everyone else."""

import asyncio
import struct

import pyarrow as pa
import pytest

from headwater.cluster.links import TcpConnection
from headwater.errors import (
    BucketMissingError,
    CorruptBatchError,
    HeadwaterError,
    InvalidAcksError,
    InvalidNameError,
    UnsupportedError,
)
from headwater.rows.log_batch import build_batch
from headwater.wire import fluss_pb2 as pb
from headwater.wire.frames import request_head
from tests.flows.appending import SCHEMA, batch_of, fetch, produce, table_json

CORRUPT_RECORD, SCHEMA_NOT_EXIST, UNKNOWN_BUCKET, TOO_LARGE = 14, 9, 21, 13
GOOD = batch_of([(1, 1), (1, 2), (1, 3)])


async def send_raw(port: int, data: bytes) -> bytes:
    """Send bytes and return what comes back until the server closes, or all of one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    head = await reader.read(4)
    answer = await reader.readexactly(struct.unpack(">i", head)[0]) if head else b""
    writer.close()
    return answer


async def appended(connection, table_id, records, *, bucket=0):
    answer = await connection.call(produce(table_id, bucket, records), pb.ProduceLogResponse)
    return answer.buckets_resp[0]


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 65 << 20])
async def test_an_impossible_frame_length_ends_that_connection_only(server, connection, length):
    answer = await send_raw(server.port, struct.pack(">i", length))

    assert answer == b""
    assert await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)


@pytest.mark.parametrize("cut", [1, 4, 7, 11, 13])
async def test_a_client_that_goes_away_inside_a_frame_harms_nobody(server, connection, cut):
    whole = request_head(1003, 0, 1, body_bytes=100) + bytes(100)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)

    writer.write(whole[:cut])
    writer.close()

    assert await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)


async def error_of(port: int, api_key: int, body: bytes, *, version: int = 0) -> pb.ErrorResponse:
    answer = await send_raw(port, request_head(api_key, version, 77, body_bytes=len(body)) + body)
    kind, request_id = struct.unpack(">Bi", answer[:5])
    assert (kind, request_id) == (1, 77)
    return pb.ErrorResponse.FromString(answer[5:])


@pytest.mark.parametrize("api_key", [0, 18, 999, 1013, 1018, 32767])
async def test_an_unknown_api_is_refused_by_its_number(server, api_key):
    error = await error_of(server.port, api_key, b"")

    assert error.error_code == UnsupportedError.code
    assert str(api_key) in error.error_message


async def test_an_api_version_that_is_not_served_is_refused(server):
    error = await error_of(server.port, 1003, b"", version=9)

    assert error.error_code == UnsupportedError.code
    assert "versions 0 to 0" in error.error_message


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b""])
async def test_a_malformed_body_is_refused(server, body):
    error = await error_of(server.port, 1005, body)

    assert error.error_code == CorruptBatchError.code
    assert "CREATE_TABLE" in error.error_message


def broken_batches():
    message = memoryview(pa.record_batch([[1], [2]], schema=SCHEMA).serialize())
    yield "flipped bit", GOOD[:-1] + bytes([GOOD[-1] ^ 1])
    yield "cut short", GOOD[:-1]
    yield "bytes behind", GOOD + b"x"
    yield "header only", GOOD[:48]
    yield "half a header", GOOD[:20]
    yield "unknown version", GOOD[:12] + b"\x09" + GOOD[13:]
    yield "no rows", build_batch(message, schema_id=1, record_count=0)
    yield "wrong count", build_batch(message, schema_id=1, record_count=2)
    yield "change types", build_batch(message, schema_id=1, record_count=1, changes=b"\x01")
    yield "no message", build_batch(b"", schema_id=1, record_count=1)
    yield "garbage", build_batch(b"\xff" * 64, schema_id=1, record_count=1)
    other = pa.record_batch([["text"]], names=["only"])
    yield "other columns", build_batch(memoryview(other.serialize()), schema_id=1, record_count=1)


@pytest.mark.parametrize(("name", "records"), list(broken_batches()))
async def test_a_broken_batch_is_refused_and_changes_nothing(connection, table_id, name, records):
    before = (await fetch(connection, table_id, 0, 0)).high_watermark

    answer = await appended(connection, table_id, records)

    assert answer.error_code == CORRUPT_RECORD, name
    assert answer.error_message
    assert (await fetch(connection, table_id, 0, 0)).high_watermark == before


async def test_a_good_batch_before_a_broken_one_is_not_kept_either(connection, table_id):
    before = (await fetch(connection, table_id, 0, 0)).high_watermark

    answer = await appended(connection, table_id, GOOD + GOOD[:-1] + b"!")

    assert answer.error_code == CORRUPT_RECORD
    assert (await fetch(connection, table_id, 0, 0)).high_watermark == before


async def text_table(connection, name):
    path = pb.TablePath(database_name="fluss", table_name=name)
    schema = pa.schema([("text", pa.string())])
    await connection.call(
        pb.CreateTableRequest(
            table_path=path, table_json=table_json(schema), ignore_if_exists=True
        ),
        pb.CreateTableResponse,
    )
    info = await connection.call(pb.GetTableInfoRequest(table_path=path), pb.GetTableInfoResponse)
    return info.table_id, schema


async def test_arrow_offsets_out_of_bounds_are_refused(connection):
    table_id, schema = await text_table(connection, "offsets")
    message = bytearray(pa.record_batch([["a", "b", "c"]], schema=schema).serialize())
    where = message.index(struct.pack("<4i", 0, 1, 2, 3))
    message[where : where + 16] = struct.pack("<4i", 0, 1 << 30, 1 << 30, 1 << 30)

    answer = await appended(
        connection, table_id, build_batch(bytes(message), schema_id=1, record_count=3)
    )

    assert answer.error_code == CORRUPT_RECORD


async def test_a_decompression_bomb_is_refused_before_it_goes_off(connection):
    table_id, schema = await text_table(connection, "bombs")
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch([["x" * (300 << 20)]], schema=schema))
    stream = pa.ipc.MessageReader.open_stream(sink.getvalue())
    stream.read_next_message()
    bomb = stream.read_next_message().serialize()

    answer = await appended(
        connection, table_id, build_batch(memoryview(bomb), schema_id=1, record_count=1)
    )

    assert bomb.size < 1 << 20
    assert answer.error_code == TOO_LARGE


async def test_an_unknown_schema_version_is_refused(connection, table_id):
    message = memoryview(pa.record_batch([[1], [2]], schema=SCHEMA).serialize())

    answer = await appended(connection, table_id, build_batch(message, schema_id=7, record_count=1))

    assert answer.error_code == SCHEMA_NOT_EXIST


@pytest.mark.parametrize("bucket", [-1, 1, 2**31 - 1])
async def test_an_unknown_bucket_is_refused(connection, table_id, bucket):
    answer = await appended(connection, table_id, GOOD, bucket=bucket)

    assert answer.error_code == UNKNOWN_BUCKET


async def test_an_unknown_table_is_refused(connection):
    assert (await appended(connection, 10**9, GOOD)).error_code == BucketMissingError.code


async def test_acks_other_than_all_none_and_one_are_refused(connection, table_id):
    with pytest.raises(InvalidAcksError):
        await connection.call(produce(table_id, 0, GOOD, acks=5), pb.ProduceLogResponse)


async def test_a_sequence_out_of_order_is_refused_and_a_resend_is_not_stored_twice(
    connection, table_id
):
    writer = (await connection.call(pb.InitWriterRequest(), pb.InitWriterResponse)).writer_id
    first = batch_of([(9, 9)], writer_id=writer, sequence=0)
    kept = await appended(connection, table_id, first)

    again = await appended(connection, table_id, first)
    jumped = await appended(connection, table_id, batch_of([(9, 9)], writer_id=writer, sequence=2))

    assert (again.error_code, again.base_offset) == (0, kept.base_offset)
    assert jumped.error_code == 31


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "", "a\0b", "x" * 300, "‥"])
async def test_hostile_table_names_are_refused(connection, name):
    path = pb.TablePath(database_name="fluss", table_name=name)
    request = pb.CreateTableRequest(
        table_path=path, table_json=table_json(), ignore_if_exists=False
    )

    with pytest.raises(HeadwaterError) as error:
        await connection.call(request, pb.CreateTableResponse)

    assert error.value.code in (15, InvalidNameError.code)


@pytest.mark.parametrize("offset", [-7, 10**12])
async def test_an_offset_outside_the_log_is_told_by_its_code(connection, table_id, offset):
    answer = await fetch(connection, table_id, 0, offset)

    assert answer.error_code == 19


async def test_requests_without_an_end_wait_in_turn_instead_of_growing(server, table_id):
    connection = await TcpConnection.open("127.0.0.1", server.port)

    answers = await asyncio.gather(
        *(connection.call(produce(table_id, 0, GOOD), pb.ProduceLogResponse) for _ in range(500))
    )

    offsets = sorted(answer.buckets_resp[0].base_offset for answer in answers)
    assert len(set(offsets)) == 500
    await connection.close()
