"""One bucket of a primary-key table on a disk in memory, driven step by step."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headwater.kv.heap import LENGTH_BYTES, segment_of
from headwater.kv.store import KvStore
from headwater.log.log import Log
from headwater.log.retention import LogSettings
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor
from headwater.rows.changelog import read_changelog
from headwater.rows.kv_batch import build_kv_batch
from headwater.rows.row_bytes import RowBytes
from headwater.store.disk import Disk
from headwater.store.memory import Fate, MemoryDisk
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.pk_tablet import PkTablet, PutRules
from headwater.tablet.replay import recover_state
from headwater.tablet.state_read import HeldValues, Room, Values
from headwater.tablet.state_upkeep import StateFiles, StateUpkeep
from tests.tablet.support import HeldExecutor, ManualClock, settle

T = TypeVar("T")
Key = tuple
Row = tuple
Records = Sequence[tuple[Key, Row | None]]

DIRECTORY = "1/0"
SMALL_LOG = LogSettings(segment_bytes_max=3_000, index_interval_bytes=300)
SEGMENT_BYTES = 400
SEED = 7
SYMBOLS = {1: "+I", 2: "-U", 3: "+U", 4: "-D"}
STEPS_MAX = 1_000


class DirectExecutor(Executor):
    """Run every job at once, in the thread that asks for it."""

    def submit(self, function, /, *arguments, **named):
        future: Future[object] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - the outer edge of a job
            future.set_exception(error)
        return future


class Versions:
    """Be the catalog of one table."""

    def __init__(self, schema: Schema, *, bucket_keys: tuple[str, ...] = (), **properties: str):
        options = {f"table.{name.replace('_', '.')}": value for name, value in properties.items()}
        self.schemas = [with_column_ids(schema)]
        self.bucket_keys, self.properties = bucket_keys, options
        self.reserved = 0
        self._describe()

    def _describe(self) -> None:
        self.descriptor = TableDescriptor(
            schema=self.schemas[-1],
            bucket_keys=self.bucket_keys,
            bucket_count=1,
            properties=self.properties,
        )

    def latest(self) -> tuple[int, TableDescriptor]:
        return len(self.schemas), self.descriptor

    def schema(self, schema_id: int) -> Schema:
        return self.schemas[schema_id - 1]

    def reserve_ids(self, count: int) -> int:
        before, self.reserved = self.reserved, self.reserved + count
        return before

    def add(self, column: Column) -> None:
        last = self.schemas[-1]
        added = replace(column, column_id=last.highest_field_id + 1)
        columns = (*last.columns, added)
        self.schemas.append(
            replace(last, columns=columns, highest_field_id=last.highest_field_id + 1)
        )
        self._describe()


class Bucket:
    """Open, write, tend and crash one bucket; every wait is driven from here."""

    def __init__(
        self, versions: Versions, *, disk: Disk | None = None, is_stepped: bool = False
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.versions, self.is_stepped = versions, is_stepped
        self.disk = MemoryDisk() if disk is None else disk
        self.clock = ManualClock()
        self.open()

    # ---- life

    def open(self) -> None:
        self.jobs = HeldExecutor()
        self.table = KeyedTable(self.versions)
        self.log = Log.open(self.disk, DIRECTORY, settings=SMALL_LOG, clock=self.clock)
        self.store = KvStore(self.disk, f"{DIRECTORY}/kv")
        recovered = recover_state(
            self.log,
            self.store,
            self.table,
            seed=lambda: SEED,
            segment_bytes_max=SEGMENT_BYTES,
        )
        executor = self.jobs if self.is_stepped else DirectExecutor()
        self.log_tablet = LogTablet(self.log, executor=executor, clock=self.clock)
        files = StateFiles(recovered.state, self.store, executor=self.jobs)
        self.tablet = PkTablet(
            self.log_tablet,
            self.table,
            recovered.state,
            ids=recovered.ids,
            executor=executor,
            clock=self.clock,
            make_room=files.make_room,
        )
        self.upkeep = StateUpkeep(self.tablet, files, saved_offset=recovered.replayed_from)
        self.replayed_from = recovered.replayed_from

    def restart(self) -> None:
        self.tend(self.log_tablet.close())
        self.abandon()
        self.open()

    def crash(self, fate: Fate) -> None:
        """Lose what is not durable, as the fate of each change says, and start again."""
        assert isinstance(self.disk, MemoryDisk)
        self.disk = self.disk.crashed(fate)
        self.abandon()
        self.open()

    def abandon(self) -> None:
        """End everything that still waits for something."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for _ in range(STEPS_MAX):
            if not asyncio.all_tasks(self.loop):
                return
            self.step()
        raise AssertionError("a task does not end")

    def close(self) -> None:
        self.abandon()
        self.loop.close()

    # ---- driving

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.loop.run_until_complete(work)

    def tend(
        self,
        work: Coroutine[object, object, T],
        *,
        between: Sequence[Callable[[], object]] = (),
    ) -> T:
        """Do work whose jobs run in threads, with something else before each of them."""
        task = self.loop.create_task(work)
        steps = iter(between)
        for _ in range(STEPS_MAX):
            self.run(settle())
            if task.done():
                return task.result()
            next(steps, lambda: None)()
            if self.jobs.jobs:
                self.jobs.jobs.pop(0)()
        raise AssertionError("the work does not end")

    def step(self) -> None:
        """Run one job that waits for a thread, then let the loop turn once."""
        if self.jobs.jobs:
            self.jobs.jobs.pop(0)()
        self.run(turn())

    # ---- writing

    def batch(
        self,
        records: Records,
        *,
        schema_id: int | None = None,
        writer_id: int = -1,
        sequence: int = -1,
    ) -> bytes:
        schema_id = schema_id or len(self.versions.schemas)
        schema = arrow_schema(self.versions.schema(schema_id))
        filled = [
            (*key, *[None] * (len(schema) - len(key))) if row is None else row
            for key, row in records
        ]
        return build_kv_batch(
            self.keys([key for key, _ in records]),
            self.table.encode(as_arrow(filled, schema), schema_id),
            schema_id=schema_id,
            writer_id=writer_id,
            sequence=sequence,
            is_delete=np.array([row is None for _, row in records], np.bool_),
        )

    def put(self, batch: bytes, *, acks: int = -1, targets: tuple[int, ...] | None = None) -> int:
        receipt = self.tend(self.tablet.put(batch, acks=acks, rules=PutRules(targets)))
        return receipt.end_offset

    # ---- reading

    def keys(self, keys: Sequence[Key]) -> RowBytes:
        names = self.table.latest().key_names
        schema = pa.schema([self.table.latest().arrow.field(name) for name in names])
        return self.table.encode_keys(as_arrow(keys, schema), names)

    def rows(self, values: Sequence[bytes]) -> list[Row]:
        """Decode values, as a client does that knows all schemas."""
        ids = np.array([int.from_bytes(value[:2], "little") for value in values], np.int64)
        rows = RowBytes.of([value[2:] for value in values])
        decoded = self.table.decode(rows, ids, wanted=self.table.latest(), enforce_not_null=False)
        return as_tuples(decoded)

    def lookup_now(
        self, keys: Sequence[Key], *, bytes_max: int = 1 << 30
    ) -> list[Row | None] | None:
        """Look up without waiting; None where that cannot be."""
        values = self.tablet.values_now(self.keys(keys).to_list(), bytes_max=bytes_max)
        if values is None:
            return None
        rows = iter(self.rows([value for value in values if value is not None]))
        return [None if value is None else next(rows) for value in values]

    def lookup(self, keys: Sequence[Key]) -> list[Row | None]:
        values = as_list(self.tend(self.tablet.lookup(self.keys(keys).to_list(), Room(1 << 30))))
        rows = iter(self.rows([value for value in values if value is not None]))
        return [None if value is None else next(rows) for value in values]

    def prefix_lookup(self, prefix: bytes) -> list[Row]:
        return self.rows(self.tend(self.tablet.prefix_lookup([prefix], Room(1 << 30)))[0])

    def scan(self) -> list[Row]:
        scan = self.tend(self.tablet.scan())
        values: list[bytes] = []
        while not scan.is_done:
            values += scan.read(200).to_list()
        assert scan.offset == self.log.end_offset
        return self.rows(values)

    def changes(self, start: int | None = None) -> Iterator[tuple[int, list[tuple[str, Row]]]]:
        """Yield the end offset and the changes of each batch; offsets must have no gap."""
        position = self.log.start_offset if start is None else start
        width = len(self.versions.schemas[-1].columns)
        for batch in self.log.batches(position, up_to=self.log.end_offset):
            header = batch.header
            assert header.base_offset == position, "offsets have a gap"
            position = header.end_offset
            schema = arrow_schema(self.versions.schema(header.schema_id))
            types, rows = read_changelog(batch.read(0, header.size), header, schema)
            padding = (None,) * (width - len(schema))
            shown = [(*row, *padding) for row in as_tuples(rows)]
            symbols = [SYMBOLS[kind] for kind in types.tolist()]
            yield position, list(zip(symbols, shown, strict=True))
        assert position == self.log.end_offset

    def live_bytes(self) -> dict[int, int]:
        """Return the bytes of live records in each segment, counted one by one."""
        state = self.tablet.state
        _, locations = state.entries()
        counted = dict.fromkeys(state.heap.segments, 0)
        lengths = state.heap.view().lengths(locations) + LENGTH_BYTES
        for number, length in zip(segment_of(locations).tolist(), lengths.tolist(), strict=True):
            counted[number] += length
        return counted


async def turn() -> None:
    """Let everything run that is ready now."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.call_soon(ready.set_result, None)
    await ready


def as_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)


def as_tuples(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def as_list(values: Values) -> list[bytes | None]:
    if not isinstance(values, HeldValues):
        return values
    held = zip(values.values.to_list(), values.is_held.tolist(), strict=True)
    return [value if is_held else None for value, is_held in held]
