"""The lake behind a table: what tierers report of it, and what readers ask of it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from headwater.config.table_options import LakeOptions
from headwater.errors import (
    HeadwaterError,
    LakeMissingError,
    LakeSnapshotMissingError,
    MissingError,
    RequestError,
    TableMissingError,
)
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.turns import in_turns
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot
from headwater.server.catalog.lake_offsets import TieredOffsets
from headwater.server.context import Context
from headwater.server.handlers.lake_ends import check_ends, live_ends
from headwater.server.handlers.paths import table_path
from headwater.server.lake.checks import Standing, check_said
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey

OFFSETS_PER_TURN = 4096


async def get_file_system_security_token(
    _: pb.GetFileSystemSecurityTokenRequest, __: Context
) -> pb.GetFileSystemSecurityTokenResponse:
    """Tell that files need no token here: clients read through the server."""
    return pb.GetFileSystemSecurityTokenResponse(schema="file", token=b"")


# ---- what readers ask


async def get_lake_snapshot(
    request: pb.GetLakeSnapshotRequest, context: Context
) -> pb.GetLakeSnapshotResponse:
    """Tell how far a snapshot of the lake goes: the newest, one by its id, or a readable one."""
    if request.readable and request.HasField("snapshot_id"):
        raise RequestError("A snapshot is asked for by its id or as a readable one, not both.")
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
        raise LakeMissingError(f"No lake is configured for {table.path}.")
    if request.HasField("snapshot_id"):
        found = context.catalog.lake.find(table.table_id, request.snapshot_id)
        return found, found.tiered
    for each in reversed(known):
        if not request.readable:
            return each, each.tiered
        if each.readable is not None:
            return each, each.readable
    raise LakeSnapshotMissingError(f"{table.path} was not tiered yet.")


# ---- what tierers report


async def prepare_lake_table_snapshot(
    request: pb.PrepareLakeTableSnapshotRequest, context: Context
) -> pb.PrepareLakeTableSnapshotResponse:
    """Write how far tables will be tiered to files, on top of what is known."""
    answers = [
        await _prepared(each, context, replaces=request.ignore_previous_table_offsets)
        async for each in in_turns(request.bucket_offsets)
    ]
    return pb.PrepareLakeTableSnapshotResponse(prepare_lake_table_resp=answers)


async def _prepared(
    table: pb.TableOffsets, context: Context, *, replaces: bool
) -> pb.PreparedLakeTable:
    try:
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
    except HeadwaterError as fault:
        context.bucket_refused(ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT, fault.code, str(fault))
        return pb.PreparedLakeTable(
            table_id=table.table_id, error_code=fault.code, error_message=str(fault)
        )


async def _check_lineage(table: pb.TableOffsets, context: Context) -> None:
    """Refuse ends that were tiered from another log than the one there is now."""
    for each in table.bucket_offsets:
        if each.HasField("incarnation"):
            partition_id = each.partition_id if each.HasField("partition_id") else None
            bucket = TableBucket(table.table_id, each.bucket_id, partition_id)
            # A partition that was dropped meanwhile has no log to compare with.
            with suppress(MissingError):
                tablet = await context.tablets.tablet(bucket)
                tablet.check_same(each.log_end_offset, each.incarnation)


def _existing(table: pb.TableOffsets, context: Context) -> TableInfo:
    info = context.catalog.tables.info(table_path(table.table_path))
    if info.table_id != table.table_id:
        raise TableMissingError(
            f"{info.path} was dropped and made anew since: its id is {info.table_id}, not"
            f" {table.table_id}."
        )
    return info


def _merged(
    info: TableInfo, given: Mapping[LakeBucket, int], context: Context, *, replaces: bool
) -> dict[LakeBucket, int]:
    """Put ends on top of those known, without partitions that were dropped meanwhile."""
    latest = context.catalog.lake.latest(info.table_id)
    # What the lake was seen not to have is built on by nobody.
    is_absent = latest is not None and latest.standing == Standing.ABSENT
    known = context.catalog.lake.held_ends if is_absent else context.catalog.lake.ends
    before = {} if replaces else known(info.table_id)
    return live_ends(info, {**before, **given}, context)


async def commit_lake_table_snapshot(
    request: pb.CommitLakeTableSnapshotRequest, context: Context
) -> pb.CommitLakeTableSnapshotResponse:
    """Take note of snapshots that were committed to the lake."""
    # Beside these there may be offsets in the request itself, which say the same.
    answers = [
        await _committed(each, context)
        async for each in in_turns(request.lake_table_snapshot_metadata)
    ]
    if not answers and request.tables_req:
        raise RequestError(
            "Offsets are reported in files.", hint="Use a tierer of Fluss 0.9 or newer."
        )
    return pb.CommitLakeTableSnapshotResponse(table_resp=answers)


async def _committed(told: pb.LakeTableSnapshotMetadata, context: Context) -> pb.CommittedLakeTable:
    try:
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
    except HeadwaterError as fault:
        context.bucket_refused(ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT, fault.code, str(fault))
        return pb.CommittedLakeTable(
            table_id=told.table_id, error_code=fault.code, error_message=str(fault)
        )


async def _looked_for(
    told: ReportedLakeSnapshot, info: TableInfo, context: Context
) -> ReportedLakeSnapshot:
    """Return what is believed of a report: all of it if the lake's own snapshot says the same.

    Else the lake is known to hold what it was known to hold before.
    """
    checks, catalog = context.lake.checks, context.catalog.lake
    principal = context.session.principal
    if checks.trusts(None if principal is None else str(principal)):
        return told
    look = await checks.look(info, told.snapshot_id)
    if look.standing is Standing.CHECKED:
        # Of partitions that were dropped since, the log has nothing to lose.
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
