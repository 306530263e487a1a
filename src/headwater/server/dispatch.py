"""From a request frame to a handler and back to an answer."""

from collections.abc import Awaitable, Callable
from functools import partial

from google.protobuf.message import Message

from headwater.errors import (
    AccessError,
    AuthenticationError,
    CorruptBatchError,
    HeadwaterError,
    UnsupportedError,
)
from headwater.metrics.tallies import ANSWERED, UNKNOWN_API
from headwater.runtime.events import Events
from headwater.runtime.turns import in_turns
from headwater.server.connection import Answer, Part
from headwater.server.context import Context, Services
from headwater.server.handlers import access, databases, lake, partitions, tables, tiering
from headwater.server.handlers.fetch import fetch_log
from headwater.server.handlers.kv_snapshots import get_latest_kv_snapshots
from headwater.server.handlers.limit_scan import limit_scan
from headwater.server.handlers.lookup import lookup, prefix_lookup
from headwater.server.handlers.metadata import get_metadata
from headwater.server.handlers.offsets import get_table_stats, list_offsets
from headwater.server.handlers.produce import init_writer, produce_log
from headwater.server.handlers.put import put_kv
from headwater.server.handlers.scan_kv import scan_kv
from headwater.server.session import Session
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.frames import RequestFrame, ResponseKind
from headwater.wire.limits import count_items, may_be_too_long
from headwater.wire.lookup import LookupRequest, decode_lookup
from headwater.wire.messages import decode_message
from headwater.wire.produce import ProduceRequest, decode_produce
from headwater.wire.put import PutRequest, decode_put
from headwater.wire.texts import texts_of

_events = Events("dispatch")
UNEXPECTED = -1
TEXTS_PER_TURN = 2048

Handler = Callable[..., Awaitable[Message | list[Part]]]
Request = Message | ProduceRequest | PutRequest | LookupRequest

_OPEN_TO_ALL = frozenset({ApiKey.API_VERSIONS, ApiKey.AUTHENTICATE})
_HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: access.api_versions,
    ApiKey.AUTHENTICATE: access.authenticate,
    ApiKey.CREATE_DATABASE: databases.create_database,
    ApiKey.DROP_DATABASE: databases.drop_database,
    ApiKey.LIST_DATABASES: databases.list_databases,
    ApiKey.DATABASE_EXISTS: databases.database_exists,
    ApiKey.GET_DATABASE_INFO: databases.get_database_info,
    ApiKey.ALTER_DATABASE: databases.alter_database,
    ApiKey.CREATE_TABLE: tables.create_table,
    ApiKey.DROP_TABLE: tables.drop_table,
    ApiKey.GET_TABLE_INFO: tables.get_table_info,
    ApiKey.LIST_TABLES: tables.list_tables,
    ApiKey.TABLE_EXISTS: tables.table_exists,
    ApiKey.GET_TABLE_SCHEMA: tables.get_table_schema,
    ApiKey.ALTER_TABLE: tables.alter_table,
    ApiKey.CREATE_PARTITION: partitions.create_partition,
    ApiKey.DROP_PARTITION: partitions.drop_partition,
    ApiKey.LIST_PARTITION_INFOS: partitions.list_partition_infos,
    ApiKey.GET_METADATA: get_metadata,
    ApiKey.INIT_WRITER: init_writer,
    ApiKey.PRODUCE_LOG: produce_log,
    ApiKey.FETCH_LOG: fetch_log,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.GET_TABLE_STATS: get_table_stats,
    ApiKey.LIMIT_SCAN: limit_scan,
    ApiKey.PUT_KV: put_kv,
    ApiKey.LOOKUP: lookup,
    ApiKey.PREFIX_LOOKUP: prefix_lookup,
    ApiKey.SCAN_KV: scan_kv,
    ApiKey.GET_LATEST_KV_SNAPSHOTS: get_latest_kv_snapshots,
    ApiKey.GET_FILESYSTEM_SECURITY_TOKEN: lake.get_file_system_security_token,
    ApiKey.GET_LAKE_SNAPSHOT: lake.get_lake_snapshot,
    ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT: lake.prepare_lake_table_snapshot,
    ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT: lake.commit_lake_table_snapshot,
    ApiKey.LAKE_TIERING_HEARTBEAT: tiering.lake_tiering_heartbeat,
}
# Requests that are mostly data are read by hand.
_DECODERS: dict[ApiKey, Callable[[memoryview], Request]] = {
    ApiKey.PRODUCE_LOG: decode_produce,
    ApiKey.PUT_KV: decode_put,
    ApiKey.LOOKUP: decode_lookup,
    ApiKey.PREFIX_LOOKUP: partial(decode_lookup, api="PREFIX_LOOKUP"),
}


class Dispatcher:
    """Find the handler of a request, run it, and turn what comes back into an answer."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock = services.clock
        self._tally = services.tallies.requests

    async def serve(self, frame: RequestFrame, session: Session) -> Answer:
        """Answer one request; nothing that a client sends gets past this point as an exception."""
        began = self._clock.monotonic()
        code, answer = await self._served(frame, session)
        api = frame.api_key if frame.api_key in APIS else UNKNOWN_API
        self._tally.durations[api].add(self._clock.monotonic() - began)
        if code:
            self._tally.refused(api, code)
        return answer

    async def _served(self, frame: RequestFrame, session: Session) -> tuple[int, Answer]:
        try:
            api = _api_of(frame)
            self._check_access(api, session)
            if frame.is_large:
                self._services.answers.memory.check()
            if api.key is ApiKey.FETCH_LOG:
                await self._services.turns.turn(session)
            request = await _decode(api, frame.body)
            answer = await _HANDLERS[api.key](request, Context(self._services, session))
            parts: list[Part] = answer if isinstance(answer, list) else [answer.SerializeToString()]
        except HeadwaterError as fault:
            self._tell_refusal(frame, session, fault)
            return fault.code, (ResponseKind.ERROR, [_error(fault.code, str(fault))])
        except Exception as cause:  # noqa: BLE001 - the outer edge of a request
            _events.error("request failed", cause=cause, api=frame.api_key, peer=session.peer)
            failure = _error(UNEXPECTED, "The server failed; its log says why.")
            return UNEXPECTED, (ResponseKind.ERROR, [failure])
        return ANSWERED, (ResponseKind.ANSWER, parts)

    def _tell_refusal(self, frame: RequestFrame, session: Session, fault: HeadwaterError) -> None:
        if frame.api_key == ApiKey.AUTHENTICATE:
            return  # failed logins have events of their own
        known = frame.api_key in APIS
        kind = (frame.api_key if known else UNKNOWN_API, fault.code)
        if (left_out := self._services.refusals.turn(kind)) is not None:
            api = ApiKey(frame.api_key).name if known else str(frame.api_key)
            tell = _events.warning if isinstance(fault, AccessError) else _events.info
            tell(
                "refused",
                api=api,
                code=fault.code,
                peer=session.peer,
                reason=str(fault),
                **left_out,
            )

    def _check_access(self, api: Api, session: Session) -> None:
        if self._services.logins is None or api.key in _OPEN_TO_ALL:
            return
        if session.principal is None:
            raise AuthenticationError(
                "This server asks for a user name and a password.",
                hint="Set the client's security protocol to SASL with mechanism PLAIN.",
            )


def _api_of(frame: RequestFrame) -> Api:
    api = APIS.get(frame.api_key)
    if api is None:
        raise UnsupportedError(f"API {frame.api_key} is not served.")
    if not 0 <= frame.api_version <= api.version_max:
        raise UnsupportedError(
            f"{api.key.name} is served in versions 0 to {api.version_max}, not {frame.api_version}."
        )
    return api


async def _decode(api: Api, body: memoryview) -> Request:
    """Read a request; one that is large enough to be over a limit is counted first."""
    if may_be_too_long(api.key, body):
        async for _ in in_turns(count_items(api.key, body), per_turn=1):
            pass
    if decode := _DECODERS.get(api.key):
        return decode(body)
    request = decode_message(api.request, bytes(body), api=api.key.name)
    async for text in in_turns(texts_of(request), per_turn=TEXTS_PER_TURN):
        if not isinstance(text, str):
            raise CorruptBatchError(f"The body of {api.key.name} contains invalid UTF-8.")
    return request


def _error(code: int, message: str) -> bytes:
    # A message may quote what a client sent, and must not fail at that.
    text = message.encode(errors="replace").decode()
    return pb.ErrorResponse(error_code=code, error_message=text).SerializeToString()
