"""The lake behind tables for callers that do not await."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.client.lake.coordinator import LakeCoordinator
from headwater.client.lake.values import (
    Assignment,
    FailedRound,
    FinishedRound,
    HeartbeatAnswer,
    ReportedSnapshot,
)
from headwater.client.paths import table_path
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath
from headwater.runtime.loops import LoopThread


class Lake:
    """Ask for tables to tier, and for what is known of the lake."""

    def __init__(self, loop: LoopThread, coordinator: LakeCoordinator) -> None:
        self._loop = loop
        self._coordinator = coordinator

    def heartbeat(  # noqa: PLR0913 - one argument per part of the message
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
        """Keep tables, give them back, and with `request` ask for another one."""
        return self._loop.run(
            self._coordinator.heartbeat(
                tiering=tiering,
                finished=finished,
                failed=failed,
                request=request,
                only_tables=only_tables,
                ignore_freshness=ignore_freshness,
                list_states=list_states,
            )
        )

    def prepare(
        self,
        path: str | TablePath,
        table_id: int,
        offsets: Mapping[LakeBucket, int],
        *,
        ignore_previous: bool = False,
    ) -> str:
        """Have the ends of a round written to a file, and return its path."""
        return self._loop.run(
            self._coordinator.prepare(
                table_path(path), table_id, offsets, ignore_previous=ignore_previous
            )
        )

    def commit(
        self,
        table_id: int,
        snapshot_id: int,
        offsets_path: str,
        *,
        earliest_kept: int | None = None,
        ends: Mapping[LakeBucket, int] | None = None,
    ) -> None:
        """Tell that a lake snapshot holds the rows up to the offsets of a prepared file."""
        self._loop.run(
            self._coordinator.commit(
                table_id, snapshot_id, offsets_path, earliest_kept=earliest_kept, ends=ends
            )
        )

    def snapshot(
        self, path: str | TablePath, snapshot_id: int | None = None, *, readable: bool = False
    ) -> ReportedSnapshot | None:
        """Return what is known of a snapshot, the newest unless named; None if it is not known."""
        return self._loop.run(
            self._coordinator.snapshot(table_path(path), snapshot_id, readable=readable)
        )
