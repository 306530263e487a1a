"""What must be true of a bucket after a crash, whatever the crash did to its disk."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from headwater.audit.files.walk import audit_disk
from headwater.audit.report import Notes, Severity
from headwater.errors import DamagedRangeError, KvStorageError
from headwater.kv.store import KvStore
from headwater.log.log import Log
from headwater.log.scan import StoredBatch
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema
from headwater.model.types import IntType, StringType
from headwater.rows.changelog import sent_checksum
from headwater.rows.log_batch import ChangeType, build_batch, read_sections
from headwater.rows.row_bytes import RowBytes
from headwater.store.memory import MemoryDisk
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.replay import RecoveredState, recover_state
from tests.crashes.images import Image, files_in
from tests.crashes.storage import SMALL
from tests.crashes.workload import Promise, Rows
from tests.log.support import FixedClock
from tests.tablet.keyed_bucket import SEED, Versions, as_tuples

KEYED = Schema(
    columns=(
        Column(name="id", type=IntType(nullable=False)),
        Column(name="text", type=StringType()),
    ),
    primary_key=("id",),
)
LOGGED = Schema(columns=(Column(name="id", type=IntType()), Column(name="text", type=StringType())))
DAILY = Schema(columns=(*LOGGED.columns, Column(name="day", type=StringType())))
SCHEMAS = {"1/0": LOGGED, "2/p1/0": DAILY, "2/p2/0": DAILY, "3/0": KEYED}


@dataclass(slots=True)
class Served:
    """Hold what a log gives to those who read it."""

    values: dict[int, str] = field(default_factory=dict)
    gaps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Count what became of images."""

    checked: int = 0
    damaged: int = 0
    refused: int = 0
    labels: list[str] = field(default_factory=list)


def open_log(disk: MemoryDisk, at: str) -> Log:
    return Log.open(disk, at, settings=SMALL.log, clock=FixedClock(2**41))


def open_state(disk: MemoryDisk, at: str, log: Log) -> tuple[RecoveredState, KvStore, KeyedTable]:
    table = KeyedTable(Versions(KEYED))
    store = KvStore(disk, f"{at}/kv")
    recovered = recover_state(
        log, store, table, seed=lambda: SEED, segment_bytes_max=SMALL.kv.segment_bytes_max
    )
    return recovered, store, table


def check_image(image: Image, promise: Promise, tally: Tally) -> None:
    """Open a bucket as it was left, and compare with what was promised of it.

    1. everything acked is there, once, where it was said to be  2. a state is the fold of its log
    3. opening it again changes nothing, even after another crash  4. writing goes on behind it
    """
    disk = image.disk()
    tally.checked += 1
    check_bucket(disk, image, promise, tally)
    before = files_in(disk, image.at)
    check_bucket(disk, image, promise, Tally())
    assert files_in(disk, image.at) == before, image.label
    check_bucket(disk.crashed(lambda change: None), image, promise, Tally())
    check_audit(disk, image)
    check_next(disk, image)


def check_audit(disk: MemoryDisk, image: Image) -> None:
    """An audit of the files finds nothing wrong but what the log tells of itself."""
    notes = Notes()
    audit_disk(disk, notes, deep=True)
    errors = [each for each in notes.findings if each.severity is Severity.ERROR]
    assert not errors or open_log(disk, image.at).faults, (image.label, errors)


def check_bucket(disk: MemoryDisk, image: Image, promise: Promise, tally: Tally) -> None:
    log = open_log(disk, image.at)
    assert log.end_offset >= image.acked_end, image.label
    assert log.start_offset in image.start_offsets, image.label
    assert log.synced_offset == log.end_offset, image.label
    check_writers(log, image)
    if image.at == "3/0":
        check_rows(disk, log, image, promise, tally)
    else:
        check_values(log, image, promise, tally)


def check_values(log: Log, image: Image, promise: Promise, tally: Tally) -> None:
    served = read(log, image.at)
    promised = {
        offset: value
        for offset, value in promise.written.items()
        if log.start_offset <= offset < image.acked_end
    }
    assert promised.items() <= served.values.items(), image.label
    assert served.values.items() <= promise.written.items(), image.label
    assert bool(served.gaps) == bool(log.faults), image.label
    assert len(served.values) + len(served.gaps) == log.end_offset - log.start_offset, image.label
    tally.damaged += bool(served.gaps)


def check_rows(disk: MemoryDisk, log: Log, image: Image, promise: Promise, tally: Tally) -> None:
    if log.faults:
        # Rows that were never acked are missing before some that are there, so that the changes
        # cannot be folded; nothing tells that from damage of what was acked.
        first = min(read(log, image.at).gaps)
        assert first >= image.acked_end, image.label
        tally.damaged += 1
        if newest_snapshot_offset(disk, image.at, log) <= first:
            with pytest.raises(KvStorageError, match="repair"):
                open_state(disk, image.at, log)
            tally.refused += 1
        return
    recovered, store, table = open_state(disk, image.at, log)
    expected = promise.states[log.end_offset]
    assert held(recovered, table) == expected, image.label
    if log.start_offset == 0:
        assert folded(log) == expected, image.label
    assert store.faults == [], image.label


def newest_snapshot_offset(disk: MemoryDisk, at: str, log: Log) -> int:
    loaded = KvStore(disk, f"{at}/kv").load(offset_max=log.end_offset)
    return loaded.snapshot.offset if loaded else 0


def check_writers(log: Log, image: Image) -> None:
    """The last batch of every writer is known again when it is sent again."""
    last = {}
    for batch in stored_batches(log):
        if not isinstance(batch, int) and batch.header.writer_id >= 0:
            checksum = sent_checksum(batch.read(0, batch.header.size), batch.header)
            last[batch.header.writer_id] = batch.header, checksum
    for header, checksum in last.values():
        known = log.resent(header.writer_id, header.sequence, checksum=checksum)
        assert known is not None, image.label
        assert known.base_offset == header.base_offset, image.label


def check_next(disk: MemoryDisk, image: Image) -> None:
    """The next batch gets offsets that nobody has seen, and survives."""
    log = open_log(disk, image.at)
    end = log.end_offset
    batch = build_batch(b"next", schema_id=1, record_count=1)
    appended = log.append([batch], timestamp_ms=2**41)
    log.sync()
    again = open_log(disk.crashed(lambda change: None), image.at)
    assert (appended.base_offset, again.end_offset) == (end, end + 1), image.label
    assert again.faults == log.faults, image.label


# ---- reading


def stored_batches(log: Log) -> Iterator[StoredBatch | int]:
    """Yield batches, and in between the offsets that cannot be read."""
    position = log.start_offset
    while position < log.end_offset:
        try:
            batch = next(log.batches(position, up_to=log.end_offset))
            batch.verify()
        except DamagedRangeError:
            yield position
            position += 1
        else:
            yield batch
            position = batch.header.end_offset


def rows_of(batch: StoredBatch, at: str) -> list[tuple[ChangeType, tuple]]:
    """Return what a batch says of each row."""
    header, schema = batch.header, arrow_schema(SCHEMAS[at])
    if not header.record_count:
        return []
    data = batch.read(0, header.size)
    sections = read_sections(data, header)
    types = data[sections.statistics_end : sections.changes_end] or bytes(header.record_count)
    stream = schema.serialize().to_pybytes() + bytes(data[sections.changes_end :])
    rows = pa.ipc.open_stream(stream).read_next_batch()
    return list(zip(map(ChangeType, types), as_tuples(rows), strict=True))


def read(log: Log, at: str) -> Served:
    """Read all values by offset; a gap does not hide what is behind it."""
    served = Served()
    for batch in stored_batches(log):
        if isinstance(batch, int):
            served.gaps.append(batch)
            continue
        for number, (_, row) in enumerate(rows_of(batch, at)):
            served.values[batch.header.base_offset + number] = row[1]
    return served


def folded(log: Log) -> Rows:
    """Return the rows that the changes lead to, taken one by one."""
    rows: dict[int, str] = {}
    for batch in stored_batches(log):
        assert not isinstance(batch, int)
        for kind, (key, text) in rows_of(batch, "3/0"):
            if kind in (ChangeType.DELETE, ChangeType.UPDATE_BEFORE):
                assert rows.pop(key) == text
            else:
                assert key not in rows
                rows[key] = text
    return rows


def held(recovered: RecoveredState, table: KeyedTable) -> Rows:
    """Return the rows of a state."""
    _, locations = recovered.state.entries()
    records = recovered.state.heap.view().read(locations)
    rows = table.decode(
        RowBytes.of(records.rows.to_list()),
        records.schema_ids,
        wanted=table.latest(),
        enforce_not_null=False,
    )
    return dict(as_tuples(rows))
