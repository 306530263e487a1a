"""From a request frame to a handler and back to an answer."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from google.protobuf.message import Message

from headwater import errors
from headwater.metrics.tallies import ANSWERED, UNKNOWN_API
from headwater.model.bucket import TableBucket
from headwater.runtime.events import Events
from headwater.runtime.tasks import in_turns
from headwater.server.connection import Answer, Part, Session
from headwater.server.context import Context, Services
from headwater.server.handlers import acls, cluster, lake, metadata, tables
from headwater.server.handlers.fetch import fetch_log
from headwater.server.handlers.login import authenticate
from headwater.server.handlers.lookup import lookup, lookup_now, prefix_lookup, values_now
from headwater.server.handlers.offsets import get_latest_kv_snapshots, get_table_stats, list_offsets
from headwater.server.handlers.scan import limit_scan, scan_kv
from headwater.server.handlers.write import (
    Told,
    init_writer,
    note_refusal,
    produce_log,
    put_kv,
    write_answer,
    write_later,
    write_now,
)
from headwater.server.permissions.needs import GIVES, NEEDS, Gives, Request
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.frames import RequestFrame, ResponseKind
from headwater.wire.limits import count_items, may_be_too_long
from headwater.wire.lookup import decode_lookup
from headwater.wire.messages import decode_message, texts_of
from headwater.wire.write import ProduceRequest, PutRequest, decode_produce, decode_put

_events = Events("dispatch")
UNEXPECTED = -1
TEXTS_PER_TURN = 2048

Handler = Callable[..., Awaitable[Message | list[Part]]]

_OPEN_TO_ALL = frozenset({ApiKey.API_VERSIONS, ApiKey.AUTHENTICATE})
_HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: metadata.api_versions,
    ApiKey.AUTHENTICATE: authenticate,
    ApiKey.CREATE_DATABASE: tables.create_database,
    ApiKey.DROP_DATABASE: tables.drop_database,
    ApiKey.LIST_DATABASES: tables.list_databases,
    ApiKey.DATABASE_EXISTS: tables.database_exists,
    ApiKey.GET_DATABASE_INFO: tables.get_database_info,
    ApiKey.ALTER_DATABASE: tables.alter_database,
    ApiKey.CREATE_TABLE: tables.create_table,
    ApiKey.DROP_TABLE: tables.drop_table,
    ApiKey.GET_TABLE_INFO: tables.get_table_info,
    ApiKey.LIST_TABLES: tables.list_tables,
    ApiKey.TABLE_EXISTS: tables.table_exists,
    ApiKey.GET_TABLE_SCHEMA: tables.get_table_schema,
    ApiKey.ALTER_TABLE: tables.alter_table,
    ApiKey.CREATE_PARTITION: tables.create_partition,
    ApiKey.DROP_PARTITION: tables.drop_partition,
    ApiKey.LIST_PARTITION_INFOS: tables.list_partition_infos,
    ApiKey.GET_METADATA: metadata.get_metadata,
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
    ApiKey.LAKE_TIERING_HEARTBEAT: lake.lake_tiering_heartbeat,
    ApiKey.GET_KV_SNAPSHOT_METADATA: cluster.get_kv_snapshot_metadata,
    ApiKey.DESCRIBE_CLUSTER_CONFIGS: cluster.describe_cluster_configs,
    ApiKey.ALTER_CLUSTER_CONFIGS: cluster.alter_cluster_configs,
    ApiKey.REGISTER_PRODUCER_OFFSETS: cluster.register_producer_offsets,
    ApiKey.GET_PRODUCER_OFFSETS: cluster.get_producer_offsets,
    ApiKey.DELETE_PRODUCER_OFFSETS: cluster.delete_producer_offsets,
    ApiKey.ACQUIRE_KV_SNAPSHOT_LEASE: cluster.acquire_kv_snapshot_lease,
    ApiKey.RELEASE_KV_SNAPSHOT_LEASE: cluster.release_kv_snapshot_lease,
    ApiKey.DROP_KV_SNAPSHOT_LEASE: cluster.drop_kv_snapshot_lease,
    ApiKey.GET_CLUSTER_HEALTH: cluster.get_cluster_health,
    ApiKey.LIST_REMOTE_LOG_MANIFESTS: cluster.list_remote_log_manifests,
    ApiKey.LIST_KV_SNAPSHOTS: cluster.list_kv_snapshots,
    ApiKey.CREATE_ACLS: acls.create_acls,
    ApiKey.LIST_ACLS: acls.list_acls,
    ApiKey.DROP_ACLS: acls.drop_acls,
}
# Requests that are mostly data are read by hand.
_DECODERS: dict[ApiKey, Callable[[memoryview], Request]] = {
    ApiKey.PRODUCE_LOG: decode_produce,
    ApiKey.PUT_KV: decode_put,
    ApiKey.LOOKUP: decode_lookup,
    ApiKey.PREFIX_LOOKUP: partial(decode_lookup, api="PREFIX_LOOKUP"),
}


_WRITES: dict[int, Callable[[memoryview], ProduceRequest | PutRequest]] = {
    ApiKey.PRODUCE_LOG: decode_produce,
    ApiKey.PUT_KV: decode_put,
}
# How a request to write begins whose sender does not wait for the disk: field 1 is 0 or 1.
_UNSYNCED = (b"\x08\x00", b"\x08\x01")


def _is_unsynced(body: memoryview) -> bool:
    return bytes(body[:2]) in _UNSYNCED


class Dispatcher:
    """Find the handler of a request, run it, and turn what comes back into an answer."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock = services.clock
        self._authorizer = services.authorizer
        self._trail = services.trail
        self._tally = services.tallies.requests

    async def serve(self, frame: RequestFrame, session: Session) -> Answer:
        """Answer one request; nothing that a client sends gets past this point as an exception."""
        began = self._clock.monotonic()
        if frame.api_key in _WRITES:
            code, answer = await self._served_first(frame, session)
        else:
            code, answer = await self._served(frame, session)
        api = frame.api_key if frame.api_key in APIS else UNKNOWN_API
        self._tally.took(api, self._clock.monotonic() - began)
        if code:
            self._tally.refused(api, code)
        return answer

    def serve_now(self, frame: RequestFrame, session: Session) -> Answer | None:
        """Answer a request that takes no waiting; None, and nothing was done, for all others.

        What is refused is left to `serve` as well, so that there is one place for that.
        """
        if frame.is_large or (self._trail is not None and self._trail.covers_rows):
            return None
        if frame.api_key in _WRITES:
            return self._written_now(frame, session) if _is_unsynced(frame.body) else None
        if frame.api_key != ApiKey.LOOKUP:
            return None
        began = self._clock.monotonic()
        try:
            self._check_access(_api_of(frame), session)
            may_read = None
            if self._authorizer is not None:
                may_read = partial(self._authorizer.may_read_whole, session)
            parts = lookup_now(frame.body, self._services.tablets, may_read)
        except Exception:  # noqa: BLE001 - `serve` meets it again, and says what it is
            return None
        if parts is None:
            return None
        self._tally.took(ApiKey.LOOKUP, self._clock.monotonic() - began)
        return ResponseKind.ANSWER, parts

    def _written_now(self, frame: RequestFrame, session: Session) -> Answer | None:
        """Write one small batch whose sender does not wait for the disk."""
        began, context = self._clock.monotonic(), Context(self._services, session)
        try:
            api = _api_of(frame)
            self._check_access(api, session)
            request = None
            if not may_be_too_long(api.key, frame.body):
                request = _WRITES[api.key](frame.body)
            if request is not None and self._authorizer is not None:
                self._authorizer.check(api.key, request, session)
        except errors.HeadwaterError:
            return None  # `serve` meets it again, and says what it is.
        told: list[tuple[int, errors.HeadwaterError | None]] = []
        try:
            if request is None or not write_now(request, context, lambda *each: told.append(each)):
                return None
            answer = write_answer(request, *told[0], context).SerializeToString()
        except Exception as cause:  # noqa: BLE001 - the outer edge of a request
            fault = _unexpected(cause, session)
            self._tally.refused(api.key, UNEXPECTED)
            return ResponseKind.ERROR, [_error(UNEXPECTED, fault.message)]
        self._tally.took(api.key, self._clock.monotonic() - began)
        return ResponseKind.ANSWER, [answer]

    def lookup_now(self, bucket: TableBucket, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """Return the values of a few keys if that takes no waiting; from any thread.

        Only the process of the storage itself asks here, and it may read everything.
        """
        if self._services.is_stopping:
            return None
        began = self._clock.monotonic()
        values = values_now(bucket, keys, self._services.tablets)
        if values is not None:
            self._tally.took(ApiKey.LOOKUP, self._clock.monotonic() - began)
        return values

    async def _served_first(self, frame: RequestFrame, session: Session) -> tuple[int, Answer]:
        """Answer a write before the crowd of readers that it wakes."""
        turns = self._services.turns
        turns.hold()
        try:
            return await self._served(frame, session)
        finally:
            turns.release()

    async def _served(self, frame: RequestFrame, session: Session) -> tuple[int, Answer]:
        try:
            api = _api_of(frame)
            self._check_access(api, session)
            if session.meter is not None:
                session.is_over = session.meter.is_over
                session.meter.check()
            if frame.is_large:
                self._services.answers.memory.check()
            if api.key is ApiKey.FETCH_LOG:
                await self._services.turns.turn(session)
            request = await _decode(api, frame.body)
            if self._authorizer is None and self._trail is None:
                answer = await _HANDLERS[api.key](request, Context(self._services, session))
            else:
                answer = await self._allowed(api.key, request, session)
            parts: list[Part] = answer if isinstance(answer, list) else [answer.SerializeToString()]
        except errors.HeadwaterError as fault:
            self._tell_refusal(frame, session, fault)
            return fault.code, (ResponseKind.ERROR, [_error(fault.code, str(fault))])
        except Exception as cause:  # noqa: BLE001 - the outer edge of a request
            _events.error("request failed", cause=cause, api=frame.api_key, peer=session.peer)
            failure = _error(UNEXPECTED, "The server failed; its log says why.")
            return UNEXPECTED, (ResponseKind.ERROR, [failure])
        return ANSWERED, (ResponseKind.ANSWER, parts)

    async def _allowed(
        self, api: ApiKey, request: Request, session: Session
    ) -> Message | list[Part]:
        """Answer a request, and record it where the audit trail asks for that."""
        trail = self._trail
        is_noted = trail is not None and trail.covers(api, session)
        if trail is None or not is_noted:
            return await self._checked(api, request, session)
        is_login = api is ApiKey.AUTHENTICATE
        try:
            if trail.is_required and not is_login:
                if self._authorizer is not None:
                    self._authorizer.check(api, request, session)
                trail.note(api, request, session, allowed=True)
                await trail.require()
            answer = await self._checked(api, request, session)
        except errors.HeadwaterError as fault:
            denied = isinstance(fault, errors.AccessError)
            trail.note(api, request, session, allowed=not denied, detail=str(fault))
            raise
        # A login of several steps is recorded with its last one.
        if session.principal is not None if is_login else not trail.is_required:
            trail.note(api, request, session, allowed=True)
        return answer

    async def _checked(
        self, api: ApiKey, request: Request, session: Session
    ) -> Message | list[Part]:
        """Answer a request if that is allowed, and if it still is when there is something to see.

        A write that has happened is not denied afterwards.
        """
        authorizer, context = self._authorizer, Context(self._services, session)
        if authorizer is None:
            return await _HANDLERS[api](request, context)
        authorizer.check(api, request, session)
        while True:
            version = authorizer.version
            answer = await _HANDLERS[api](request, context)
            if authorizer.version == version or not NEEDS[api].is_read:
                return answer
            authorizer.check(api, request, session)
            # What was read under other rules is read again; fetches and scans see to it themselves.
            if GIVES[api] is not Gives.ROWS or NEEDS[api].targets is None:
                return answer

    def write_now(self, request: ProduceRequest | PutRequest, session: Session, told: Told) -> bool:
        """Write one small batch without a task; False if it has to wait, and nothing was done."""
        began, context = self._clock.monotonic(), Context(self._services, session)
        api = ApiKey.PRODUCE_LOG if isinstance(request, ProduceRequest) else ApiKey.PUT_KV

        def counted(offset: int, fault: errors.HeadwaterError | None) -> None:
            self._tally.took(api, self._clock.monotonic() - began)
            if fault is not None:
                note_refusal(request, fault, context)
            told(offset, fault)

        try:
            if self._authorizer is not None:
                self._authorizer.check(api, request, session)
            return write_now(request, context, counted)
        except errors.HeadwaterError as fault:
            counted(-1, fault)
            return True
        except Exception as cause:  # noqa: BLE001 - the outer edge of a request
            told(-1, _unexpected(cause, session))
            return True

    async def write(
        self, request: ProduceRequest | PutRequest, session: Session
    ) -> tuple[int, errors.HeadwaterError | None]:
        """Write one batch that has to wait for something; return what `write_now` would tell.

        Only after `write_now`, which has checked that the session may write.
        """
        try:
            return await write_later(request, Context(self._services, session))
        except errors.HeadwaterError as fault:
            return -1, fault
        except Exception as cause:  # noqa: BLE001 - the outer edge of a request
            return -1, _unexpected(cause, session)

    def _tell_refusal(
        self, frame: RequestFrame, session: Session, fault: errors.HeadwaterError
    ) -> None:
        if frame.api_key == ApiKey.AUTHENTICATE:
            return  # failed logins have events of their own
        known = frame.api_key in APIS
        kind = (frame.api_key if known else UNKNOWN_API, fault.code)
        if (left_out := self._services.refusals.turn(kind)) is not None:
            api = ApiKey(frame.api_key).name if known else str(frame.api_key)
            tell = _events.warning if isinstance(fault, errors.AccessError) else _events.info
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
            raise errors.AuthenticationError(
                "This server asks for a user name and a password.",
                hint="Set the client's security protocol to SASL with mechanism PLAIN.",
            )


def _api_of(frame: RequestFrame) -> Api:
    api = APIS.get(frame.api_key)
    if api is None:
        raise errors.UnsupportedError(f"API {frame.api_key} is not served.")
    if not 0 <= frame.api_version <= api.version_max:
        raise errors.UnsupportedError(
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
            raise errors.CorruptBatchError(f"The body of {api.key.name} contains invalid UTF-8.")
    return request


def _unexpected(cause: Exception, session: Session) -> errors.HeadwaterError:
    _events.error("write failed", cause=cause, peer=session.peer)
    return errors.error_of_code(UNEXPECTED, "The server failed; its log says why.")


def _error(code: int, message: str) -> bytes:
    # A message may quote what a client sent, and must not fail at that.
    text = message.encode(errors="replace").decode()
    return pb.ErrorResponse(error_code=code, error_message=text).SerializeToString()
