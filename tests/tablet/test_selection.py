"""What a reader takes of a log: columns, batches that may match, and nothing that is damaged."""

import asyncio

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import DamagedRangeError
from headwater.log.retention import LogSettings
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.schema import Schema
from headwater.model.types import BigIntType, StringType
from headwater.rows.log_batch import check_crc, iterate, read_sections
from headwater.rows.projection import Projection
from headwater.rows.statistics import encode_statistics
from headwater.store.memory import MemoryDisk
from headwater.tablet import selection as selection_module
from headwater.tablet.log_tablet import INLINE_READ_BYTES_MAX, INLINE_ROWS_MAX, LogTablet
from headwater.tablet.selection import Selection, select
from tests.cases import cases
from tests.choices import examples
from tests.log.support import content, flip, open_log
from tests.rows.strategies import log_batch_of, schema_of
from tests.tablet.support import HeldExecutor, ManualClock, settle

SCHEMA = schema_of([BigIntType(), StringType()])
KINDS = arrow_schema(SCHEMA)
EVERYTHING = Selection(lambda _: SCHEMA)
SEGMENTS = LogSettings(segment_bytes_max=4_000, index_interval_bytes=900)
FIRST = f"{0:020d}.log"
BATCH_ROWS = 3
MUCH = 1 << 20


def batch_of(numbers, *, with_statistics=True):
    texts = [f"text {number}" for number in numbers]
    rows = pa.record_batch([pa.array(numbers, pa.int64()), texts], schema=KINDS)
    statistics = encode_statistics(rows, SCHEMA, range(2)) if with_statistics else None
    return log_batch_of(rows, statistics=statistics)


def log_of(batches, *, disk=None):
    log = open_log(disk or MemoryDisk(), settings=SEGMENTS)
    for number, batch in enumerate(batches):
        log.append([batch], timestamp_ms=1_000 + number)
    log.sync()
    return log


def counted(count):
    """Return batches of which the n-th holds the numbers 10 n to 10 n + 2."""
    return [batch_of([10 * each, 10 * each + 1, 10 * each + 2]) for each in range(count)]


def wanting(*column_ids, predicate=None):
    columns = [SCHEMA.columns[each] for each in column_ids]
    projection = Projection.of(SCHEMA, columns) if columns else None
    filtered = frozenset() if predicate is None else frozenset({predicate.column_id})
    return Selection(
        EVERYTHING.schema_of, projection and (lambda _: projection), predicate, filtered
    )


def at_least(number):
    return Leaf(LeafFunction.GREATER_OR_EQUAL, 0, (number,))


def taken(log, offset, selection, *, bytes_max=MUCH, at_least_one=True):
    return select(
        log,
        offset,
        up_to=log.synced_offset,
        bytes_max=bytes_max,
        selection=selection,
        at_least_one=at_least_one,
    )


def rows_of(selected, schema=SCHEMA):
    """Return the rows by offset, checking every checksum."""
    data, found = b"".join(map(bytes, selected.parts)), {}
    for header, position in iterate(data):
        batch = data[position : position + header.size]
        check_crc(batch, header)
        message = batch[read_sections(batch, header).changes_end :]
        rows = pa.ipc.read_record_batch(pa.py_buffer(message), arrow_schema(schema)).to_pylist()
        found |= dict(enumerate((tuple(row.values()) for row in rows), header.base_offset))
    assert len(data) == selected.size
    return found


def damaged(batch, *, at, count=12):
    """Return a log, opened anew, with one bit wrong in a sealed segment; and its disk."""
    disk = MemoryDisk()
    log_of(counted(count), disk=disk).close()
    data = content(disk, FIRST)
    positions = [position for _, position in iterate(data)]
    flip(disk, FIRST, positions[batch] + at)
    return open_log(disk, settings=SEGMENTS), disk


# ---- damage


STATISTICS_BYTE = 60
LAST_BYTE = 300


@cases("at", [STATISTICS_BYTE, LAST_BYTE])
@cases(
    "selection", [wanting(0), wanting(predicate=at_least(0)), wanting(1, predicate=at_least(999))]
)
def test_a_damaged_batch_is_set_aside_and_neither_served_nor_skipped(at, selection):
    log, disk = damaged(0, at=at)

    with pytest.raises(DamagedRangeError, match=FIRST):
        taken(log, 0, selection)

    assert f"{FIRST}.damaged" in disk.listdir("1/0")
    assert log.faults


@cases("selection", [wanting(0), wanting(0, predicate=at_least(0))])
def test_what_is_good_before_the_damage_is_still_served(selection):
    log, _ = damaged(2, at=LAST_BYTE)

    before = taken(log, 0, selection)

    assert list(rows_of(before, Schema(columns=SCHEMA.columns[:1]))) == list(range(6))
    with pytest.raises(DamagedRangeError):
        taken(log, 6, selection)
    assert taken(log, 0, selection).size == before.size


def test_batches_pruned_before_the_damage_are_told():
    log, _ = damaged(2, at=LAST_BYTE)

    selected = taken(log, 0, wanting(predicate=at_least(999)))

    assert (selected.parts, selected.pruned_up_to) == ([], 6)


# ---- pruning


def test_batches_that_cannot_match_are_left_out_and_the_reader_is_told_how_far_it_came():
    log = log_of(counted(6))

    middle = taken(log, 0, wanting(predicate=Leaf(LeafFunction.EQUAL, 0, (31,))))

    assert list(rows_of(middle)) == [9, 10, 11]
    assert middle.pruned_up_to == 18


def test_nothing_is_said_of_pruning_where_nothing_was_pruned():
    log = log_of(counted(3))

    assert taken(log, 0, wanting(predicate=at_least(0))).pruned_up_to is None
    assert taken(log, 0, wanting(1)).pruned_up_to is None


def test_batches_without_statistics_are_never_left_out():
    log = log_of([batch_of([1, 2], with_statistics=False), batch_of([1, 2])])

    selected = taken(log, 0, wanting(predicate=at_least(10)))

    assert list(rows_of(selected)) == [0, 1]
    assert selected.pruned_up_to == 4


def test_a_scan_ends_after_so_many_batches_and_goes_on_where_it_ended(monkeypatch):
    monkeypatch.setattr(selection_module, "SCANNED_BATCHES_MAX", 4)
    log, offset, stops = log_of(counted(10)), 0, []

    while offset < log.synced_offset:
        selected = taken(log, offset, wanting(predicate=at_least(999)))
        offset = selected.pruned_up_to
        stops.append(offset)

    assert stops == [12, 24, 30]


def test_a_scan_of_unchecked_batches_ends_after_so_many_bytes(monkeypatch):
    monkeypatch.setattr(selection_module, "UNVERIFIED_BYTES_MAX", 1_000)
    disk = MemoryDisk()
    log_of(counted(12), disk=disk).close()
    log = open_log(disk, settings=SEGMENTS)

    selected = taken(log, 0, wanting(predicate=at_least(999)))

    assert 3 <= selected.pruned_up_to < 15


def test_the_batch_that_did_not_fit_comes_first_next_time():
    log = log_of(counted(6))
    two = 2 * len(counted(1)[0])

    selected = taken(log, 0, wanting(predicate=at_least(10)), bytes_max=two)

    assert list(rows_of(selected)) == [3, 4, 5, 6, 7, 8]
    assert selected.pruned_up_to == 9


@cases("bytes_max", [-(2**31), -1, 0, 1])
@cases("selection", [EVERYTHING, wanting(0), wanting(predicate=at_least(0))])
def test_one_batch_is_given_whatever_the_limit_or_none_at_all(bytes_max, selection):
    log = log_of(counted(3))

    one = taken(log, 0, selection, bytes_max=bytes_max)
    none = taken(log, 0, selection, bytes_max=bytes_max, at_least_one=False)

    data = b"".join(map(bytes, one.parts))
    assert [header.base_offset for header, _ in iterate(data)] == [0]
    assert (none.parts, none.size, none.pruned_up_to) == ([], 0, None)


# ---- against a naive reading


numbers = st.integers(-5, 5)
predicates = st.one_of(
    st.none(),
    st.builds(
        lambda function, literal: Leaf(function, 0, (literal,)),
        st.sampled_from([LeafFunction.EQUAL, LeafFunction.LESS_THAN, LeafFunction.GREATER_THAN]),
        numbers,
    ),
)
HOLDS = {
    LeafFunction.EQUAL: int.__eq__,
    LeafFunction.LESS_THAN: int.__lt__,
    LeafFunction.GREATER_THAN: int.__gt__,
}


def matches(predicate, number):
    return predicate is None or HOLDS[predicate.function](number, predicate.literals[0])


def read_through(log, selection, columns, bytes_max):
    """Follow a log to its end as a client does."""
    offset, found, rounds = 0, {}, 0
    while offset < log.synced_offset:
        selected = taken(log, offset, selection, bytes_max=bytes_max)
        rows = rows_of(selected, Schema(columns=tuple(columns)))
        found |= rows
        offset = max(max(rows, default=-1) + 1, selected.pruned_up_to or 0)
        rounds += 1
        assert rounds <= log.synced_offset, "a round did not get on"
    return found


@settings(max_examples=examples(150))
@given(
    batches=st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=1, max_size=15),
    columns=st.sampled_from([(), (0,), (1,), (1, 0)]),
    predicate=predicates,
    bytes_max=st.integers(0, 3_000),
    reopened=st.booleans(),
)
def test_a_selection_gives_every_row_that_a_naive_reading_finds(
    batches, columns, predicate, bytes_max, reopened
):
    disk = MemoryDisk()
    log = log_of([batch_of(each) for each in batches], disk=disk)
    if reopened:
        log.close()
        log = open_log(disk, settings=SEGMENTS)
    kept = columns or (0, 1)
    flat = [number for batch in batches for number in batch]
    cells = [(number, f"text {number}") for number in flat]
    rows = {at: tuple(cell[each] for each in kept) for at, cell in enumerate(cells)}

    selection = wanting(*columns, predicate=predicate)
    found = read_through(log, selection, [SCHEMA.columns[each] for each in kept], bytes_max)

    assert found.items() <= rows.items()
    assert {at for at, number in enumerate(flat) if matches(predicate, number)} <= set(found)


async def test_cutting_many_batches_does_not_keep_the_loop():
    executor, log = HeldExecutor(), open_log(MemoryDisk(), settings=LogSettings())
    for number in range(INLINE_ROWS_MAX + 1):
        log.append([batch_of([number])], timestamp_ms=1)
    log.sync()
    tablet = LogTablet(log, executor=executor, clock=ManualClock())

    few = await tablet.select(
        1, up_to=MUCH, bytes_max=MUCH, selection=wanting(0), at_least_one=True
    )
    many = asyncio.ensure_future(
        tablet.select(0, up_to=MUCH, bytes_max=MUCH, selection=wanting(0), at_least_one=True)
    )
    await settle()

    assert few.size
    assert not many.done()
    await executor.run_next()
    assert (await many).size > few.size


async def test_reading_much_at_once_does_not_keep_the_loop_even_where_no_disk_is_asked():
    executor, log = HeldExecutor(), open_log(MemoryDisk(), settings=LogSettings())
    batch = batch_of(list(range(2000)))
    count = INLINE_READ_BYTES_MAX // len(batch) + 2
    for _ in range(count):
        log.append([batch], timestamp_ms=1)
    log.sync()
    tablet = LogTablet(log, executor=executor, clock=ManualClock())
    everything = {"up_to": MUCH, "selection": EVERYTHING, "at_least_one": True}

    little = await tablet.select(0, bytes_max=len(batch), **everything)
    newest = await tablet.select(2000 * (count - 1), bytes_max=MUCH, **everything)
    much = asyncio.ensure_future(tablet.select(0, bytes_max=MUCH, **everything))
    await settle()

    assert little.size == newest.size == len(batch)
    assert not much.done()
    await executor.run_next()
    assert (await much).size > INLINE_READ_BYTES_MAX
