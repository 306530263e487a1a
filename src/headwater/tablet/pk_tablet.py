"""The upsert path of one bucket of a primary-key table, and reading its rows by key."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from headwater.errors import BucketFencedError, BucketMissingError, KvStorageError
from headwater.kv.heap import ABSENT, Locations
from headwater.kv.state import IndexRoom, KvState, any_room
from headwater.log.writers import NOBODY
from headwater.rows import kv_batch
from headwater.rows.log_batch import NO_SEQUENCE, NO_WRITER, read_header
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import to_the_end
from headwater.store.disk import Part
from headwater.tablet import log_tablet
from headwater.tablet.keyed_table import AutoIds, KeyedTable, TableVersion, seal_aged
from headwater.tablet.merge import PreparedPut, PutBatch, prepare
from headwater.tablet.merge_one import OneRule, PreparedOne, prepare_one
from headwater.tablet.state_read import DURABLE, Lookups, Room, StateScan, Unsynced, Values

_events = Events("pk_tablet")
# More full segments than this in memory make writers wait for the disk.
UNWRITTEN_SEGMENTS_MAX = 1
INLINE_RECORDS_MAX = 1024
RULES_KEPT = 8

_Read = tuple[kv_batch.KvBatchHeader, kv_batch.KvRecords]


@dataclass(frozen=True, slots=True)
class PutReceipt:
    """Tell where the changelog ends after a write."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class PutRules:
    """Say which columns a batch writes, and whether it bypasses the merge engine."""

    target_columns: tuple[int, ...] | None = None
    overwrite: bool = False


class PkTablet:
    """Take upserts and deletes for one bucket, in the order in which they come.

    The state changes only in the loop, and only under the turn of the log. Reading it is
    therefore safe in the loop at any time, and in a thread for whoever holds the turn. Any other
    thread may call `values_now`: what it reads changes only under the lock of the state.
    """

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        log: log_tablet.LogTablet,
        table: KeyedTable,
        state: KvState,
        *,
        ids: AutoIds,
        executor: Executor,
        clock: Clock,
        make_room: Callable[[], Awaitable[None]],
        index_room: IndexRoom = any_room,
    ) -> None:
        self.log = log
        self.table = table
        self.state = state
        self.ids = ids
        self._executor = executor
        self._clock = clock
        self._failure = ""
        self._unsynced = Unsynced()
        self._rule = lru_cache(RULES_KEPT)(partial(OneRule.of, keys=table.one_key_encoder))
        self._lookups = Lookups(state, self._unsynced, table=table, log=log)
        self._make_room = make_room
        self._index_room = index_room
        log.listen(self._synced)

    # ---- writing

    async def put(
        self,
        records: Part,
        *,
        acks: int,
        rules: PutRules,
        sender: log_tablet.Sender = log_tablet.ANYONE,
    ) -> PutReceipt:
        """Write one batch of upserts and deletes, all of it or nothing.

        1. begin to read the batch, in a thread where that takes long  2. wait for the turn
        3. merge, append the changelog, apply  4. wait until durable
        """
        self.log.check_acks(acks)
        view = memoryview(records).toreadonly()
        is_small = _is_small(view)
        read = _done(_read(view)) if is_small else self._in_thread(view)
        if self.state.heap.unwritten_count > UNWRITTEN_SEGMENTS_MAX:
            await self._make_room()
        # Whoever came first has the first turn, however long its batch takes to read.
        async with self.log.turn:
            header, read_records = await read
            sender.check(header.writer_id)
            work = self._write(
                header, read_records, rules=rules, is_small=is_small, owner=sender.owner
            )
            end_offset = await self._finish(work)
        await self.log.acknowledge(end_offset, acks=acks)
        return PutReceipt(end_offset)

    def put_now(self, records: Part, *, sender: log_tablet.Sender) -> int | None:
        """Write a batch of one whole row without waiting, and return where the log ends then.

        None says that nothing was done, and that `put` has to wait for something, or to merge by
        other rules than that the last row wins.
        """
        view = memoryview(records).toreadonly()
        size = len(view)
        if (
            size > log_tablet.INLINE_BYTES_MAX
            or not self.log.turn.is_free
            or not self.state.heap.takes(size)
        ):
            return None
        header = kv_batch.read_kv_header(view)
        rule = self._rule(self.table.latest()) if header.record_count == 1 else None
        if rule is None:
            return None
        kv_batch.check_kv_crc(view, header)
        sender.check(header.writer_id)
        self.refuse_if_failed()
        log, owner = self.log, sender.owner
        resent = log.log.resent(
            header.writer_id, header.batch_sequence, checksum=header.crc, owner=owner
        )
        if resent is not None:
            return resent.end_offset
        prepared = prepare_one(view, header, rule=rule, state=self.state)
        if prepared is None or len(prepared.changelog) > log_tablet.INLINE_BYTES_MAX:
            return None
        changelog = memoryview(prepared.changelog)
        log_header = read_header(changelog)
        if not log.writes_now(log_header, len(changelog), owner=owner):
            return None
        end_offset, _ = log.write_now(changelog, log_header, owner=owner)
        self._apply_one(prepared, end_offset, rule.version)
        return end_offset

    def _in_thread(self, view: memoryview) -> asyncio.Future[_Read]:
        reading = asyncio.get_running_loop().run_in_executor(self._executor, _read, view)
        # Seen even if the write is cancelled while it waits for its turn.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return reading

    async def _finish(self, work: Coroutine[object, object, int]) -> int:
        """Run a write to its end even if whoever asked for it goes away."""
        return await to_the_end(asyncio.get_running_loop().create_task(work))

    async def remove(self, keys: RowBytes, locations: Locations) -> int:
        """Delete rows that are still where they were seen, and return how many."""
        async with self.log.turn:
            self.refuse_if_failed()
            same = self.state.find(keys).locations == locations
            keys = keys.take(same)
            if not len(keys):
                return 0
            version = self.table.latest()
            header = kv_batch.KvBatchHeader(
                0, 0, version.schema_id, 0, NO_WRITER, NO_SEQUENCE, len(keys)
            )
            nothing = RowBytes(keys.data, keys.ends, keys.ends)
            records = kv_batch.KvRecords(keys, nothing, np.ones(len(keys), np.bool_), keys.starts)
            batch = PutBatch(
                header, records, self.table.removing(version), version, is_partial=False
            )
            end_offset = await self._finish(self._change(batch, is_small=False))
        await self.log.acknowledge(end_offset, acks=0)
        return len(keys)

    async def insert_missing(
        self, keys: Sequence[bytes], *, partition: Mapping[str, str], acks: int
    ) -> None:
        """Insert rows that have nothing but their key, where there are none."""
        version = self.table.latest()
        distinct = RowBytes.of(list(dict.fromkeys(keys)))
        rows = self.table.rows_of_keys(distinct, version, partition=partition)
        encoded = self.table.encode(rows, version.schema_id)
        batch = kv_batch.build_kv_batch(distinct, encoded, schema_id=version.schema_id)
        targets = tuple(sorted(map(version.schema.index_of, version.schema.primary_key)))
        await self.put(batch, acks=acks, rules=PutRules(targets))

    async def _write(
        self,
        header: kv_batch.KvBatchHeader,
        records: kv_batch.KvRecords,
        *,
        rules: PutRules,
        is_small: bool,
        owner: int,
    ) -> int:
        """Merge, append and apply one batch; the caller holds the turn."""
        self.refuse_if_failed()
        resent = self.log.log.resent(
            header.writer_id, header.batch_sequence, checksum=header.crc, owner=owner
        )
        if resent is not None:
            return resent.end_offset
        batch = self._batch(header, records, rules)
        return await self._change(batch, is_small=is_small, owner=owner)

    async def _change(self, batch: PutBatch, *, is_small: bool, owner: int = NOBODY) -> int:
        self.ids.provide(len(batch.records.keys), batch.version)

        def merge() -> PreparedPut:
            ids = self.ids.take if batch.version.schema.auto_increment else None
            return prepare(
                batch, table=self.table, state=self.state, ids=ids, room=self._index_room
            )

        # An index of millions of keys takes long to grow, however small the batch is.
        is_quick = is_small and not self.state.index.growth_bytes(len(batch.records.keys))
        prepared = merge() if is_quick else await self.log.alone(merge)
        changelog = memoryview(prepared.changelog)
        end_offset, _ = await self.log.write(
            [(changelog, read_header(changelog))], len(changelog), owner=owner
        )
        self._apply(prepared, end_offset)
        return end_offset

    def _batch(
        self, header: kv_batch.KvBatchHeader, records: kv_batch.KvRecords, rules: PutRules
    ) -> PutBatch:
        version = self.table.latest()
        targets = self.table.targets(
            rules.target_columns, schema_id=header.schema_id, wanted=version
        )
        engine = self.table.engine(version, targets, overwrite=rules.overwrite)
        return PutBatch(
            header, records, engine, version, is_partial=rules.target_columns is not None
        )

    def _apply(self, prepared: PreparedPut, end_offset: int) -> None:
        """Bring the state to where the log is; what fails here leaves it behind for good."""
        with self.state.lock:
            try:
                locations, sizes = self._place(prepared, end_offset)
                self.state.apply(
                    prepared.found, locations, sizes=sizes, prefix_hashes=prepared.prefix_hashes
                )
            except BaseException as cause:
                raise self._left_behind(cause) from cause

    def _apply_one(self, prepared: PreparedOne, end_offset: int, version: TableVersion) -> None:
        with self.state.lock:
            try:
                self._place_one(prepared, end_offset, version)
            except BaseException as cause:
                raise self._left_behind(cause) from cause

    def _place_one(self, prepared: PreparedOne, end_offset: int, version: TableVersion) -> None:
        location, record = ABSENT, prepared.record
        if record is not None:
            now_ms = self._clock.now_ms()
            seal_aged(self.state.heap, version, now_ms)
            location = self.state.heap.append(
                np.frombuffer(record, np.uint8), schema_id=version.schema_id, timestamp_ms=now_ms
            )
        size = 0 if record is None else len(record)
        self._unsynced.note(
            end_offset, location=max(location, 0), size=size, removes=record is None
        )
        self.state.apply_one(prepared.held, location, size=size)

    def _left_behind(self, cause: BaseException) -> KvStorageError:
        self._failure = "The state of this bucket is behind its log."
        _events.error("state is behind its log", cause=cause)
        return KvStorageError(self._failure, hint="Restart the server to rebuild it.")

    def seal_aged(self, now_ms: int) -> None:
        """Let rows that expire by age not lie together with much younger ones."""
        seal_aged(self.state.heap, self.table.latest(), now_ms)

    def _place(self, prepared: PreparedPut, end_offset: int) -> tuple[Locations, Locations]:
        now_ms = self._clock.now_ms()
        self.seal_aged(now_ms)
        locations = prepared.found.locations.copy()
        sizes = np.zeros(len(locations), np.int64)
        locations[prepared.removed] = ABSENT
        removes = bool(len(prepared.removed))
        if removes:
            self._unsynced.note(end_offset, location=0, size=0, removes=True)
        for new in prepared.records:
            base = self.state.heap.append(new.data, schema_id=new.schema_id, timestamp_ms=now_ms)
            locations[new.keys], sizes[new.keys] = base + new.starts, new.sizes
            self._unsynced.note(end_offset, location=base, size=len(new.data), removes=False)
        return locations, sizes

    # ---- reading

    def values_now(self, keys: Sequence[bytes], *, bytes_max: int) -> list[bytes | None] | None:
        """Return the values of a few keys at once; None if that takes waiting, or fails.

        May be called from any thread. Rows that are not durable yet, more bytes than allowed, and
        a state that cannot be read are left to `lookup`.
        """
        with self.state.lock:
            if self._failure or self.state.is_released:
                return None
            return self._lookups.values_now(keys, bytes_max=bytes_max)

    async def lookup(self, keys: Sequence[bytes], room: Room) -> Values:
        """Return the value of each key, if there is room for them."""
        self.refuse_if_failed()
        return await self._lookups.lookup(keys, room)

    async def prefix_lookup(self, prefixes: Sequence[bytes], room: Room) -> list[list[bytes]]:
        """Return for each prefix the values of the keys that begin with it, if there is room."""
        self.refuse_if_failed()
        return await self._lookups.prefix_lookup(prefixes, room)

    async def scan(self, *, limit: int | None = None) -> StateScan:
        """Return a scan of all rows as they are at one offset of the log."""
        self.refuse_if_failed()
        async with self.log.turn:
            self.refuse_if_failed()
            offset = self.log.log.end_offset
            view, locations = await self.log.alone(partial(self.state.view, limit=limit))
        await self._durable(offset)
        return StateScan(view, locations, offset)

    @property
    def row_count(self) -> int:
        """Return how many rows there are."""
        return self.state.row_count

    @property
    def is_failed(self) -> bool:
        """Tell whether the state is not what the log says, until it is opened again."""
        return bool(self._failure)

    async def drop(self) -> None:
        """Let go of all rows and their files, once nobody changes or copies them."""
        async with self.log.turn:
            with self.state.lock:
                self.state.release()

    def refuse_if_failed(self) -> None:
        """Refuse work on a state that is not what the log says, or that was dropped."""
        if self.state.is_released:
            raise BucketMissingError("The bucket was dropped meanwhile.")
        if self._failure:
            raise BucketFencedError(self._failure, hint="Restart the server to rebuild it.")

    async def _durable(self, end_offset: int) -> None:
        if end_offset != DURABLE:
            await self.log.acknowledge(end_offset, acks=-1)

    def _synced(self) -> None:
        with self.state.lock:
            self._unsynced.forget(self.log.high_watermark)


def _done(read: _Read) -> asyncio.Future[_Read]:
    done: asyncio.Future[_Read] = asyncio.get_running_loop().create_future()
    done.set_result(read)
    return done


def _is_small(view: memoryview) -> bool:
    """Tell whether a batch is merged in no time: thousands of records fit into few bytes."""
    if len(view) > log_tablet.INLINE_BYTES_MAX:
        return False
    return (
        len(view) <= INLINE_RECORDS_MAX * kv_batch.RECORD_BYTES_MIN
        or kv_batch.read_kv_header(view).record_count <= INLINE_RECORDS_MAX
    )


def _read(view: memoryview) -> _Read:
    header = kv_batch.read_kv_header(view)
    kv_batch.check_kv_crc(view, header)
    return header, kv_batch.read_kv_records(view, header)
