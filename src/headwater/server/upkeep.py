"""Background work of a server: retention, automatic partitions, checking data at rest."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from headwater import errors
from headwater.config.auto_partition import partitions_to_create, partitions_to_drop
from headwater.config.table_options import LakeOptions, TableOptions
from headwater.model.bucket import TableBucket
from headwater.model.path import PARTITION_SEPARATOR
from headwater.model.table import TableInfo
from headwater.runtime.events import Events
from headwater.runtime.jumps import JUMP_MS
from headwater.runtime.tasks import Tasks, repeat
from headwater.server.context import Services
from headwater.server.keyed_tablets import KeyedBucket
from headwater.server.lake import tiered_end
from headwater.server.listener import Listener
from headwater.tablet.log_tablet import LogTablet

_events = Events("upkeep")
VERIFY_BYTES = 32 * 1024 * 1024
VERIFY_INTERVAL_S = 0.5
SWEEP_INTERVAL_S = 15.0
STATE_INTERVAL_S = 1.0
DIRECTORY_INTERVAL_S = 1.0
# Well below the jump that the next start does not trust.
TIME_INTERVAL_S = JUMP_MS / 1000 / 2
USERS_INTERVAL_S = QUOTAS_INTERVAL_S = 1.0
JOIN_INTERVAL_S = 10.0
LAKE_FILES_INTERVAL_S = 3600.0


class Upkeep:
    """Run the background work of a server."""

    def __init__(self, services: Services, listener: Listener) -> None:
        self._services = services
        self._listener = listener
        self._tasks = Tasks()
        # A clock that somebody set must not make rows expire.
        self._time = services.catalog.time
        self._unverifiable: set[TableBucket] = set()

    def start(self) -> None:
        """Start all work, or only what writes nothing."""
        settings = self._services.settings
        self._repeat(self._listener.sweep, "sweep", SWEEP_INTERVAL_S)
        if self._services.catalog.read_only:
            return
        self._repeat(self.watch_directory, "directory", DIRECTORY_INTERVAL_S)
        self._repeat(self.expire_rows, "retention", settings.retention_check_interval_s)
        self._repeat(self.verify_data, "verification", VERIFY_INTERVAL_S)
        self._repeat(self.join_batches, "small batches", JOIN_INTERVAL_S)
        self._repeat(self.tend_states, "states", STATE_INTERVAL_S)
        self._repeat(self.save_states, "snapshots", settings.kv_snapshot_interval_s)
        self._repeat(self.clear_lake_files, "lake files", LAKE_FILES_INTERVAL_S)
        self._repeat(self.remember_time, "time", TIME_INTERVAL_S)
        if self._services.logins is not None:
            self._repeat(self.reload_users, "users", USERS_INTERVAL_S)
        if self._services.quotas is not None:
            self._repeat(self.reload_quotas, "quotas", QUOTAS_INTERVAL_S)
        if self._services.certificates is not None:
            self._repeat(self._services.certificates.reload, "certificate", USERS_INTERVAL_S)
        self._tasks.start(self._follow_partitions(), name="automatic partitions")

    async def stop(self) -> None:
        """Stop all work."""
        await self._tasks.stop()

    def _repeat(self, step: Callable[[], Awaitable[None]], name: str, every_s: float) -> None:
        work = repeat(step, every_s=every_s, clock=self._services.clock, name=name)
        self._tasks.start(work, name=name)

    # ---- the directory

    async def watch_directory(self) -> None:
        """Notice that the directory was moved, deleted or taken over, even without writes."""
        try:
            self._services.catalog.lock.check()
        except errors.DirectoryLostError:
            self._services.lost.set()
            return
        with suppress(OSError):  # There is none, then.
            self._services.space.keep_reserve()

    # ---- the time

    async def remember_time(self) -> None:
        """Record the trusted time: the next start distrusts a clock that is far ahead of it."""
        try:
            self._services.catalog.remember_time()
        except errors.StorageError as fault:
            _events.warning("time not recorded", reason=str(fault))

    async def reload_users(self) -> None:
        """Follow changes of the file of users, and end sessions that are no longer allowed."""
        logins = self._services.logins
        assert logins is not None
        if await logins.reload():
            self._listener.let_go(logins.users.credentials)

    async def reload_quotas(self) -> None:
        """Follow changes of the file of quotas; one that cannot be read changes nothing."""
        assert self._services.quotas is not None
        try:
            if self._services.quotas.reload():
                _events.info("quotas reloaded")
        except (errors.HeadwaterError, OSError) as fault:
            _events.warning("quotas not reloaded", reason=str(fault))

    # ---- retention

    async def expire_rows(self) -> None:
        """Delete the segments that are older or larger than their tables allow."""
        await self._services.lake.check_reports()
        for bucket, tablet in self._services.tablets.all_open():
            try:
                await self._expire(bucket, tablet)
            except errors.BucketMissingError:
                continue  # Dropped since the list was made.
            except errors.HeadwaterError as fault:  # One bucket must not stop the others.
                _events.warning("rows not expired", bucket=str(bucket), reason=str(fault))

    async def _expire(self, bucket: TableBucket, tablet: LogTablet) -> None:
        table = self._services.catalog.tables.by_id(bucket.table_id)
        options, before = TableOptions.of(table.descriptor.properties), tablet.start_offset
        ends = self._services.catalog.lake.held_ends(bucket.table_id)
        needed_from = self._services.tablets.keyed.needed_from(bucket)
        # Rows that are not known to be in the lake stay, however old they are, and what a state
        # needs to be rebuilt.
        kept = [tiered_end(bucket, ends)] if options.lake.enabled else []
        kept += [] if needed_from is None else [needed_from]
        now_ms = self._time.now_ms()
        if options.roll_ms:
            await tablet.roll_aged(options.roll_ms, now_ms=now_ms)
        await tablet.expire(
            ttl_ms=options.log_ttl_ms or None,
            bytes_max=options.retention_bytes,
            kept_from=min(kept, default=None),
            now_ms=now_ms,
            delete_delay_ms=options.delete_delay_ms,
        )
        if tablet.start_offset > before:
            _events.info(
                "expired", table=str(table.path), bucket=bucket.bucket, up_to=tablet.start_offset
            )

    # ---- leftovers of tiering

    async def clear_lake_files(self) -> None:
        """Delete unused offsets files of rounds, and forget dropped tables."""
        services = self._services
        services.catalog.lake.forget_dropped()
        used, table_ids = services.catalog.lake.paths_in_use(), services.catalog.tables.ids()
        clear = partial(
            services.lake.files.clear, used, table_ids=table_ids, now_ms=self._time.now_ms()
        )
        try:
            cleared = await asyncio.to_thread(clear)
        except OSError as fault:
            _events.warning("offsets files not cleared", reason=str(fault))
            return
        if cleared:
            _events.info("offsets files cleared", files=cleared)

    # ---- states of primary-key tables

    async def tend_states(self) -> None:
        """Write out full segments, rewrite mostly dead ones, and delete expired rows."""
        self._services.scanners.expire()
        for bucket, keyed in self._services.tablets.keyed.all_open():
            await self._guarded_state(bucket, partial(self._tend, keyed))

    async def save_states(self) -> None:
        """Save the states that changed."""
        for bucket, keyed in self._services.tablets.keyed.all_open():
            await self._guarded_state(bucket, keyed.upkeep.snapshot)

    async def _tend(self, keyed: KeyedBucket) -> None:
        await keyed.upkeep.spill()
        await keyed.upkeep.expire(self._time.now_ms())
        await keyed.upkeep.compact_when_due(self._services.clock.monotonic())
        if keyed.upkeep.unsaved_rows > self._services.settings.kv_snapshot_rows_max:
            await keyed.upkeep.snapshot()

    async def _guarded_state(
        self, bucket: TableBucket, step: Callable[[], Awaitable[object]]
    ) -> None:
        try:
            await step()
        except errors.BucketMissingError:
            return  # Dropped since the list was made.
        except (errors.HeadwaterError, OSError) as fault:  # One bucket must not stop the others.
            _events.warning("state not kept up", bucket=str(bucket), reason=str(fault))

    # ---- data at rest

    async def verify_data(self) -> None:
        """Check a little of the data that was written before this process started."""
        tablets = self._services.tablets.all_open()
        self._unverifiable &= {bucket for bucket, _ in tablets}
        for bucket, tablet in tablets:
            if bucket not in self._unverifiable and await self._verify(bucket, tablet):
                return

    async def _verify(self, bucket: TableBucket, tablet: LogTablet) -> int:
        try:
            return await tablet.verify(VERIFY_BYTES)
        except errors.HeadwaterError as fault:  # Logged once; the others still have their turn.
            _events.error("data not verified", bucket=str(bucket), reason=str(fault))
            self._unverifiable.add(bucket)
            return 0

    # ---- small batches

    async def join_batches(self) -> None:
        """Join the small batches of logs that were written row by row, a segment of each."""
        if self._services.space.is_full_now():
            return  # A copy is written before the old file is deleted.
        for bucket, tablet in self._services.tablets.all_open():
            try:
                await self._join(bucket, tablet)
            except (errors.BucketMissingError, errors.TableMissingError, errors.StoppingError):
                continue  # Dropped or closed since the list was made.
            except (
                errors.HeadwaterError,
                OSError,
            ) as fault:  # One bucket must not stop the others.
                _events.warning("batches not joined", bucket=str(bucket), reason=str(fault))

    async def _join(self, bucket: TableBucket, tablet: LogTablet) -> None:
        joined = await tablet.join(self._services.tablets.joiner(bucket.table_id))
        if joined is not None:
            _events.info(
                "batches joined",
                bucket=str(bucket),
                offset=joined.base_offset,
                batches=joined.batches_before,
                batches_left=joined.batches_after,
                bytes=joined.bytes_before,
                bytes_left=joined.bytes_after,
            )

    # ---- partitions

    async def _follow_partitions(self) -> None:
        due, interval_s = self._services.partitions_due, 0.0
        while True:
            try:
                async with asyncio.timeout(interval_s):
                    await due.wait()
            except TimeoutError:
                pass
            due.clear()
            interval_s = self._services.settings.auto_partition_check_interval_s
            for table in self._services.catalog.tables.all():
                await self._guarded(table)

    async def _guarded(self, table: TableInfo) -> None:
        try:
            if table.descriptor.is_partitioned:
                await self.follow_partitions_of(table)
        except (errors.HeadwaterError, OSError) as fault:  # One table must not stop the others.
            _events.warning("partitions not followed", table=str(table.path), reason=str(fault))

    async def follow_partitions_of(self, table: TableInfo) -> None:
        """Create the partitions of a table that are due and drop those that have expired."""
        partitions, keys = self._services.catalog.partitions, table.descriptor.partition_keys
        rules = TableOptions.of(table.descriptor.properties).auto_partition
        existing = [partition.name for partition in partitions.list(table.path)]
        now_ms = self._services.clock.now_ms()
        # Expired ones make room for new ones, if partitions are at their limit.
        past_ms = self._time.now_ms()
        for name in partitions_to_drop(rules, keys=keys, existing=existing, now_ms=past_ms):
            await self._expire_partition(table, name)
        for name in partitions_to_create(rules, keys=keys, existing=existing, now_ms=now_ms):
            partitions.create(table.path, _spec(keys, name), ignore_if_exists=True)
            _events.info("partition created", table=str(table.path), partition=name)

    async def _expire_partition(self, table: TableInfo, name: str) -> None:
        """Drop a partition, unless parts of it are not yet in the lake."""
        partitions, keys = self._services.catalog.partitions, table.descriptor.partition_keys
        try:
            expired = partitions.by_name(table.path, name)
        except errors.PartitionMissingError:
            return  # Dropped since the list was made.
        if LakeOptions.of(table.descriptor.properties).enabled:
            number = expired.partition_id
            rows = self._services.lake.untiered_of_partition(number)
            # It is unknown how much the lake lacks of a bucket that cannot be opened.
            unopenable = self._services.tablets.unopenable
            unknown = sum(bucket.partition_id == number for bucket in unopenable)
            if rows or unknown:
                _events.warning(
                    "expired partition waits to be tiered",
                    table=str(table.path),
                    partition=name,
                    untiered_rows=rows,
                    unopenable_buckets=unknown,
                )
                return
        dropped = partitions.drop(table.path, _spec(keys, name), ignore_if_missing=True)
        if dropped is not None:
            await self._services.tablets.drop_partition(table.table_id, dropped.partition_id)
            _events.info("partition expired", table=str(table.path), partition=name)


def _spec(keys: tuple[str, ...], name: str) -> dict[str, str]:
    return dict(zip(keys, name.split(PARTITION_SEPARATOR), strict=True))
