"""The lake behind a table: heartbeats and reports of tiering services, and requests of readers."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from headwater import errors
from headwater.config.table_options import LakeOptions
from headwater.model.acl import Operation, Resource
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.runtime.tasks import in_turns
from headwater.server import tiering
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot, TieredOffsets
from headwater.server.context import Context, table_path
from headwater.server.lake import Standing, check_said
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey

# Checks of reported offsets: retention deletes rows based on them.


def live_ends(
    info: TableInfo, ends: Mapping[LakeBucket, int], context: Context
) -> dict[LakeBucket, int]:
    """Drop the ends of partitions that were dropped in the meantime."""
    live: set[int | None] = {None}
    if info.descriptor.is_partitioned:
        live = {each.partition_id for each in context.catalog.partitions.list(info.path)}
    return {bucket: end for bucket, end in ends.items() if bucket.partition_id in live}


async def check_ends(info: TableInfo, ends: Mapping[LakeBucket, int], context: Context) -> None:
    """Reject ends that no lake can have, since the log never had so many durable rows."""
    known = context.catalog.lake.ends(info.table_id)
    for bucket in ends:
        if not 0 <= bucket.bucket < (info.descriptor.bucket_count or 1):
            raise errors.RequestError(f"{info.path} has no bucket {bucket.bucket}.")
    async for bucket, end in in_turns(live_ends(info, ends, context).items()):
        if end < 0:
            raise errors.RequestError(f"{_named(bucket, info)} cannot end at offset {end}.")
        # What was trusted before stays as it is: a log that was restored since does not invalidate
        # reports about other buckets. A bucket without rows need not be opened either.
        if end in (0, known.get(bucket)):
            continue
        log_end = await _log_end(info, bucket, context)
        if log_end is not None and end > log_end:
            raise errors.RequestError(
                f"{_named(bucket, info)} is reported to be tiered up to offset {end}, but its "
                f"log ends at {log_end}.",
                hint="The lake belongs to another table, or the log was restored from an older "
                "copy: move the lake table away, or drop it.",
            )


async def _log_end(info: TableInfo, bucket: LakeBucket, context: Context) -> int | None:
    """Return the offset before which rows are durable; None if the bucket was dropped."""
    place = TableBucket(info.table_id, bucket.bucket, bucket.partition_id)
    try:
        return (await context.tablets.tablet(place)).high_watermark
    except (errors.BucketMissingError, errors.PartitionMissingError):
        return None  # Dropped since the list was made.


def _named(bucket: LakeBucket, info: TableInfo) -> str:
    partition = "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
    return f"Bucket {bucket.bucket}{partition} of {info.path}"


# Requests.

OFFSETS_PER_TURN = 4096
_NO_FILES = "it is not tiered by them"


async def get_file_system_security_token(
    _: pb.GetFileSystemSecurityTokenRequest, context: Context
) -> pb.GetFileSystemSecurityTokenResponse:
    """Return no token: clients read files through the server."""
    authorizer = context.services.authorizer
    if authorizer is not None and not authorizer.may_anywhere(context.session, Operation.READ):
        raise errors.AccessError(
            "A token for files needs READ on something, and on all rows and columns of it.",
            hint="Ask an operator to grant READ on the tables that you read.",
        )
    return pb.GetFileSystemSecurityTokenResponse(schema="file", token=b"")


# ---- requests of readers


async def get_lake_snapshot(
    request: pb.GetLakeSnapshotRequest, context: Context
) -> pb.GetLakeSnapshotResponse:
    """Return how far a snapshot of the lake goes: the newest, one by its id, or a readable one."""
    if request.readable and request.HasField("snapshot_id"):
        raise errors.RequestError("Ask for a snapshot by its id or for a readable one, not both.")
    table = context.catalog.tables.info(table_path(request.table_path))
    snapshot, offsets = _asked_for(request, table, context)
    return pb.GetLakeSnapshotResponse(
        table_id=table.table_id,
        snapshot_id=snapshot.snapshot_id,
        bucket_snapshots=[
            pb.LakeSnapshotBucket(
                partition_id=bucket.partition_id, bucket_id=bucket.bucket, log_offset=end
            )
            for bucket, end in sorted(offsets.ends.items())
        ],
    )


def _asked_for(
    request: pb.GetLakeSnapshotRequest, table: TableInfo, context: Context
) -> tuple[ReportedLakeSnapshot, TieredOffsets]:
    known = context.catalog.lake.snapshots(table.table_id)
    if not known and not LakeOptions.of(table.descriptor.properties).enabled:
        raise errors.LakeMissingError(f"No lake is configured for {table.path}.")
    if request.HasField("snapshot_id"):
        found = context.catalog.lake.find(table.table_id, request.snapshot_id)
        return found, found.tiered
    for each in reversed(known):
        if not request.readable:
            return each, each.tiered
        if each.readable is not None:
            return each, each.readable
    raise errors.LakeSnapshotMissingError(f"{table.path} has not been tiered yet.")


# ---- reports of tiering services


async def prepare_lake_table_snapshot(
    request: pb.PrepareLakeTableSnapshotRequest, context: Context
) -> pb.PrepareLakeTableSnapshotResponse:
    """Write how far tables will be tiered to files, merged into what is known."""
    answers = [
        await _prepared(each, context, replaces=request.ignore_previous_table_offsets)
        async for each in in_turns(request.bucket_offsets)
    ]
    return pb.PrepareLakeTableSnapshotResponse(prepare_lake_table_resp=answers)


async def _prepared(
    table: pb.TableOffsets, context: Context, *, replaces: bool
) -> pb.PreparedLakeTable:
    try:
        resource = Resource.table(table_path(table.table_path))
        context.require(Operation.WRITE, resource)
        context.require_whole(resource, what=_NO_FILES)
        info = _existing(table, context)
        given = {
            LakeBucket(
                each.partition_id if each.HasField("partition_id") else None, each.bucket_id
            ): each.log_end_offset
            async for each in in_turns(table.bucket_offsets, per_turn=OFFSETS_PER_TURN)
            if each.HasField("log_end_offset")
        }
        await check_ends(info, given, context)
        await _check_lineage(table, context)
        ends = _merged(info, given, context, replaces=replaces)
        offsets = TieredOffsets(table_id=info.table_id, ends=ends, replaces=replaces)
        path = await asyncio.to_thread(context.lake.files.write, offsets)
        return pb.PreparedLakeTable(table_id=table.table_id, lake_table_offsets_path=path)
    except errors.HeadwaterError as fault:
        context.bucket_refused(ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT, fault.code, str(fault))
        return pb.PreparedLakeTable(
            table_id=table.table_id, error_code=fault.code, error_message=str(fault)
        )


async def _check_lineage(table: pb.TableOffsets, context: Context) -> None:
    """Reject ends that were tiered from another log than the current one."""
    for each in table.bucket_offsets:
        if each.HasField("incarnation"):
            partition_id = each.partition_id if each.HasField("partition_id") else None
            bucket = TableBucket(table.table_id, each.bucket_id, partition_id)
            # A partition that was dropped in the meantime has no log to compare with.
            with suppress(errors.MissingError):
                tablet = await context.tablets.tablet(bucket)
                tablet.check_same(each.log_end_offset, each.incarnation)


def _existing(table: pb.TableOffsets, context: Context) -> TableInfo:
    info = context.catalog.tables.info(table_path(table.table_path))
    if info.table_id != table.table_id:
        raise errors.TableMissingError(
            f"{info.path} was dropped and created again: its id is {info.table_id}, not "
            f"{table.table_id}."
        )
    return info


def _merged(
    info: TableInfo, given: Mapping[LakeBucket, int], context: Context, *, replaces: bool
) -> dict[LakeBucket, int]:
    """Merge ends into the known ones, without partitions that were dropped in the meantime."""
    latest = context.catalog.lake.latest(info.table_id)
    # Never build on what the lake was seen not to have.
    is_absent = latest is not None and latest.standing == Standing.ABSENT
    known = context.catalog.lake.held_ends if is_absent else context.catalog.lake.ends
    before = {} if replaces else known(info.table_id)
    return live_ends(info, {**before, **given}, context)


async def commit_lake_table_snapshot(
    request: pb.CommitLakeTableSnapshotRequest, context: Context
) -> pb.CommitLakeTableSnapshotResponse:
    """Record snapshots that were committed to the lake."""
    # The request itself may have offsets too, which say the same.
    answers = [
        await _committed(each, context)
        async for each in in_turns(request.lake_table_snapshot_metadata)
    ]
    if not answers and request.tables_req:
        raise errors.RequestError(
            "Offsets must be reported in files.",
            hint="Use the tiering service of Fluss 0.9 or newer.",
        )
    return pb.CommitLakeTableSnapshotResponse(table_resp=answers)


async def _committed(told: pb.LakeTableSnapshotMetadata, context: Context) -> pb.CommittedLakeTable:
    try:
        context.require(Operation.WRITE, told.table_id)
        context.require_whole(told.table_id, what=_NO_FILES)
        snapshot = await asyncio.to_thread(_snapshot, told, context)
        info = context.catalog.tables.by_id(told.table_id)
        for offsets in (snapshot.tiered, snapshot.readable or snapshot.tiered):
            await check_ends(info, offsets.ends, context)
        context.catalog.lake.commit(
            await _looked_for(snapshot, info, context),
            earliest_kept=told.earliest_snapshot_id_to_keep
            if told.HasField("earliest_snapshot_id_to_keep")
            else None,
        )
        return pb.CommittedLakeTable(table_id=told.table_id)
    except errors.HeadwaterError as fault:
        context.bucket_refused(ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT, fault.code, str(fault))
        return pb.CommittedLakeTable(
            table_id=told.table_id, error_code=fault.code, error_message=str(fault)
        )


async def _looked_for(
    told: ReportedLakeSnapshot, info: TableInfo, context: Context
) -> ReportedLakeSnapshot:
    """Return the trusted part of a report: all of it if the lake's own snapshot says the same.

    Otherwise the lake is only known to have what it was known to have before.
    """
    checks, catalog = context.lake.checks, context.catalog.lake
    principal = context.session.principal
    if checks.trusts(None if principal is None else str(principal)):
        return told
    look = await checks.look(info, told.snapshot_id)
    if look.standing is Standing.CHECKED:
        # The log has no rows to lose of partitions that were dropped since.
        for offsets in (told.tiered, told.readable or told.tiered):
            live = live_ends(info, offsets.ends, context)
            check_said(live, look.ends, snapshot_id=told.snapshot_id)
        return told
    known = catalog.held_ends(info.table_id)
    believed = {
        bucket: min(end, known[bucket])
        for bucket, end in told.tiered.ends.items()
        if bucket in known
    }
    return replace(told, standing=look.standing, believed=believed)


def _snapshot(told: pb.LakeTableSnapshotMetadata, context: Context) -> ReportedLakeSnapshot:
    tiered_path = told.tiered_bucket_offsets_file_path
    readable_path = told.readable_bucket_offsets_file_path or None
    files = context.lake.files
    tiered = files.read(tiered_path, table_id=told.table_id)
    readable = tiered if readable_path == tiered_path else None
    if readable_path is not None and readable is None:
        readable = files.read(readable_path, table_id=told.table_id)
    return ReportedLakeSnapshot(
        table_id=told.table_id,
        snapshot_id=told.snapshot_id,
        committed_ms=context.services.clock.now_ms(),
        tiered=tiered,
        tiered_path=tiered_path,
        readable=readable,
        readable_path=readable_path,
    )


# Heartbeats of tiering services: tables they keep, give back, and ask for.

_NO_REASON = "The tiering service gave no reason."


async def lake_tiering_heartbeat(
    request: pb.LakeTieringHeartbeatRequest, context: Context
) -> pb.LakeTieringHeartbeatResponse:
    """Take tables back, renew those in progress, and hand one out if asked to."""
    rounds, forced = context.lake.rounds, frozenset(request.force_finished_tables)
    answer = pb.LakeTieringHeartbeatResponse(
        coordinator_epoch=rounds.coordinator_epoch,
        storage_id=context.catalog.storage_id,
        now_ms=context.catalog.time.now_ms(),
        failed_table_resp=[
            _told(each, partial(rounds.fail, failure=each.failure or _NO_REASON), context)
            async for each in in_turns(request.failed_tables)
        ],
        tiering_table_resp=[
            _told(each, rounds.renew, context) async for each in in_turns(request.tiering_tables)
        ],
        finished_table_resp=[
            _told(each, partial(_finish, rounds, each, forced), context)
            async for each in in_turns(request.finished_tables)
        ],
    )
    if request.request_table:
        wish = _wish(request, context)
        given = None
        if wish is not None:
            given = rounds.hand_out(wish, context.lake.untiered().__getitem__)
        if given is not None:
            answer.tiering_table.CopyFrom(_assignment(given))
    if request.list_states:
        async for table in in_turns(rounds.tables()):
            if not context.may(Operation.DESCRIBE, table.table_id):
                continue
            if context.is_restricted(table.table_id):
                continue  # What failed may name files.
            answer.states.append(_state(table, context))
    return answer


def _wish(
    request: pb.LakeTieringHeartbeatRequest, context: Context
) -> tiering.TieringRequest | None:
    """Return which tables a service may be given; None if there are none that it may tier."""
    only = frozenset(map(table_path, request.only_tables))
    if context.services.authorizer is not None and not context.session.is_internal:
        wanted = only or {info.path for info in context.catalog.tables.all()}
        only = frozenset(path for path in wanted if _may_tier(path, context))
        if not only:
            return None
    return tiering.TieringRequest(only=only, ignores_freshness=request.ignore_freshness)


def _may_tier(path: TablePath, context: Context) -> bool:
    resource = Resource.table(path)
    # Rows that a tierer does not see would be missing in the lake.
    may_read = context.may(Operation.READ, resource) and not context.is_restricted(resource)
    return may_read and context.may(Operation.WRITE, resource)


def _told(
    table: pb.HeartbeatReqForTable, step: Callable[[tiering.LeasedTurn], None], context: Context
) -> pb.HeartbeatRespForTable:
    """Take one step for a table; a stale service of one table must not affect the others."""
    answer = pb.HeartbeatRespForTable(table_id=table.table_id)
    try:
        context.require(Operation.WRITE, table.table_id)
        context.require_whole(table.table_id, what=_NO_FILES)
        step(tiering.LeasedTurn(table.table_id, table.coordinator_epoch, table.tiering_epoch))
    except errors.HeadwaterError as fault:
        answer.error.CopyFrom(pb.ErrorResponse(error_code=fault.code, error_message=str(fault)))
    return answer


def _finish(
    rounds: tiering.TieringRounds,
    table: pb.HeartbeatReqForTable,
    forced: frozenset[int],
    turn: tiering.LeasedTurn,
) -> None:
    stats = table.lake_tiering_stats
    rounds.finish(
        turn,
        is_forced=turn.table_id in forced,
        file_size=stats.file_size if stats.HasField("file_size") else None,
        record_count=stats.record_count if stats.HasField("record_count") else None,
    )


def _assignment(table: tiering.TableTiering) -> pb.LakeTieringTableInfo:
    return pb.LakeTieringTableInfo(
        table_id=table.table_id,
        table_path=_path(table),
        tiering_epoch=table.record.turn,
        unsettled_epoch=table.unsettled,
    )


def _state(table: tiering.TableTiering, context: Context) -> pb.LakeTieringState:
    now_ms, record = context.lake.rounds.now_ms, table.record
    snapshot = context.catalog.lake.latest(table.table_id)
    return pb.LakeTieringState(
        table_path=_path(table),
        table_id=table.table_id,
        state=tiering.state_name(table, now_ms=now_ms),
        tiering_epoch=record.turn,
        freshness_ms=table.freshness_ms,
        due_in_ms=tiering.due_in_ms(table, now_ms=now_ms),
        last_tiered_ms=record.last_tiered_ms,
        last_duration_ms=record.last_duration_ms,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        failures=record.failures,
        last_failure=record.last_failure,
        file_size=record.file_size,
        record_count=record.record_count,
    )


def _path(table: tiering.TableTiering) -> pb.TablePath:
    return pb.TablePath(database_name=table.path.database, table_name=table.path.table)
