"""Requests of every API, into the dispatcher of a server that runs in this process."""

import asyncio
import struct
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from google.protobuf.message import DecodeError, Message

from headwater.cluster.cluster import read_descriptor
from headwater.config.server import ServerSettings
from headwater.server.connection import Session
from headwater.server.dispatch import UNEXPECTED
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, APIS, ApiKey
from headwater.wire.frames import RequestFrame, ResponseKind
from tests.fuzz.edits import Edit, edited
from tests.fuzz.json_edits import json_edited
from tests.fuzz.message_edits import message_edited
from tests.fuzz.request_seeds import TABLES, create_requests, seed_requests
from tests.fuzz.target import Target
from tests.fuzz.targets_batches import mended
from tests.fuzz.targets_rows import kv_mended

ANSWER_WITHIN_S = 20
WAIT_MS_MAX = 20
WRITE_MS_MAX = 15_000
_HEAD = struct.Struct(">hB")
_JSON_FIELDS = {"table_json", "database_json", "data_type_json"}
# What these do stays; the next input finds the tables as they were.
_CHANGING = {
    ApiKey.CREATE_DATABASE,
    ApiKey.DROP_DATABASE,
    ApiKey.ALTER_DATABASE,
    ApiKey.CREATE_TABLE,
    ApiKey.DROP_TABLE,
    ApiKey.ALTER_TABLE,
    ApiKey.CREATE_PARTITION,
    ApiKey.DROP_PARTITION,
    ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT,
    ApiKey.LAKE_TIERING_HEARTBEAT,
}
_READING = {
    ApiKey.API_VERSIONS,
    ApiKey.FETCH_LOG,
    ApiKey.GET_METADATA,
    ApiKey.GET_TABLE_INFO,
    ApiKey.LIMIT_SCAN,
    ApiKey.LIST_OFFSETS,
    ApiKey.PREFIX_LOOKUP,
    ApiKey.SCAN_KV,
}
_WAITING = {ApiKey.FETCH_LOG, ApiKey.PRODUCE_LOG, ApiKey.PUT_KV}
_RESTART_AFTER = 2000


class FuzzedServer:
    """Serve tables that are the same for each input, and look at them after each refusal."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._opened = ExitStack()
        self._server: Server | None = None
        self._session = Session("fuzzer", "", 0, _never_full)
        self._served = 0
        self._known: list[bytes] | None = None

    def serve(self, data: bytes) -> None:
        """Answer one input: an API key, a version, and the body of a request."""
        if len(data) < _HEAD.size:
            return
        key, version = _HEAD.unpack_from(data)
        body = _settled(key, data[_HEAD.size :])
        self._runner.run(self._try(RequestFrame(key, version, 1, memoryview(body))))

    def close(self) -> None:
        """Stop the server, and remove what it stored."""
        self._runner.run(self._stop())
        self._runner.close()

    async def _try(self, frame: RequestFrame) -> None:
        if self._server is None or self._served > _RESTART_AFTER:
            await self._start()
        assert self._server is not None
        before = self._known or await self._state()
        async with asyncio.timeout(ANSWER_WITHIN_S):
            kind, parts = await self._server.serve(frame, self._session)
        self._served += 1
        if kind is ResponseKind.ANSWER:
            _check_answer(frame, b"".join(parts))
            self._known = before if frame.api_key in _READING else await self._state()
            if self._known != before and frame.api_key in _CHANGING:
                await self._use_table(frame)
                self._served = _RESTART_AFTER + 1
            return
        error = pb.ErrorResponse.FromString(b"".join(parts))
        assert error.error_code != UNEXPECTED, f"{ApiKey(frame.api_key).name}: the server failed"
        self._known = await self._state()
        assert self._known == before, "a refused request changed something"

    async def _use_table(self, frame: RequestFrame) -> None:
        """Use a table as it was described: what is taken must work."""
        if frame.api_key not in (ApiKey.CREATE_TABLE, ApiKey.ALTER_TABLE):
            return
        path = APIS[frame.api_key].request.FromString(bytes(frame.body)).table_path
        info = pb.GetTableInfoResponse.FromString(
            await self._ask(pb.GetTableInfoRequest(table_path=path))
        )
        read_descriptor(info.table_json)
        table_id = info.table_id
        batch = pb.ProduceLogBucketRequest(bucket_id=0, records=bytes(100))
        for request in (
            pb.MetadataRequest(table_path=[path]),
            pb.ListOffsetsRequest(
                follower_server_id=-1, offset_type=1, table_id=table_id, bucket_id=[0]
            ),
            pb.LimitScanRequest(table_id=table_id, bucket_id=0, limit=5),
            pb.ProduceLogRequest(
                acks=-1, table_id=table_id, timeout_ms=WRITE_MS_MAX, buckets_req=[batch]
            ),
            pb.LookupRequest(
                table_id=table_id, buckets_req=[pb.LookupBucketRequest(bucket_id=0, keys=[b"k"])]
            ),
        ):
            await self._ask(request)

    async def _start(self) -> None:
        await self._stop()
        directory = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="fuzz"))
        settings = ServerSettings(port=0)
        self._server = await Server.start(Path(directory), settings, listens=False)
        self._session = Session("fuzzer", "", 0, _never_full)
        self._served, self._known = 0, None
        for request in create_requests():
            await self._ask(request)

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            self._opened.close()

    async def _state(self) -> list[bytes]:
        """Return what others see of databases, tables and logs."""
        answers = [await self._ask(pb.ListDatabasesRequest())]
        answers.append(await self._ask(pb.ListTablesRequest(database_name="fluss")))
        for number, name in enumerate(TABLES, start=1):
            path = pb.TablePath(database_name="fluss", table_name=name)
            answers.append(await self._ask(pb.GetTableInfoRequest(table_path=path)))
            answers.append(await self._ask(pb.ListPartitionInfosRequest(table_path=path)))
            latest = pb.ListOffsetsRequest(
                follower_server_id=-1, offset_type=1, table_id=number, bucket_id=[0]
            )
            answers.append(await self._ask(latest))
        return answers

    async def _ask(self, request: Message) -> bytes:
        assert self._server is not None
        api = API_OF_REQUEST[type(request)]
        body = memoryview(request.SerializeToString())
        frame = RequestFrame(api.key, api.version_max, 0, body)
        kind, parts = await self._server.serve(frame, self._session)
        answer = api.response if kind is ResponseKind.ANSWER else pb.ErrorResponse
        _check_codes(answer.FromString(b"".join(parts)))
        return b"".join(parts)


async def _never_full() -> None:
    """Wait for nothing."""


def _settled(key: int, body: bytes) -> bytes:
    """Let nothing wait for rows that never come, nor go on after its answer."""
    kind = APIS[key].request if key in _WAITING else None
    try:
        request = None if kind is None else kind.FromString(body)
    except DecodeError:
        return body
    if isinstance(request, pb.FetchLogRequest):
        request.max_wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
    elif isinstance(request, pb.ProduceLogRequest | pb.PutKvRequest):
        # One that gives up on an answer, or wants none, is written all the same.
        request.timeout_ms = WRITE_MS_MAX
        request.acks = -1 if request.acks in (0, 1) else request.acks
    return body if request is None else request.SerializePartialToString()


def _check_answer(frame: RequestFrame, body: bytes) -> None:
    """Check that an answer is one, also for each of its buckets."""
    answer = APIS[frame.api_key].response.FromString(body)
    assert answer.IsInitialized()
    _check_codes(answer)


def _check_codes(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name == "error_code":
            assert value != UNEXPECTED, f"{type(message).__name__}: the server failed"
        elif field.message_type is not None:
            for each in value if hasattr(value, "__len__") else [value]:
                _check_codes(each)


@cache
def fuzzed_server() -> FuzzedServer:
    return FuzzedServer()


def close_server() -> None:
    """Close the server if there is one."""
    if fuzzed_server.cache_info().currsize:
        fuzzed_server().close()
        fuzzed_server.cache_clear()


def serve(data: bytes) -> None:
    fuzzed_server().serve(data)


def requests() -> list[bytes]:
    made = []
    for request in seed_requests():
        api = API_OF_REQUEST[type(request)]
        made.append(_HEAD.pack(api.key, api.version_max) + request.SerializeToString())
    return made


def request_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the fields of a request, and what lies inside them in its own form."""
    key = _HEAD.unpack_from(data)[0] if len(data) >= _HEAD.size else -1
    if key not in APIS:
        return edited(data, edits)
    kind = APIS[key].request
    body = message_edited(kind, data[_HEAD.size :], edits, inner=_inner(key))
    return data[: _HEAD.size] + body


def _inner(key: int):
    def change(name: str, old: bytes, edit: Edit) -> bytes:
        if name in _JSON_FIELDS:
            return json_edited(old, [edit])
        if name != "records":
            return edited(old, [edit])
        if edit[0] % 4 == 0:
            return edited(old, [edit])
        mend = kv_mended if key == ApiKey.PUT_KV else _mended_batch
        return mend(edited(old, [edit]))

    return change


def _mended_batch(batch: bytes) -> bytes:
    return mended(b"\0" + batch)[1:]


TARGETS = (Target("requests", serve, requests, (), request_edited),)
