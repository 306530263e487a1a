"""What tierers tell and are told, as messages of the protocol."""

from collections.abc import Iterable, Mapping

from headwater.client.lake.values import (
    Assignment,
    FailedRound,
    FinishedRound,
    HeartbeatAnswer,
    TieringState,
)
from headwater.model.boundary import LakeBucket, TieringEpoch
from headwater.model.path import TablePath
from headwater.wire import fluss_pb2 as pb


def tiering_table(assignment: Assignment) -> pb.HeartbeatReqForTable:
    """Return the message that a tierer still works on a table."""
    return pb.HeartbeatReqForTable(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.epoch.coordinator,
        tiering_epoch=assignment.epoch.turn,
    )


def finished_table(done: FinishedRound) -> pb.HeartbeatReqForTable:
    """Return the message that a tierer is through with a table."""
    message = tiering_table(done.assignment)
    if done.file_size is not None or done.record_count is not None:
        stats = pb.LakeTieringStats(file_size=done.file_size, record_count=done.record_count)
        message.lake_tiering_stats.CopyFrom(stats)
    return message


def failed_table(failed: FailedRound) -> pb.HeartbeatReqForTable:
    """Return the message that a tierer failed."""
    message = tiering_table(failed.assignment)
    if failed.failure:
        message.failure = failed.failure
    return message


def bucket_offset(
    bucket: LakeBucket, end: int, *, written_by: int | None = None
) -> pb.BucketOffset:
    """Return the message how far a bucket is tiered."""
    return pb.BucketOffset(
        partition_id=bucket.partition_id,
        bucket_id=bucket.bucket,
        log_end_offset=end,
        incarnation=written_by,
    )


def snapshot_info(
    table_id: int, snapshot_id: int, *, ends: Mapping[LakeBucket, int]
) -> pb.LakeTableSnapshotInfo:
    """Return the message how far the buckets of a snapshot are tiered."""
    return pb.LakeTableSnapshotInfo(
        table_id=table_id,
        snapshot_id=snapshot_id,
        buckets_req=[
            pb.LakeTableOffsetForBucket(
                partition_id=bucket.partition_id, bucket_id=bucket.bucket, log_end_offset=end
            )
            for bucket, end in sorted(ends.items())
        ],
    )


def answer_of(message: pb.LakeTieringHeartbeatResponse) -> HeartbeatAnswer:
    """Read the answer to a heartbeat."""
    refused = (
        *message.tiering_table_resp,
        *message.finished_table_resp,
        *message.failed_table_resp,
    )
    return HeartbeatAnswer(
        coordinator_epoch=message.coordinator_epoch,
        storage_id=message.storage_id or None,
        assigned=_assigned(message),
        fenced=frozenset(each.table_id for each in refused if each.HasField("error")),
        states=tuple(map(_state, message.states)),
        now_ms=message.now_ms or None,
    )


def ends_of(buckets: Iterable[pb.LakeSnapshotBucket]) -> dict[LakeBucket, int]:
    """Read how far the buckets of a snapshot are tiered."""
    return {
        LakeBucket(_optional(each, "partition_id"), each.bucket_id): each.log_offset
        for each in buckets
        if each.HasField("log_offset") and each.log_offset >= 0
    }


def _assigned(message: pb.LakeTieringHeartbeatResponse) -> Assignment | None:
    if not message.HasField("tiering_table"):
        return None
    table = message.tiering_table
    return Assignment(
        path=TablePath(table.table_path.database_name, table.table_path.table_name),
        table_id=table.table_id,
        epoch=TieringEpoch(message.coordinator_epoch, table.tiering_epoch),
        unsettled=table.unsettled_epoch if table.HasField("unsettled_epoch") else None,
    )


def _state(state: pb.LakeTieringState) -> TieringState:
    return TieringState(
        path=TablePath(state.table_path.database_name, state.table_path.table_name),
        table_id=state.table_id,
        state=state.state,
        epoch=state.tiering_epoch,
        freshness_ms=state.freshness_ms,
        due_in_ms=state.due_in_ms,
        last_tiered_ms=_optional(state, "last_tiered_ms"),
        last_duration_ms=_optional(state, "last_duration_ms"),
        snapshot_id=_optional(state, "snapshot_id"),
        failures=state.failures,
        last_failure=state.last_failure or None,
        file_size=_optional(state, "file_size"),
        record_count=_optional(state, "record_count"),
    )


def _optional(message: pb.LakeTieringState | pb.LakeSnapshotBucket, field: str) -> int | None:
    if not message.HasField(field):
        return None
    value: int = getattr(message, field)
    return value
