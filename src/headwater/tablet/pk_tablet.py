"""The upsert path of one bucket of a primary-key table, and reading its rows by key."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from headwater.errors import BucketFencedError, BucketMissingError, KvStorageError
from headwater.kv.location import ABSENT, Locations
from headwater.kv.state import KvState
from headwater.log.writers import NOBODY
from headwater.rows.kv_batch import (
    RECORD_BYTES_MIN,
    KvBatchHeader,
    KvRecords,
    build_kv_batch,
    check_kv_crc,
    read_kv_header,
    read_kv_records,
)
from headwater.rows.log_batch import NO_SEQUENCE, NO_WRITER, read_header
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import to_the_end
from headwater.store.disk import Part
from headwater.tablet.ages import seal_aged
from headwater.tablet.auto_ids import AutoIds
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import (
    ANYONE,
    INLINE_BYTES_MAX,
    LogTablet,
    Sender,
    check_acks,
)
from headwater.tablet.lookups import Lookups, Room, Values
from headwater.tablet.merging import Batch, Prepared, prepare
from headwater.tablet.state_scan import StateScan
from headwater.tablet.unsynced import DURABLE, Unsynced

_events = Events("pk_tablet")
# More full segments than this in memory make writers wait for the disk.
UNWRITTEN_SEGMENTS_MAX = 1
INLINE_RECORDS_MAX = 1024

_Read = tuple[KvBatchHeader, KvRecords]


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
    therefore safe in the loop at any time, and in a thread for whoever holds the turn.
    """

    def __init__(
        self,
        log: LogTablet,
        table: KeyedTable,
        state: KvState,
        *,
        ids: AutoIds,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self.log = log
        self.table = table
        self.state = state
        self.ids = ids
        self._executor = executor
        self._clock = clock
        self._failure = ""
        self._unsynced = Unsynced()
        self._lookups = Lookups(state, self._unsynced, table=table, log=log)
        # Writes full segments out; whoever keeps the files of the state provides it.
        self.make_room: Callable[[], Awaitable[None]] = _nothing
        log.listen(self._synced)

    # ---- writing

    async def put(
        self, records: Part, *, acks: int, rules: PutRules, sender: Sender = ANYONE
    ) -> PutReceipt:
        """Write one batch of upserts and deletes, all of it or nothing.

        1. begin to read the batch, in a thread where that takes long  2. wait for the turn
        3. merge, append the changelog, apply  4. wait until durable
        """
        check_acks(acks)
        view = memoryview(records).toreadonly()
        is_small = _is_small(view)
        read = _done(_read(view)) if is_small else self._in_thread(view)
        if self.state.heap.unwritten_count > UNWRITTEN_SEGMENTS_MAX:
            await self.make_room()
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
            header = KvBatchHeader(0, 0, version.schema_id, 0, NO_WRITER, NO_SEQUENCE, len(keys))
            nothing = RowBytes(keys.data, keys.ends, keys.ends)
            records = KvRecords(keys, nothing, np.ones(len(keys), np.bool_), keys.starts)
            batch = Batch(header, records, self.table.removing(version), version, is_partial=False)
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
        batch = build_kv_batch(distinct, encoded, schema_id=version.schema_id)
        targets = tuple(sorted(map(version.schema.index_of, version.schema.primary_key)))
        await self.put(batch, acks=acks, rules=PutRules(targets))

    async def _write(
        self,
        header: KvBatchHeader,
        records: KvRecords,
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

    async def _change(self, batch: Batch, *, is_small: bool, owner: int = NOBODY) -> int:
        self.ids.provide(len(batch.records.keys), batch.version)

        def merge() -> Prepared:
            ids = self.ids.take if batch.version.schema.auto_increment else None
            return prepare(batch, table=self.table, state=self.state, ids=ids)

        prepared = merge() if is_small else await self.log.alone(merge)
        changelog = memoryview(prepared.changelog)
        end_offset, _ = await self.log.write(
            [(changelog, read_header(changelog))], len(changelog), owner=owner
        )
        self._apply(prepared, end_offset)
        return end_offset

    def _batch(self, header: KvBatchHeader, records: KvRecords, rules: PutRules) -> Batch:
        version = self.table.latest()
        targets = self.table.targets(
            rules.target_columns, schema_id=header.schema_id, wanted=version
        )
        engine = self.table.engine(version, targets, overwrite=rules.overwrite)
        return Batch(header, records, engine, version, is_partial=rules.target_columns is not None)

    def _apply(self, prepared: Prepared, end_offset: int) -> None:
        """Bring the state to where the log is; what fails here leaves it behind for good."""
        try:
            locations, sizes = self._place(prepared, end_offset)
            self.state.apply(
                prepared.found, locations, sizes=sizes, prefix_hashes=prepared.prefix_hashes
            )
        except BaseException as cause:
            self._failure = "The state of this bucket is behind its log."
            _events.error("state is behind its log", cause=cause)
            raise KvStorageError(self._failure, hint="Restart the server to rebuild it.") from cause

    def seal_aged(self, now_ms: int) -> None:
        """Let rows that expire by age not lie together with much younger ones."""
        seal_aged(self.state.heap, self.table.latest(), now_ms)

    def _place(self, prepared: Prepared, end_offset: int) -> tuple[Locations, Locations]:
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
        self._unsynced.forget(self.log.high_watermark)


async def _nothing() -> None:
    pass


def _done(read: _Read) -> asyncio.Future[_Read]:
    done: asyncio.Future[_Read] = asyncio.get_running_loop().create_future()
    done.set_result(read)
    return done


def _is_small(view: memoryview) -> bool:
    """Tell whether a batch is merged in no time: thousands of records fit into few bytes."""
    if len(view) > INLINE_BYTES_MAX:
        return False
    return (
        len(view) <= INLINE_RECORDS_MAX * RECORD_BYTES_MIN
        or read_kv_header(view).record_count <= INLINE_RECORDS_MAX
    )


def _read(view: memoryview) -> _Read:
    header = read_kv_header(view)
    check_kv_crc(view, header)
    return header, read_kv_records(view, header)
