"""Heartbeats of tierers: tables they keep, give back, and ask for."""

from collections.abc import Callable
from functools import partial

from headwater.errors import HeadwaterError
from headwater.runtime.turns import in_turns
from headwater.server.context import Context
from headwater.server.handlers.paths import table_path
from headwater.server.lake.rounds import Rounds, Turn
from headwater.server.lake.states import TableTiering, Wish, due_in_ms, state_name
from headwater.wire import fluss_pb2 as pb

_NO_REASON = "The tierer gave no reason."


async def lake_tiering_heartbeat(
    request: pb.LakeTieringHeartbeatRequest, context: Context
) -> pb.LakeTieringHeartbeatResponse:
    """Take tables back, keep those that are worked on, and hand one out if asked to."""
    rounds, forced = context.lake.rounds, frozenset(request.force_finished_tables)
    answer = pb.LakeTieringHeartbeatResponse(
        coordinator_epoch=rounds.coordinator_epoch,
        storage_id=context.catalog.storage_id,
        now_ms=context.catalog.time.now_ms(),
        failed_table_resp=[
            _told(each, partial(rounds.fail, failure=each.failure or _NO_REASON))
            async for each in in_turns(request.failed_tables)
        ],
        tiering_table_resp=[
            _told(each, rounds.renew) async for each in in_turns(request.tiering_tables)
        ],
        finished_table_resp=[
            _told(each, partial(_finish, rounds, each, forced))
            async for each in in_turns(request.finished_tables)
        ],
    )
    if request.request_table:
        wish = Wish(
            only=frozenset(map(table_path, request.only_tables)),
            ignores_freshness=request.ignore_freshness,
        )
        given = rounds.hand_out(wish, context.lake.untiered().__getitem__)
        if given is not None:
            answer.tiering_table.CopyFrom(_assignment(given))
    if request.list_states:
        async for table in in_turns(rounds.tables()):
            answer.states.append(_state(table, context))
    return answer


def _told(table: pb.HeartbeatReqForTable, step: Callable[[Turn], None]) -> pb.HeartbeatRespForTable:
    """Take one step for a table; a stale tierer of one table must not spoil the others."""
    answer = pb.HeartbeatRespForTable(table_id=table.table_id)
    try:
        step(Turn(table.table_id, table.coordinator_epoch, table.tiering_epoch))
    except HeadwaterError as fault:
        answer.error.CopyFrom(pb.ErrorResponse(error_code=fault.code, error_message=str(fault)))
    return answer


def _finish(
    rounds: Rounds, table: pb.HeartbeatReqForTable, forced: frozenset[int], turn: Turn
) -> None:
    stats = table.lake_tiering_stats
    rounds.finish(
        turn,
        is_forced=turn.table_id in forced,
        file_size=stats.file_size if stats.HasField("file_size") else None,
        record_count=stats.record_count if stats.HasField("record_count") else None,
    )


def _assignment(table: TableTiering) -> pb.LakeTieringTableInfo:
    return pb.LakeTieringTableInfo(
        table_id=table.table_id,
        table_path=_path(table),
        tiering_epoch=table.record.turn,
        unsettled_epoch=table.unsettled,
    )


def _state(table: TableTiering, context: Context) -> pb.LakeTieringState:
    now_ms, record = context.lake.rounds.now_ms, table.record
    snapshot = context.catalog.lake.latest(table.table_id)
    return pb.LakeTieringState(
        table_path=_path(table),
        table_id=table.table_id,
        state=state_name(table, now_ms=now_ms),
        tiering_epoch=record.turn,
        freshness_ms=table.freshness_ms,
        due_in_ms=due_in_ms(table, now_ms=now_ms),
        last_tiered_ms=record.last_tiered_ms,
        last_duration_ms=record.last_duration_ms,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        failures=record.failures,
        last_failure=record.last_failure,
        file_size=record.file_size,
        record_count=record.record_count,
    )


def _path(table: TableTiering) -> pb.TablePath:
    return pb.TablePath(database_name=table.path.database, table_name=table.path.table)
