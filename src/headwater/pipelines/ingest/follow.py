"""Follow a source: gather epochs, write them, read ranges in between, settle what interrupts.

1. An epoch that was begun before a crash is gathered again up to the same place, and written first.
2. Then each turn takes one message. When the last epoch is written, the next one is cut, at the end
   of a transaction. 3. Ranges are read, and changes of columns settled, when nothing is in flight.
"""

import select
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from headwater import errors
from headwater.pipelines.ingest.form import PipelineForm, SchemaBehavior, SchemaChange, SourceTable
from headwater.pipelines.ingest.journal import EpochPlan, Json, PipelineJournal, SourcePosition
from headwater.pipelines.ingest.outset import Outset, begin_again, mark_of, note_ranges
from headwater.pipelines.ingest.postgres import collect, server
from headwater.pipelines.ingest.postgres.changes import RowChanges, TableShape
from headwater.pipelines.ingest.postgres.column_types import type_of
from headwater.pipelines.ingest.postgres.pgoutput import Message, RelationMessage, decode
from headwater.pipelines.ingest.postgres.ranges import ranges_of
from headwater.pipelines.ingest.postgres.stream import ChangeStream
from headwater.pipelines.ingest.schema_changes import (
    ColumnChange,
    dropped_in,
    follows,
    settle_columns,
)
from headwater.pipelines.ingest.sink import IngestSink
from headwater.pipelines.ingest.snapshot import RangeReader, RangeTask
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

EPOCH_BYTES_SOFT = 1 << 20
"""An epoch ends with the transaction that makes it this long: its rows fit in a batch."""
EPOCH_ROWS_MAX = 200_000
"""A longer transaction is written in several epochs."""
POLL_S = 0.05
STAY_S = 5.0
CONTROL_EVERY_S = 1.0
ALLOW_EVERY_S = 10.0
ROUND_GAP_S = 1.0
"""How long changes are followed between two rounds of ranges, if they keep coming."""

T = TypeVar("T")
_events = Events("ingest")


class StoppedError(Exception):
    """The pipeline was asked to stop."""


@dataclass(slots=True)
class IngestCounts:
    """What a run has done so far."""

    state: str = "starting"
    epochs: int = 0
    rows: int = 0
    range_rows: int = 0
    ranges_done: int = 0
    ranges: int = 0
    position: str = ""
    lag_bytes: int = 0
    at_ms: int = 0

    def document(self) -> Json:
        """The counts as a document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Flight:
    """An epoch on its way, and what may be confirmed when it is written."""

    plan: EpochPlan
    written: Future[int]


@dataclass(slots=True, kw_only=True)
class SourceFollower:
    """Follows one source over one connection."""

    form: PipelineForm
    reader: RangeReader
    journal: PipelineJournal
    sink: IngestSink
    stream: ChangeStream
    threads: ThreadPoolExecutor
    clock: Clock
    standing: Outset
    counts: IngestCounts
    is_stopped: Callable[[], bool]
    once: bool
    _collector: collect.Collector = field(init=False)
    _epoch: int = field(init=False)
    _allowed: int = field(init=False)
    _start: SourcePosition = field(init=False)
    """Where the epoch begins that is gathered now."""
    _flight: Flight | None = None
    _bytes: int = 0
    _is_paused: bool = False
    _control_at: float = 0.0
    _stay_at: float = 0.0
    _allow_at: float = 0.0
    _round_at: float = 0.0
    _sources: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        plan, is_done = self.standing.plan, self.standing.is_done
        self._epoch, self._allowed = plan.epoch, plan.allowed_lsn
        self._start = plan.stop if is_done else plan.start
        self._sources = Counter(map(self.form.target, self.standing.shapes))
        self._collector = collect.Collector(
            position=self._start,
            tables=self.standing.ranges,
            shape_of=self._shape_of,
            clock=self.standing.now,
            must_see=set(plan.must_see),
            end_lsn=plan.allowed_lsn if is_done else 0,
        )

    def run(self) -> None:
        """Follow until stopped."""
        if not self.standing.is_done:
            self._replay(self.standing.plan)
        self._catch_up_columns()
        try:
            while True:
                self._control()
                self._turn()
        except StoppedError:
            self._drain()
            self._cut()
            self._drain()
            self.journal.finish(self._epoch)
            self.stream.confirm(self._allowed)
            raise
        except errors.DisconnectedError:
            self._note_settled()
            raise

    def _replay(self, plan: EpochPlan) -> None:
        """Gather the rows of an epoch once more, and write what is missing of them."""
        _events.info("epoch begun before", epoch=plan.epoch)
        while self._collector.position < plan.stop:
            payload = self._next()
            if payload is not None:
                self._feed(decode(payload))
        if self._collector.position != plan.stop:
            raise errors.StorageError(
                f"Epoch {plan.epoch} ends at {plan.stop.text}, but PostgreSQL sends the changes "
                f"from {self._collector.position.text} on only.",
                hint="Run the pipeline with --restart: it takes all tables again.",
            )
        self._write(plan, is_new=False)
        self._drain()
        self.journal.finish(plan.epoch)

    def _next(self) -> bytes | None:
        """The next message, waiting for it a moment."""
        payload = self.stream.read()
        if payload is None:
            self._check_stopped()
            self.stream.wait(POLL_S)
        return payload

    # ---- turns

    def _turn(self) -> None:
        self._land()
        if self._is_paused:
            self._rest()
            return
        self._rounds()
        payload = self.stream.read()
        if payload is None:
            self._idle()
            return
        self._bytes += len(payload)
        self._feed(decode(payload))
        collector = self._collector
        if collector.count >= EPOCH_ROWS_MAX or (
            collector.is_between and self._bytes >= EPOCH_BYTES_SOFT
        ):
            self._drain()
            self._cut()
            if self._flight is None:
                # All of it was in ranges that were read, or will be: not to be sent once more.
                self._note_position()
                self.stream.confirm(self._allowed)

    def _feed(self, message: Message) -> None:
        while (interruption := self._collector.feed(message)) is not None:
            self._cut_here()
            self._settle(interruption)

    def _idle(self) -> None:
        """Nothing to read: write what there is, or wait."""
        if self._flight is None and self._collector.is_between:
            if self._collector.count:
                self._cut()
                return
            self._allow()
        wait = POLL_S if self._flight is None else POLL_S / 10
        self.stream.wait(wait)

    def _rest(self) -> None:
        self._drain()
        self._stay()
        select.select([], [], [], CONTROL_EVERY_S)

    def _allow(self) -> None:
        """Let the source forget what does not concern us while nothing comes."""
        now, end = self.clock.monotonic(), self.stream.log_end
        if self.once and not self._unread() and self._has_all(end):
            raise StoppedError
        if end > self._allowed and now >= self._allow_at:
            self._allow_at = now + ALLOW_EVERY_S
            self._allowed = end
            self.journal.finish(self._epoch)
            self.journal.allow(end)
            self.stream.confirm(end)

    def _has_all(self, end: int) -> bool:
        with server.reading(self.form.source) as cursor:
            target = server.log_end(cursor, flushed=True)
        self._stay()
        return end >= target

    # ---- epochs

    def _cut_here(self) -> None:
        self._drain()
        self._cut()
        self._drain()

    def _cut(self) -> None:
        """Send what was gathered on its way, as the next epoch."""
        collector = self._collector
        if not collector.count:
            return
        self._epoch += 1
        plan = EpochPlan(
            epoch=self._epoch,
            start=self._start,
            stop=collector.position,
            allowed_lsn=max(self._allowed, collector.end_lsn),
            mark=mark_of(self.form),
            must_see=sorted(collector.must_see),
        )
        self._write(plan, is_new=True)

    def _write(self, plan: EpochPlan, *, is_new: bool) -> None:
        gathered = self._collector.take()
        self._bytes, self._start = 0, plan.stop
        self._flight = Flight(
            plan, self.threads.submit(self._written, gathered, plan, is_new=is_new)
        )

    def _written(
        self, gathered: list[tuple[SourceTable, RowChanges]], plan: EpochPlan, *, is_new: bool
    ) -> int:
        rows = self.sink.prepare(gathered, plan)
        if is_new:
            for table in {table for table, _ in gathered}:
                if self.standing.ranges[table].stale:
                    note_ranges(self.journal, table, self.standing.ranges[table])
            self.journal.plan(plan)
        return self.sink.write(rows, plan.epoch)

    def _land(self) -> None:
        if self._flight is not None and self._flight.written.done():
            self._drain()

    def _drain(self) -> None:
        """Wait for the epoch on its way, and tell the source what it may forget."""
        flight = self._flight
        if flight is None:
            return
        rows = self._waited(flight.written)
        self._flight = None
        self._allowed = max(self._allowed, flight.plan.allowed_lsn)
        self.counts.epochs += 1
        self.counts.rows += rows
        self.counts.position = server.format_lsn(flight.plan.stop.lsn)
        # First: what is confirmed is never sent again, so it must not be waited for.
        self.journal.finish(flight.plan.epoch)
        self.stream.confirm(self._allowed)

    def _waited(self, future: Future[T]) -> T:
        """Wait for something, while the source sees that we are alive."""
        while True:
            try:
                return future.result(STAY_S)
            except TimeoutError:
                if future.done():
                    raise
                self._stay()

    def _stay(self) -> None:
        """Tell the source that we are alive; what that confirms is noted first."""
        self._note_settled()
        self.stream.stay()

    def _note_settled(self) -> None:
        end = self.stream.log_end
        if self.stream.is_settled and end > self._allowed:
            self._allowed = end
            self.journal.allow(end)

    # ---- ranges

    def _unread(self) -> list[SourceTable]:
        return [table for table, read in self.standing.ranges.items() if read.unread]

    def _rounds(self) -> None:
        """Read some ranges, if there are any to read and it is their turn."""
        if not self._collector.is_between:
            return
        self._forget_stale()
        tables = self._unread()
        if not tables or self.clock.monotonic() < self._round_at:
            return
        self._cut_here()
        self.journal.finish(self._epoch)
        with server.reading(self.form.source) as cursor:
            now = server.Visibility.parse(server.visibility_now(cursor))
        self._collector.clock = now
        must_see = {each for each in self._collector.must_see if each >= now.xmin}
        self._collector.must_see = must_see
        ready = [each for each in tables if self.standing.ranges[each].wait_xid <= now.xmin]
        if ready:
            self._read_ranges(ready, tuple(must_see))
        self._round_at = self.clock.monotonic() + (ROUND_GAP_S if self._has_more() else 0.0)

    def _forget_stale(self) -> None:
        """Have ranges read again in which a row came without a value, as its key changed."""
        found = [table for table, read in self.standing.ranges.items() if read.stale]
        if not found:
            return
        self._cut_here()
        self.journal.finish(self._epoch)
        for table in found:
            self.standing.ranges[table].forget_stale()
            note_ranges(self.journal, table, self.standing.ranges[table])

    def _has_more(self) -> bool:
        """Tell whether changes wait to be followed."""
        return bool(select.select([self.stream], [], [], 0)[0])

    def _read_ranges(self, tables: list[SourceTable], must_see: tuple[int, ...]) -> None:
        tasks = [
            RangeTask(
                table,
                self.standing.shapes[table],
                ranges_of(read.bounds)[number],
                must_see,
                replaces=read.generation > 0 and self._sources[self.form.target(table)] == 1,
            )
            for table in tables
            for read in [self.standing.ranges[table]]
            for number in read.unread[: self.form.handling.parallelism]
        ][: self.form.handling.parallelism]
        self.counts.state = "reading ranges"
        found = self._waited(self.threads.submit(self.reader, self.form, tasks))
        with server.reading(self.form.source) as cursor:
            end = server.log_end(cursor)
        for each in found:
            read = self.standing.ranges[each.table]
            read.done[each.number] = server.Visibility.parse(each.visibility)
            self.counts.range_rows += each.rows
            if read.is_complete:
                read.until_lsn = end
                _events.info("ranges read", table=str(each.table), ranges=len(read.done))
        for table in {each.table for each in found}:
            note_ranges(self.journal, table, self.standing.ranges[table])

    # ---- what interrupts

    def _settle(self, interruption: collect.Interruption) -> None:
        """Carry over a change of columns, or an emptied table, between two epochs."""
        self.journal.finish(self._epoch)
        match interruption:
            case collect.ColumnsChanged(relation):
                self._settle_columns(relation)
            case collect.TablesEmptied(tables, commit_lsn):
                for table in tables:
                    self._settle_emptied(table, commit_lsn)
                self._collector.pass_over()
                self._note_position()

    def _settle_columns(self, relation: RelationMessage) -> None:
        table = SourceTable(relation.schema, relation.name)
        self._look()
        self._alter(table, self._described(relation))
        self._collector.follow(relation, self.standing.shapes[table])

    def _alter(self, table: SourceTable, new: TableShape) -> None:
        versions = ColumnChange(table, self.standing.shapes[table], new)
        found = self.standing.found.get(table)
        if settle_columns(self.form, self.sink, found, versions):
            begin_again(self.journal, table, self.standing.ranges[table])
        self.standing.shapes[table] = self.sink.taken(table, new)

    def _catch_up_columns(self) -> None:
        """Add columns that no change has told of yet: a new one is told with the next row only."""
        if follows(self.form, SchemaChange.ADD_COLUMN):
            for table, found in self.standing.found.items():
                if self.sink.missing(table, found.shape):
                    self._alter(table, found.shape)

    def _look(self) -> None:
        """Look again at the tables as the database has them now."""
        with server.reading(self.form.source) as cursor:
            found = server.find_tables(self.form.source, cursor)
        self.standing.found = {each.table: each for each in found}

    def _settle_emptied(self, table: SourceTable, commit_lsn: int) -> None:
        if self.form.handling.behavior is SchemaBehavior.EXCEPTION:
            raise errors.ConflictError(
                f"The table {table} was truncated.",
                hint="Set 'schema.change.behavior' to 'evolve' to follow that.",
            )
        if not follows(self.form, SchemaChange.TRUNCATE_TABLE):
            _events.warning("truncate not followed", table=str(table))
            return
        if self._sources[self.form.target(table)] > 1:
            raise errors.ConflictError(
                f"The table {table} was truncated, and {self.form.target(table)} has rows of other "
                "tables as well.",
                hint="Name truncate.table in 'exclude.schema.changes' to go on without.",
            )
        rows = self.sink.empty(table)
        _events.info("table emptied", table=str(table), rows=rows)
        read = self.standing.ranges[table]
        if not read.is_complete or commit_lsn <= read.until_lsn:
            begin_again(self.journal, table, read)

    def _note_position(self) -> None:
        """Note a position that no row came with."""
        at = self._start = self._collector.position
        self._epoch, self._bytes = self._epoch + 1, 0
        if self._collector.is_between:
            self._allowed = max(self._allowed, self._collector.end_lsn)
        plan = EpochPlan(
            epoch=self._epoch,
            start=at,
            stop=at,
            allowed_lsn=self._allowed,
            mark=mark_of(self.form),
            must_see=sorted(self._collector.must_see),
        )
        self.journal.plan(plan)
        self.journal.finish(self._epoch)

    def _shape_of(self, relation: RelationMessage) -> TableShape | None:
        """The columns to take of a table; None if they changed in a way to be settled first."""
        table = SourceTable(relation.schema, relation.name)
        new, old = self._described(relation), self.standing.shapes[table]
        watches = self.form.handling.behavior is SchemaBehavior.EXCEPTION
        added = self.sink.missing(table, new)
        if added and (watches or follows(self.form, SchemaChange.ADD_COLUMN)):
            return None
        if any(name not in new.names for name in old.names):
            self._look()
            is_dropped = bool(dropped_in(self.standing.found.get(table), old, new))
            if is_dropped and (watches or follows(self.form, SchemaChange.DROP_COLUMN)):
                return None
        return self.sink.taken(table, new)

    def _described(self, relation: RelationMessage) -> TableShape:
        table = SourceTable(relation.schema, relation.name)
        key = self.standing.shapes[table].key
        names = tuple(column.name for column in relation.columns)
        if not set(key) <= set(names):
            raise errors.ConflictError(
                f"The primary key of {table} has other columns now.",
                hint="Drop the sink table, and take the source table again under another pipeline.",
            )
        return TableShape(names, tuple(map(type_of, relation.columns)), key)

    # ---- users

    def _control(self) -> None:
        """Now and then, look what users want, and say how it goes."""
        self._check_stopped()
        now = self.clock.monotonic()
        if now < self._control_at:
            return
        self._control_at = now + CONTROL_EVERY_S
        if now >= self._stay_at:
            self._stay_at = now + STAY_S
            self._stay()
        wanted = self.journal.wanted()
        if wanted.get("stop"):
            raise StoppedError
        self._is_paused = bool(wanted.get("paused"))
        self._take_again(wanted)
        ranges = self.standing.ranges.values()
        counts = self.counts
        counts.state = "paused" if self._is_paused else "following"
        if self._unread():
            counts.state = "paused" if self._is_paused else "reading ranges"
        counts.ranges = sum(len(each.bounds) + 1 for each in ranges)
        counts.ranges_done = sum(len(each.done) for each in ranges)
        counts.lag_bytes = max(0, self.stream.log_end - self._allowed)
        counts.at_ms = self.clock.now_ms()
        self.journal.tell(counts.document())

    def _take_again(self, wanted: Json) -> None:
        again = wanted.get("resnapshot") or {}
        assert isinstance(again, dict)
        for table, read in self.standing.ranges.items():
            generation = again.get(str(table), 0)
            if generation > read.generation:
                self._cut_here()
                self.journal.finish(self._epoch)
                begin_again(self.journal, table, read)

    def _check_stopped(self) -> None:
        if self.is_stopped():
            raise StoppedError
