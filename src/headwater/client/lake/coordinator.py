"""Asking the coordinator for tables to tier, and telling it what the lake holds."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.client.cluster import Cluster
from headwater.client.lake.messages import (
    answer_of,
    bucket_offset,
    ends_of,
    failed_table,
    finished_table,
    snapshot_info,
    tiering_table,
)
from headwater.client.lake.values import (
    Assignment,
    FailedRound,
    FinishedRound,
    HeartbeatAnswer,
    ReportedSnapshot,
)
from headwater.client.paths import wire_path
from headwater.errors import LakeMissingError, LakeSnapshotMissingError, error_of_code
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath
from headwater.wire import fluss_pb2 as pb


class LakeCoordinator:
    """Speak with the one who hands out tables to tier and remembers what was tiered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def heartbeat(  # noqa: PLR0913 - one argument per part of the message
        self,
        *,
        tiering: Iterable[Assignment] = (),
        finished: Iterable[FinishedRound] = (),
        failed: Iterable[FailedRound] = (),
        request: bool = False,
        only_tables: Sequence[TablePath] = (),
        ignore_freshness: bool = False,
        list_states: bool = False,
    ) -> HeartbeatAnswer:
        """Keep tables, give them back, and with `request` ask for another one.

        `only_tables` and `ignore_freshness` narrow and widen what may be handed out, and
        `list_states` asks where all tables stand; Apache Fluss passes over these three.
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
        path: TablePath,
        table_id: int,
        offsets: Mapping[LakeBucket, int],
        *,
        written_by: Mapping[LakeBucket, int] | None = None,
        ignore_previous: bool = False,
    ) -> str:
        """Have the ends of a round written to a file, and return its path.

        They are put on top of those known so far, or with `ignore_previous` in their place. A
        server whose logs were `written_by` others refuses them.
        """
        known = written_by or {}
        message = pb.PrepareLakeTableSnapshotRequest(
            bucket_offsets=[
                pb.TableOffsets(
                    table_id=table_id,
                    table_path=wire_path(path),
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
        """Tell that a lake snapshot holds the rows up to the offsets of a prepared file.

        Snapshots from `earliest_kept` on stay known; unless given, only the new one does. From
        `ends`, the same offsets once more, Apache Fluss tells its tablet servers which rows they
        need not keep.
        """
        told = pb.LakeTableSnapshotMetadata(
            table_id=table_id,
            snapshot_id=snapshot_id,
            tiered_bucket_offsets_file_path=offsets_path,
            # A snapshot of ours can be read as soon as it is there.
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
        self, path: TablePath, snapshot_id: int | None = None, *, readable: bool = False
    ) -> ReportedSnapshot | None:
        """Return what is known of a snapshot, the newest unless named; None if it is not known."""
        message = pb.GetLakeSnapshotRequest(table_path=wire_path(path), snapshot_id=snapshot_id)
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
