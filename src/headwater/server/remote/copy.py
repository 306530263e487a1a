"""Keep the remote copy of a running server a second behind, and know who waits for it.

Each round takes a moment on the loop and ships it from a thread. If the remote storage is away,
rounds take longer and the server goes on; if another server took it over, this one gives its
directory up, because its rows would be on no side that goes on.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

from headwater import errors
from headwater.config.server import ServerSettings
from headwater.config.table_options import LakeOptions
from headwater.log.log import Log
from headwater.model.bucket import TableBucket
from headwater.remote.history import newest_tree
from headwater.remote.objects import Objects, open_objects
from headwater.remote.shipper import MovedOnError, RemoteTally, Shipper
from headwater.remote.tree import CATALOG_FOLDER, Folder, Tree
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.remote.moment import Moment, MomentFiles, Shipped, take_moment
from headwater.server.tablets import Tablets, directory_of
from headwater.store.disk import Disk
from headwater.tablet.group_commit import Answered

CLAIM_S_MAX = 10.0
CLAIM_AGAIN_S = 1.0
LAST_ROUND_S_MAX = 30.0
OWNER_CHECK_S = 10.0
HURRY_S = 0.02
NAME_BYTES = 8
WAITERS_MAX = 100_000
RESTORE_HINT = (
    "Restore the newest state from there and serve that; without --remote, or with another address,"
    " this directory can still be served."
)
UNWELL_BEHIND_S = 60.0
_events = Events("remote")
T = TypeVar("T")


@dataclass(slots=True)
class ShippedRows:
    """How far each bucket is in the remote storage, and who waits for more."""

    ends: dict[TableBucket, int] = field(default_factory=dict)
    failure: errors.HeadwaterError | None = None
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _waiters: list[tuple[TableBucket, int, Answered]] = field(default_factory=list)

    def when_shipped(self, bucket: TableBucket, end_offset: int, answered: Answered) -> None:
        """Call back once everything of a bucket before an offset is there."""
        if self.ends.get(bucket, 0) >= end_offset:
            answered(None)
        elif self.failure is not None:
            answered(self.failure)
        elif len(self._waiters) >= WAITERS_MAX:
            answered(
                errors.RetryLaterError("Too many writes wait to be shipped to remote storage.")
            )
        else:
            self._waiters.append((bucket, end_offset, answered))
            self.hurry.set()

    def advance(self, moment: Moment) -> None:
        """Note what was shipped, and answer who waited for it."""
        self.ends.update({bucket: each.tail.offset for bucket, each in moment.buckets.items()})
        self._answer()

    def fail(self, fault: errors.HeadwaterError) -> None:
        """Answer everybody, now and later, that nothing is shipped any more."""
        self.failure = fault
        self._answer()

    def _answer(self) -> None:
        waiting, self._waiters = self._waiters, []
        for bucket, end_offset, answered in waiting:
            self.when_shipped(bucket, end_offset, answered)


class RemoteCopy:
    """The remote copy of one server."""

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        rows: ShippedRows,
        catalog: ServerCatalog,
        tablets: Tablets,
        *,
        disk: Disk,
        settings: ServerSettings,
        clock: Clock,
        objects: Objects | None = None,
    ) -> None:
        self._rows = rows
        self._catalog = catalog
        self._tablets = tablets
        self._disk = disk
        self._settings = settings
        self._clock = clock
        self._on_lost: Callable[[], object] = _nothing
        self._objects = objects or open_objects(settings.remote_data_dir, settings.remote_options)
        self._stopping = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-remote")
        self._tasks = Tasks()
        self._shipper = self._shipper_of(Tree())
        self._shipped = Shipped()
        self._is_owner = False
        self._process = random_bytes(NAME_BYTES).hex()
        # Since when there may be something to ship; None while everything is there.
        self._behind_since: float | None = clock.monotonic()
        self._shipped_at = self._checked_at = clock.monotonic()
        self.last_commit_ms = 0

    # ---- what others ask

    @property
    def tally(self) -> RemoteTally:
        """Return the counts of what was shipped."""
        return self._shipper.tally

    @property
    def epoch(self) -> int:
        """Return which owner of the remote storage this server is; 0: none yet."""
        return self._shipper.tree.epoch if self._is_owner else 0

    @property
    def behind_s(self) -> float:
        """Return how long the oldest change waits to be shipped."""
        if self._behind_since is None:
            return 0.0
        return self._clock.monotonic() - self._behind_since

    @property
    def behind_bytes(self) -> int:
        """Return how many bytes of logs wait to be shipped."""
        held = self._shipped.buckets
        return sum(
            max(tablet.log.size_bytes - (held[bucket].log_bytes if bucket in held else 0), 0)
            for bucket, tablet in self._tablets.all_open()
        )

    def reason_unwell(self) -> str:
        """Say what is wrong with the remote copy; empty if nothing is."""
        if self._rows.failure is not None:
            return self._rows.failure.message
        if self.behind_s < UNWELL_BEHIND_S:
            return ""
        why = self.tally.failure or "it takes less than is written."
        return f"The remote copy is {self.behind_s:.0f} s behind: {why}"

    def refuse_if_behind(self) -> None:
        """Ask writers to wait while the remote copy is further behind than it may be."""
        limit_s = self._settings.remote_lag_s_max
        if limit_s and self.behind_s > limit_s:
            self._rows.hurry.set()
            raise errors.RetryLaterError(
                f"The remote copy is {self.behind_s:.0f} s behind, more than the {limit_s} s of "
                "'remote_lag_s_max'.",
                hint="It is retried; check that the server reaches its remote storage.",
            )

    # ---- starting and stopping

    async def start(self, on_lost: Callable[[], object]) -> None:
        """Take the remote storage, or go on trying if it cannot be reached now."""
        self._on_lost = on_lost
        self._tell_of_lake()
        claiming = asyncio.get_running_loop().create_task(self._claim())
        done, _ = await asyncio.wait([claiming], timeout=CLAIM_S_MAX)
        if done:
            await claiming
        else:
            _events.warning(
                "remote storage not reached yet",
                address=self._objects.address,
                reason=self.tally.failure,
            )
        self._tasks.start(self._follow(claiming), name="remote copy")

    async def stop(self) -> None:
        """Ship what is left, for a limited time, and end."""
        await self._tasks.stop()
        for _, tablet in self._tablets.all_open():
            with suppress(errors.HeadwaterError):
                await asyncio.to_thread(tablet.log.sync)
        if self._is_owner and self._rows.failure is None:
            try:
                async with asyncio.timeout(LAST_ROUND_S_MAX):
                    await self._round(is_last=True)
            except (errors.HeadwaterError, TimeoutError) as fault:
                _events.warning("last rows not shipped", reason=str(fault) or "it took too long")
        self._stopping.set()
        self._rows.fail(errors.StoppingError("The server is stopping."))
        await asyncio.to_thread(self._thread.shutdown)

    def give_up(self) -> None:
        """End without shipping anything, because the server does not start."""
        self._stopping.set()
        self._tasks.cancel()
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _pause(self, seconds: float) -> bool:
        return not self._stopping.wait(seconds)

    def _shipper_of(self, tree: Tree) -> Shipper:
        return Shipper(
            self._objects,
            tree,
            clock=self._clock,
            pause=self._pause,
            history_ms=round(self._settings.remote_history_s * 1000),
        )

    def _tell_of_lake(self) -> None:
        """Warn of a lake that is lost with the disk."""
        tables = self._catalog.tables.all()
        has_lake = any(LakeOptions.of(each.descriptor.properties).enabled for each in tables)
        if has_lake and not self._settings.lake_properties:
            _events.warning(
                "the lake below the directory is not shipped",
                hint="Put it on an object store with --lake; rows that expired from the log are "
                "only there.",
            )

    # ---- ownership

    async def _claim(self) -> None:
        """Take the remote storage, if this directory has everything that is in it.

        1. read the newest state  2. compare  3. note the name under which it is taken
        4. take it. A crash behind the note leaves a name that was never used.
        """
        while (tree := await self._newest()) is None:
            await self._clock.sleep(CLAIM_AGAIN_S)
        self._check(tree)
        owner = random_bytes(NAME_BYTES).hex()
        self._catalog.note_remote_owner(owner)
        shipper = self._shipper_of(tree)
        storage_id = self._catalog.storage_id
        await self._in_thread(partial(shipper.claim, owner, storage_id=storage_id))
        self._shipper, self._is_owner = shipper, True
        _events.info(
            "remote storage taken",
            address=self._objects.address,
            epoch=tree.epoch,
        )

    async def _newest(self) -> Tree | None:
        """Read the newest state; None if the remote storage cannot be reached now."""
        try:
            return await self._in_thread(partial(newest_tree, self._objects))
        except (errors.RetryLaterError, errors.AccessError) as fault:
            self.tally.errors += 1
            self.tally.failure = fault.message
            return None

    def _check(self, tree: Tree) -> None:
        """Refuse a remote storage of another storage, or that went on without this directory."""
        address = self._objects.address
        if not tree.number:
            return
        if tree.storage_id != self._catalog.storage_id:
            raise errors.RemoteTakenError(
                f"{address} holds the copy of another storage.",
                hint="Use another directory or prefix for this one.",
            )
        if tree.owner not in self._catalog.remote_owners:
            raise errors.RemoteTakenError(
                f"Another server took over {address}: one that was restored from there, or the "
                "original of this copy. Rows that are only in this directory are in no copy.",
                hint=RESTORE_HINT,
            )
        lacking = [
            bucket
            for bucket, tablet in self._tablets.all_open()
            if _lacks(tablet.log, tree.folders.get(directory_of(bucket)))
        ]
        if tree.serial > self._catalog.copy_number or lacking:
            where = f", such as rows of {lacking[0]}" if lacking else ""
            raise errors.RemoteTakenError(
                f"This directory is older than its copy in {address}: it lacks what was written "
                f"later{where}.",
                hint=RESTORE_HINT,
            )

    # ---- rounds

    async def _follow(self, claiming: "asyncio.Task[None]") -> None:
        try:
            await claiming
            while True:
                await self._wait()
                await self._round()
        except errors.RemoteTakenError as fault:
            self._lose(fault)
        except Exception as cause:  # noqa: BLE001 - the outer edge of a background task
            _events.error("remote copy stopped", cause=cause)
            self._rows.fail(errors.StorageError(f"The remote copy stopped: {cause}."))
        finally:
            claiming.cancel()

    async def _wait(self) -> None:
        """Wait for the next round: an interval, or less if somebody waits for it."""
        try:
            async with asyncio.timeout(self._settings.remote_sync_interval_s):
                await self._rows.hurry.wait()
            await self._clock.sleep(HURRY_S)  # Others come along.
        except TimeoutError:
            pass
        self._rows.hurry.clear()

    async def _round(self, *, is_last: bool = False) -> None:
        """Ship what changed, if something did; otherwise see who owns the remote storage."""
        now = self._clock.monotonic()
        try:
            moment = self._moment()
            if moment.is_empty and not is_last:
                self._behind_since, self._shipped_at = None, now
                await self._check_owner()
                return
            # What there is to ship came after the moment that was shipped last.
            self._behind_since = self._behind_since or self._shipped_at
            await self._in_thread(partial(self._ship, moment, is_last=is_last))
        except MovedOnError:
            self._shipped.changes = -1  # The catalog of this moment was not shipped.
            self._rows.hurry.set()
            return
        except errors.StorageError as fault:
            _events.warning("moment not shipped", reason=fault.message)
            self.tally.errors += 1
            self.tally.failure = fault.message
            self._shipped.changes = -1
            return
        self._shipped.note(moment)
        self.last_commit_ms, self._shipped_at, self._behind_since = moment.at_ms, now, None
        self._rows.advance(moment)

    def _ship(self, moment: Moment, *, is_last: bool) -> None:
        files = MomentFiles(self._disk, moment, process=self._process)
        self._shipper.ship(files.cut(), files.open, is_last=is_last)

    def _moment(self) -> Moment:
        held = frozenset(self._shipper.tree.folders) - {CATALOG_FOLDER}
        return take_moment(
            self._catalog,
            self._tablets,
            self._shipped,
            held=held,
            now_ms=self._clock.now_ms(),
        )

    async def _check_owner(self) -> None:
        if self._clock.monotonic() - self._checked_at >= OWNER_CHECK_S:
            self._checked_at = self._clock.monotonic()
            await self._in_thread(self._shipper.check)

    def _lose(self, fault: errors.HeadwaterError) -> None:
        """Take no more writes: another server goes on."""
        self._rows.fail(fault)
        self._catalog.lock.lose(fault.message[0].lower() + fault.message[1:].rstrip("."))
        self._on_lost()


def _lacks(log: Log, folder: Folder | None) -> bool:
    """Tell whether a log lacks rows that the remote storage has."""
    if folder is None:
        return False
    ends = folder.ends
    return ends.end > log.end_offset or not log.lineage.holds(ends.end, ends.incarnation)


def _nothing() -> None:
    pass
