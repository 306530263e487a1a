"""Keeping a lake table small and quick to read, after a round or by hand."""

from dataclasses import dataclass

from headwater.config.options import DATALAKE_AUTO_COMPACTION, DATALAKE_AUTO_EXPIRE_SNAPSHOT
from headwater.lake.spi import Cleaned, LakeKeeper, LakeSnapshot
from headwater.model import TablePath
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.jumps import JUMP_MS, DoubtingClock
from headwater.runtime.tasks import aside
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import LakeTarget, UpkeepDone
from headwater.tiering.task import RewriteTask, Runner

_MS = 1000
_events = Events("tiering")


@dataclass(frozen=True, slots=True)
class Tidied:
    """Hold what upkeep did, and the newest snapshot after it."""

    snapshot: LakeSnapshot
    kept: UpkeepDone


class AgeClock:
    """Tell the time by which files and snapshots are old: the earlier of ours and the server's.

    A tierer may start on a machine whose clock is a year ahead. A server that does not tell the
    time, as Apache Fluss does not, leaves the doubt of a clock that leaps while we run.
    """

    def __init__(self, clock: Clock) -> None:
        self._time = DoubtingClock(clock)
        self._server_ms: int | None = None
        self._heard_s = 0.0
        self._is_ahead = False

    def hear(self, server_ms: int | None) -> None:
        """Take the time that a server has just told."""
        if server_ms is None:
            return
        self._server_ms, self._heard_s = server_ms, self._time.monotonic()
        ahead_ms = self._time.now_ms() - server_ms
        if ahead_ms > JUMP_MS and not self._is_ahead:
            _events.warning(
                "clock is ahead of the server",
                ahead_s=ahead_ms // _MS,
                hint="Lake snapshots and files expire by the time of the server. Set the clock"
                " that is wrong.",
            )
        self._is_ahead = ahead_ms > JUMP_MS

    def now_ms(self) -> int:
        """Tell the time, never later than the server's."""
        now_ms = self._time.now_ms()
        if self._server_ms is None:
            return now_ms
        passed_ms = int((self._time.monotonic() - self._heard_s) * _MS)
        return min(now_ms, self._server_ms + passed_ms)

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return self._time.monotonic()


class LakeUpkeep:
    """Look after lake tables as their options ask for it."""

    def __init__(self, runner: Runner, *, settings: TieringSettings, clock: Clock) -> None:
        self._runner = runner
        self._settings = settings
        # A clock that is ahead must not make files look old that somebody is about to commit.
        self.time = AgeClock(clock)
        self._searched_at: dict[TablePath, float] = {}

    async def keep(self, target: LakeTarget, head: LakeSnapshot) -> Tidied:
        """Do what is due.

        1. Compact. 2. Merge lists of files. 3. Drop old snapshots. 4. Once in a while, remove
        files that no snapshot names.
        """
        options = target.table.descriptor.properties
        rewritten, cleaned = 0, Cleaned()
        if DATALAKE_AUTO_COMPACTION.of(options):
            head, rewritten = await compact(target, head, runner=self._runner)
        if DATALAKE_AUTO_EXPIRE_SNAPSHOT.of(options):
            keeper = await aside(target.lake.keeper, target.spec)
            merged = await aside(keeper.merge_manifests, on=head)
            head = head if merged is None else merged
            cleaned = await expire(keeper, now_ms=self.time.now_ms())
            cleaned = _sum(cleaned, await self._orphans(keeper, target.table.path))
        kept = UpkeepDone(
            path=target.table.path,
            files_rewritten=rewritten,
            snapshots_dropped=cleaned.snapshots,
            files_removed=cleaned.data_files + cleaned.metadata_files,
            bytes_removed=cleaned.byte_count,
        )
        return Tidied(head, kept)

    async def _orphans(self, keeper: LakeKeeper, path: TablePath) -> Cleaned:
        now, settings = self.time.monotonic(), self._settings
        searched_at = self._searched_at.get(path)
        if searched_at is not None and now - searched_at < settings.orphans_interval_s:
            return Cleaned()
        self._searched_at[path] = now
        before_ms = self.time.now_ms() - int(settings.orphans_age_s * _MS)
        return await aside(keeper.remove_orphans, older_than_ms=before_ms)


async def compact(
    target: LakeTarget, head: LakeSnapshot, *, runner: Runner
) -> tuple[LakeSnapshot, int]:
    """Turn small files and files with replaced rows into better ones; return how many went.

    Raises `LakeMovedError` if others were quicker: what they left is for the next time.
    """
    keeper = await aside(target.lake.keeper, target.spec)
    works = await aside(keeper.plan_rewrites, on=head)
    if not works:
        return head, 0
    tasks = [RewriteTask(lake=target.lake, spec=target.spec, work=work) for work in works]
    results = await runner.rewrite(tasks)
    # If that fails, the new files are orphans, which are removed in time.
    head = await aside(keeper.commit_rewrites, results, on=head)
    return head, sum(work.file_count for work in works)


async def expire(keeper: LakeKeeper, *, now_ms: int) -> Cleaned:
    """Drop the snapshots that the options of the lake table do not keep."""
    retention = await aside(keeper.retention)
    return await aside(keeper.expire, retention, now_ms=now_ms)


def _sum(one: Cleaned, other: Cleaned) -> Cleaned:
    return Cleaned(
        snapshots=one.snapshots + other.snapshots,
        data_files=one.data_files + other.data_files,
        metadata_files=one.metadata_files + other.metadata_files,
        byte_count=one.byte_count + other.byte_count,
    )
