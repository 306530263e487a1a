"""Joining small batches changes nothing that anybody can ask of a log."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import StoppingError
from headwater.log.join import ROLL_BATCHES_IDLE, ROLL_IDLE_MS, should_roll
from headwater.log.log import Log
from headwater.log.retention import LogSettings
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, StringType
from headwater.rows.join import Joiner, original_headers, read_parts
from headwater.rows.log_batch import (
    NO_WRITER,
    build_batch,
    check_crc,
    read_header,
    read_sections,
)
from headwater.rows.message import MessageWriter
from headwater.rows.statistics import encode_statistics
from headwater.store.memory import MemoryDisk
from tests.choices import examples
from tests.log.support import DIRECTORY, FixedClock, InterposedDisk
from tests.log.test_crash_states import fates

NARROW = (
    Column(name="id", type=BigIntType(), column_id=0),
    Column(name="text", type=StringType(), column_id=1),
)
MORE = Column(name="more", type=BigIntType(), column_id=2)
SCHEMAS = {
    1: Schema(columns=NARROW),
    2: Schema(columns=(*NARROW, MORE)),
}
JOINER = Joiner(SCHEMAS.__getitem__, pa.Codec("zstd"))
LIMITS = LogSettings(
    segment_bytes_max=4_000, index_interval_bytes=500, join_gain_min=2, join_rows_max=12
)


@dataclass(frozen=True)
class Row:
    """Hold what a reader of the log sees of one row."""

    offset: int
    id: int
    text: str
    change: int
    timestamp_ms: int


@dataclass
class Oracle:
    """Write to a log, remember everything, and compare."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    rows: list[Row] = field(default_factory=list)
    sent: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    now_ms: int = 1_000
    joins: int = 0
    log: Log = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.opened(self.disk)

    @staticmethod
    def opened(disk) -> Log:
        return Log.open(disk, DIRECTORY, settings=LIMITS, clock=FixedClock())

    def append(self, count: int, *, writer: int = 7, kind: int = 0, later_ms: int = 1) -> None:
        self.now_ms += later_ms
        base, sequence = self.log.end_offset, len(self.sent.get(writer, ()))
        ids = list(range(base, base + count))
        columns = {"id": ids, "text": [f"text {number}" for number in ids], "more": ids}
        schema_id = 2 if kind == 2 else 1
        arrow = arrow_schema(SCHEMAS[schema_id])
        rows = pa.RecordBatch.from_pydict({n: columns[n] for n in arrow.names}, schema=arrow)
        changes = bytes(1 + number % 4 for number in ids) if kind == 1 else None
        batch = build_batch(
            MessageWriter(arrow, None).write(rows),
            schema_id=schema_id,
            record_count=count,
            writer_id=writer,
            sequence=sequence,
            statistics=encode_statistics(rows, SCHEMAS[1], (0,)) if kind == 3 else None,
            changes=changes,
        )
        self.log.append([batch], timestamp_ms=self.now_ms)
        if writer != NO_WRITER:
            crc = read_header(batch).crc
            self.sent.setdefault(writer, []).append((sequence, base, base + count, crc))
        self.rows += [
            Row(at, at, f"text {at}", changes[at - base] if changes else 0, self.now_ms)
            for at in ids
        ]

    def join(self) -> None:
        self.joins += self.log.join(JOINER) is not None

    def crash(self, fate: Callable) -> None:
        self.disk = self.disk.crashed(fate)
        synced, self.log = self.log.synced_offset, self.opened(self.disk)
        assert self.log.end_offset >= synced
        self.forget_behind(self.log.end_offset)

    def forget_behind(self, end: int) -> None:
        self.rows = [row for row in self.rows if row.offset < end]
        self.sent = {w: [s for s in sent if s[2] <= end] for w, sent in self.sent.items()}

    def check(self, log: Log | None = None) -> None:
        """Compare everything that can be asked, from every offset and for every time."""
        log = log or self.log
        start = log.start_offset
        kept = [row for row in self.rows if row.offset >= start]
        assert log.faults == ()
        assert seen(log, start) == kept
        for row in kept[:: max(1, len(kept) // 8)]:
            assert seen(log, row.offset) == kept[row.offset - start :]
        for moment in {row.timestamp_ms + by for row in kept for by in (0, 1)}:
            later = [row.offset for row in kept if row.timestamp_ms >= moment]
            assert log.offset_for_timestamp(moment) == (later[0] if later else log.end_offset)
        for writer, sent in () if log.is_fenced else self.sent.items():
            for sequence, base, end, crc in sent[-1:]:
                if base >= start:
                    resent = log.resent(writer, sequence, checksum=crc)
                    assert (resent.base_offset, resent.end_offset) == (base, end)


def seen(log: Log, offset: int) -> list[Row]:
    found: list[Row] = []
    for stored in log.batches(offset, up_to=log.end_offset):
        header, data = stored.header, stored.read(0, stored.header.size)
        check_crc(data, header)
        sections = read_sections(data, header)
        message = pa.py_buffer(data[sections.changes_end :])
        rows = pa.ipc.read_record_batch(message, arrow_schema(SCHEMAS[header.schema_id]))
        changes = data[sections.parts_end : sections.changes_end] or bytes(header.record_count)
        times = read_parts(data, header).row_timestamps().tolist()
        base = header.base_offset
        columns = (rows["id"].to_pylist(), rows["text"].to_pylist(), changes, times)
        found += [Row(base + at, *values) for at, values in enumerate(zip(*columns, strict=True))]
    return [row for row in found if row.offset >= offset]


def written(oracle: Oracle, count: int) -> None:
    for number in range(count):
        oracle.append(1 + number % 2, writer=7 + number % 2, later_ms=number % 3)


def sealed(oracle: Oracle) -> None:
    oracle.log.roll()
    oracle.log.checkpoint()


STEPS = st.one_of(
    st.tuples(
        st.just("append"),
        st.integers(1, 5),
        st.sampled_from((-1, 7, 8)),
        st.sampled_from((0, 0, 0, 1, 2, 3)),
        st.integers(0, 3),
    ),
    st.tuples(st.sampled_from(("sync", "sealed", "join", "join", "reopen", "forget"))),
    st.tuples(st.just("crash"), st.integers(0, 4), st.integers(0, 200)),
    st.tuples(st.just("delete"), st.integers(0, 50)),
)


def reopen(oracle: Oracle) -> None:
    oracle.log.close()
    oracle.log = oracle.opened(oracle.disk)


def forget(oracle: Oracle) -> None:
    """Delete whatever can be rebuilt."""
    oracle.log.close()
    for name in oracle.disk.listdir(DIRECTORY):
        # The start of a log is known by its checkpoint alone.
        if name.endswith(".index") or (name == "checkpoint" and not oracle.log.start_offset):
            oracle.disk.unlink(f"{DIRECTORY}/{name}")
    oracle.log = oracle.opened(oracle.disk)


def crash(oracle: Oracle, kept: int, torn: int) -> None:
    """Keep some of the changes that are not synced, and the first bytes of another one."""
    changes = oracle.disk.unsynced()[: kept + 1]
    fate = {
        change.number: change.data[:torn] if at == kept else change.data
        for at, change in enumerate(changes)
    }
    oracle.crash(lambda change: fate.get(change.number))


PLAIN = {
    "sync": lambda oracle: oracle.log.sync(),
    "sealed": sealed,
    "join": Oracle.join,
    "reopen": reopen,
    "forget": forget,
}


def take(oracle: Oracle, step: tuple) -> None:
    match step:
        case ("append", count, writer, kind, later_ms):
            for _ in range(8):
                oracle.append(count, writer=writer, kind=kind, later_ms=later_ms)
        case ("crash", kept, torn):
            crash(oracle, kept, torn)
        case ("delete", offset):
            oracle.log.delete_before(min(offset, oracle.log.end_offset))
        case (name,):
            PLAIN[name](oracle)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_appends_joins_and_crashes_in_any_order_leave_what_was_written(steps):
    oracle = Oracle()

    for step in steps:
        take(oracle, step)

    oracle.check()
    sealed(oracle)
    while oracle.log.join(JOINER) is not None:
        pass
    oracle.check()


def test_a_segment_of_small_batches_becomes_few_and_smaller():
    oracle = Oracle()
    written(oracle, 60)
    sealed(oracle)
    before = oracle.log.size_bytes

    while oracle.log.join(JOINER) is not None:
        oracle.joins += 1

    headers = [each.header for each in oracle.log.batches(0, up_to=oracle.log.end_offset)]
    assert oracle.joins > 1
    assert len(headers) <= 20
    assert oracle.log.size_bytes < before / 2
    oracle.check()
    oracle.log.close()
    oracle.check(oracle.opened(oracle.disk))


def test_no_crash_while_segments_are_joined_changes_what_is_read():
    memory, moments = MemoryDisk(), []
    disk = InterposedDisk(memory)
    oracle = Oracle(disk)
    written(oracle, 40)
    sealed(oracle)

    def observe(operation: str, path: str) -> None:
        moments.extend(
            (memory.crashed(fate), f"{operation} {path}, {label}")
            for label, fate in fates(memory.unsynced())
        )

    disk.after = observe
    oracle.join()
    oracle.join()

    assert oracle.joins == 2
    assert len(moments) > 50
    for image, label in moments:
        log = oracle.opened(image)
        assert log.end_offset == oracle.log.end_offset, label
        oracle.check(log)
        assert not [name for name in image.listdir(DIRECTORY) if name.endswith(".tmp")], label


def test_a_disk_that_fails_at_any_step_of_a_join_loses_nothing():
    for number in range(1, 60):
        oracle, count = Oracle(disk := InterposedDisk(memory := MemoryDisk())), iter(range(10_000))
        written(oracle, 30)
        sealed(oracle)

        def fail(operation: str, path: str, number: int = number, count=count) -> None:
            if next(count) == number and operation not in ("read", "listdir"):
                raise OSError(5, "injected", path)

        disk.before = fail
        with suppress(OSError):
            oracle.join()
        disk.before = lambda operation, path: None
        oracle.check()
        oracle.check(oracle.opened(memory.crashed(lambda change: None)))
        oracle.check(oracle.opened(memory.crashed(lambda change: change.data)))


def test_a_damaged_batch_is_never_made_good_by_joining_it():
    oracle = Oracle()
    written(oracle, 30)
    sealed(oracle)
    path = f"{DIRECTORY}/{0:020d}.log"
    oracle.disk._names[path].current[200] ^= 1

    oracle.join()

    assert oracle.disk.open(path).size > 3_000
    assert not [name for name in oracle.disk.listdir(DIRECTORY) if name.endswith(".tmp")]


def test_readers_go_on_while_segments_are_replaced_under_them():
    oracle = Oracle()
    written(oracle, 200)
    sealed(oracle)
    stop, faults = threading.Event(), []

    def read() -> None:
        try:
            while not stop.is_set():
                oracle.check()
        except Exception as fault:  # noqa: BLE001 - told by the test
            faults.append(fault)

    thread = threading.Thread(target=read)
    thread.start()
    while oracle.log.join(JOINER) is not None:
        oracle.joins += 1
    stop.set()
    thread.join()

    assert oracle.joins > 5
    assert faults == []


def test_closing_a_log_ends_a_join():
    oracle = Oracle()
    written(oracle, 30)
    sealed(oracle)

    class Closing:
        def join(self, batches) -> bytes | None:
            threading.Thread(target=oracle.log.close).start()
            while not oracle.log._state.is_closed:
                pass
            return JOINER.join(batches)

    with pytest.raises(StoppingError):
        oracle.log.join(Closing())

    oracle.check(oracle.opened(oracle.disk))


def test_the_headers_that_were_joined_can_be_told_again():
    oracle = Oracle()
    written(oracle, 12)
    stored = list(oracle.log.batches(0, up_to=oracle.log.end_offset))
    before = [each.header for each in stored]
    data = JOINER.join([each.read(0, each.header.size) for each in stored])

    told = list(original_headers(data, read_header(data)))

    assert [(h.base_offset, h.end_offset, h.commit_timestamp) for h in told] == [
        (h.base_offset, h.end_offset, h.commit_timestamp) for h in before
    ]
    assert [(h.writer_id, h.sequence, h.crc) for h in told] == [
        (h.writer_id, h.sequence, h.crc) for h in before
    ]


def test_readers_that_know_nothing_of_joins_get_a_batch_for_each_time():
    oracle = Oracle()
    for number in range(12):
        oracle.append(2, kind=1, later_ms=number % 2)
    stored = list(oracle.log.batches(0, up_to=oracle.log.end_offset))
    data = JOINER.join([each.read(0, each.header.size) for each in stored])

    pieces = list(JOINER.split(data, read_header(data), offset=3))
    headers = [read_header(piece) for piece in pieces]

    assert not any(header.is_joined for header in headers)
    assert headers[0].base_offset <= 3 < headers[0].end_offset
    assert headers[-1].end_offset == 24
    times = np.concatenate([[h.commit_timestamp] * h.record_count for h in headers])
    first = headers[0].base_offset
    assert times.tolist() == [row.timestamp_ms for row in oracle.rows[first:]]
    for piece, header in zip(pieces, headers, strict=True):
        check_crc(piece, header)
        changes = piece[48 : 48 + header.record_count]
        rows = oracle.rows[header.base_offset : header.end_offset]
        assert list(changes) == [row.change for row in rows]


def test_an_active_segment_is_sealed_for_many_small_batches_or_when_it_rests():
    few, idle = ROLL_BATCHES_IDLE, ROLL_IDLE_MS

    assert not should_roll(few, last_ms=0, now_ms=idle - 1)
    assert should_roll(few, last_ms=0, now_ms=idle)
    assert not should_roll(few - 1, last_ms=0, now_ms=idle)
    assert should_roll(few * 16, last_ms=0, now_ms=0)
