"""The tiering protocol between tiering services and the coordinator: values, messages, requests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.cluster.cluster import Cluster
from headwater.cluster.paths import table_path, wire_path
from headwater.errors import LakeMissingError, LakeSnapshotMissingError, error_of_code
from headwater.model import LakeBucket, TablePath
from headwater.model.boundary import TieringEpoch
from headwater.wire import fluss_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringAssignment:
    """A table that a tiering service was given, for as long as it sends heartbeats."""

    path: TablePath
    table_id: int
    epoch: TieringEpoch
    unsettled: int | None = None
    """The last turn whose service may still be alive; None if the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRound:
    """A table was tiered, or is given back."""

    assignment: TieringAssignment
    is_forced: bool = False
    """The round ended early, so the table is due again at once."""
    file_size: int | None = None
    """Size of the lake table in bytes."""
    record_count: int | None = None
    """Rows in the lake table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRound:
    """A table could not be tiered, and why."""

    assignment: TieringAssignment
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringState:
    """The state of a table between two rounds."""

    path: TablePath
    table_id: int
    state: str
    """One of scheduled, pending, tiering and failed."""
    epoch: int
    freshness_ms: int
    due_in_ms: int
    """Time until the table is due; negative if it waits for a tiering service."""
    last_tiered_ms: int | None = None
    """When the last successful round ended, in milliseconds since 1970."""
    last_duration_ms: int | None = None
    snapshot_id: int | None = None
    """The newest snapshot that was reported."""
    failures: int = 0
    """Rounds that failed in a row."""
    last_failure: str | None = None
    file_size: int | None = None
    record_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The coordinator's response to a heartbeat."""

    coordinator_epoch: int
    storage_id: str | None = None
    """Identifies the storage; None if the server does not say (Apache Fluss)."""
    assigned: TieringAssignment | None = None
    fenced: frozenset[int] = frozenset()
    """Ids of tables in the heartbeat that the tiering service no longer owns."""
    states: tuple[TieringState, ...] = ()
    now_ms: int | None = None
    """The time that the server trusts; None if it does not say (Apache Fluss)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSnapshot:
    """What the coordinator knows of a lake snapshot; the lake itself is authoritative."""

    table_id: int
    snapshot_id: int
    ends: Mapping[LakeBucket, int] = field(default_factory=dict)
    """The first offset of each bucket that is not in the snapshot."""


# Messages of the protocol.


def tiering_table(assignment: TieringAssignment) -> pb.HeartbeatReqForTable:
    """Build the message that a table is still being tiered."""
    return pb.HeartbeatReqForTable(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.epoch.coordinator,
        tiering_epoch=assignment.epoch.turn,
    )


def finished_table(done: FinishedRound) -> pb.HeartbeatReqForTable:
    """Build the message that a round is finished."""
    message = tiering_table(done.assignment)
    if done.file_size is not None or done.record_count is not None:
        stats = pb.LakeTieringStats(file_size=done.file_size, record_count=done.record_count)
        message.lake_tiering_stats.CopyFrom(stats)
    return message


def failed_table(failed: FailedRound) -> pb.HeartbeatReqForTable:
    """Build the message that a round failed."""
    message = tiering_table(failed.assignment)
    if failed.failure:
        message.failure = failed.failure
    return message


def bucket_offset(
    bucket: LakeBucket, end: int, *, written_by: int | None = None
) -> pb.BucketOffset:
    """Build the message that says how far a bucket is tiered."""
    return pb.BucketOffset(
        partition_id=bucket.partition_id,
        bucket_id=bucket.bucket,
        log_end_offset=end,
        incarnation=written_by,
    )


def snapshot_info(
    table_id: int, snapshot_id: int, *, ends: Mapping[LakeBucket, int]
) -> pb.LakeTableSnapshotInfo:
    """Build the message that says how far the buckets of a snapshot are tiered."""
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
    """Parse the response to a heartbeat."""
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
    """Parse how far the buckets of a snapshot are tiered."""
    return {
        LakeBucket(_optional(each, "partition_id"), each.bucket_id): each.log_offset
        for each in buckets
        if each.HasField("log_offset") and each.log_offset >= 0
    }


def _assigned(message: pb.LakeTieringHeartbeatResponse) -> TieringAssignment | None:
    if not message.HasField("tiering_table"):
        return None
    table = message.tiering_table
    return TieringAssignment(
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


class LakeCoordinator:
    """Talk to the coordinator, which hands out tables to tier and remembers what was tiered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def heartbeat(  # noqa: PLR0913 - one argument per part of the message
        self,
        *,
        tiering: Iterable[TieringAssignment] = (),
        finished: Iterable[FinishedRound] = (),
        failed: Iterable[FailedRound] = (),
        request: bool = False,
        only_tables: Sequence[TablePath] = (),
        ignore_freshness: bool = False,
        list_states: bool = False,
    ) -> HeartbeatAnswer:
        """Keep tables, give them back, and with `request` ask for another one.

        `only_tables` and `ignore_freshness` restrict and extend which tables may be handed out;
        `list_states` asks for the state of all tables. Apache Fluss ignores these three.
        """
        done = tuple(finished)
        message = pb.LakeTieringHeartbeatRequest(
            tiering_tables=[tiering_table(each) for each in tiering],
            finished_tables=[finished_table(each) for each in done],
            failed_tables=[failed_table(each) for each in failed],
            request_table=request,
            force_finished_tables=[each.assignment.table_id for each in done if each.is_forced],
            only_tables=[wire_path(path) for path in only_tables],
            ignore_freshness=ignore_freshness,
            list_states=list_states,
        )
        answer = await self._cluster.ask(message, pb.LakeTieringHeartbeatResponse, coordinator=True)
        return answer_of(answer)

    async def prepare(
        self,
        path: str | TablePath,
        table_id: int,
        offsets: Mapping[LakeBucket, int],
        *,
        written_by: Mapping[LakeBucket, int] | None = None,
        ignore_previous: bool = False,
    ) -> str:
        """Have the server write the end offsets of a round to a file, and return its path.

        They are merged into the known ones, or with `ignore_previous` replace them. A server whose
        logs have another lineage than `written_by` rejects them.
        """
        known = written_by or {}
        message = pb.PrepareLakeTableSnapshotRequest(
            bucket_offsets=[
                pb.TableOffsets(
                    table_id=table_id,
                    table_path=wire_path(table_path(path)),
                    bucket_offsets=[
                        bucket_offset(bucket, end, written_by=known.get(bucket))
                        for bucket, end in sorted(offsets.items())
                    ],
                )
            ],
            ignore_previous_table_offsets=ignore_previous,
        )
        answer = await self._cluster.ask(
            message, pb.PrepareLakeTableSnapshotResponse, coordinator=True
        )
        prepared = answer.prepare_lake_table_resp[0]
        if prepared.HasField("error_code"):
            raise error_of_code(prepared.error_code, prepared.error_message)
        return prepared.lake_table_offsets_path

    async def commit(
        self,
        table_id: int,
        snapshot_id: int,
        offsets_path: str,
        *,
        earliest_kept: int | None = None,
        ends: Mapping[LakeBucket, int] | None = None,
    ) -> None:
        """Report that a lake snapshot has the rows up to the offsets in a prepared file.

        Snapshots from `earliest_kept` on stay known; by default only the new one does. `ends` are
        the same offsets again: Apache Fluss tells its tablet servers from them which rows they need
        not keep.
        """
        told = pb.LakeTableSnapshotMetadata(
            table_id=table_id,
            snapshot_id=snapshot_id,
            tiered_bucket_offsets_file_path=offsets_path,
            # Our snapshots are readable as soon as they exist.
            readable_bucket_offsets_file_path=offsets_path,
            earliest_snapshot_id_to_keep=earliest_kept,
        )
        message = pb.CommitLakeTableSnapshotRequest(lake_table_snapshot_metadata=[told])
        if ends is not None:
            message.tables_req.append(snapshot_info(table_id, snapshot_id, ends=ends))
        answer = await self._cluster.ask(
            message, pb.CommitLakeTableSnapshotResponse, coordinator=True
        )
        committed = answer.table_resp[0]
        if committed.HasField("error_code"):
            raise error_of_code(committed.error_code, committed.error_message)

    async def snapshot(
        self, path: str | TablePath, snapshot_id: int | None = None, *, readable: bool = False
    ) -> ReportedSnapshot | None:
        """Return what is known of a snapshot, by default the newest; None if unknown."""
        message = pb.GetLakeSnapshotRequest(
            table_path=wire_path(table_path(path)), snapshot_id=snapshot_id
        )
        if readable:
            message.readable = True
        try:
            answer = await self._cluster.ask(message, pb.GetLakeSnapshotResponse)
        except (LakeSnapshotMissingError, LakeMissingError):
            return None
        return ReportedSnapshot(
            table_id=answer.table_id,
            snapshot_id=answer.snapshot_id,
            ends=ends_of(answer.bucket_snapshots),
        )
