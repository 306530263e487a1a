"""A write that fails or is given up happens wholly or not at all, and state and log agree."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headwater.errors import BucketFencedError, HeadwaterError, KvStorageError
from headwater.model.schema import Column, Schema
from headwater.model.types import IntType, StringType
from headwater.store.memory import MemoryDisk
from headwater.tablet.pk_tablet import PutRules
from tests.cases import cases
from tests.log.support import Fault, InterposedDisk
from tests.tablet.keyed_bucket import Bucket, Row, Versions
from tests.tablet.support import settle

SCHEMA = Schema(
    columns=(
        Column(name="id", type=IntType(nullable=False)),
        Column(name="text", type=StringType()),
    ),
    primary_key=("id",),
)
BEFORE = {number: (number, "before") for number in range(4)}
# One that is merged in the loop, and one that is merged in a thread.
TEXTS = pytest.mark.parametrize("text", ["after", "after" * 10_000], ids=["small", "large"])


@contextmanager
def filled(**options) -> Iterator[Bucket]:
    # Without compression large batches are large changes, which are appended in a thread.
    bucket = Bucket(Versions(SCHEMA, log_arrow_compression_type="NONE"), **options)
    try:
        bucket.put(upserts(bucket, BEFORE))
        yield bucket
    finally:
        bucket.close()


def upserts(bucket: Bucket, rows: dict[int, Row | None], **options) -> bytes:
    return bucket.batch([((key,), row) for key, row in rows.items()], **options)


def changed(bucket: Bucket, text: str) -> tuple[bytes, dict[int, Row]]:
    """Return a batch that inserts, updates and deletes, and the rows after it."""
    after = {0: (0, text), 2: BEFORE[2], 3: BEFORE[3], 9: (9, text)}
    return upserts(bucket, {0: after[0], 1: None, 9: after[9]}), after


def folded(bucket: Bucket) -> dict[int, Row]:
    """Return the rows that the changelog tells of; each change must fit those before it."""
    rows: dict[int, Row] = {}
    for _, changes in bucket.changes():
        for symbol, row in changes:
            if symbol in ("-D", "-U"):
                assert rows.pop(row[0]) == row
            else:
                assert row[0] not in rows
                rows[row[0]] = row
    return rows


def held(bucket: Bucket) -> dict[int, Row]:
    """Return the rows that are found by key, all at once and one by one."""
    keys = [(number,) for number in range(10)]
    few = {row[0]: row for row in bucket.lookup(keys) if row}
    many = {row[0]: row for row in bucket.lookup(keys * 3) if row}
    assert few == many
    segments = bucket.tablet.state.heap.segments
    assert {at: each.live_bytes for at, each in segments.items()} == bucket.live_bytes()
    return few


# ---- failures


class LogFault:
    """Fail appends to the log once the test says so."""

    def __init__(self) -> None:
        self.code = 0

    def __call__(self, operation: str, path: str) -> None:
        if self.code and operation == "append" and path.endswith(".log"):
            raise OSError(self.code, "injected", path)


@TEXTS
@pytest.mark.parametrize("is_stepped", [False, True])
def test_rows_stay_as_they_were_when_the_log_has_no_room_for_a_batch(text, is_stepped):
    fault = LogFault()
    disk = InterposedDisk(MemoryDisk(), before=fault)
    with filled(disk=disk, is_stepped=is_stepped) as bucket:
        batch, after = changed(bucket, text)
        fault.code = errno.ENOSPC

        with pytest.raises(HeadwaterError):
            bucket.put(batch)

        fault.code = 0
        assert held(bucket) == folded(bucket) == BEFORE
        bucket.put(batch)
        assert held(bucket) == folded(bucket) == after


@TEXTS
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_whichever_operation_fails_a_batch_is_there_wholly_or_not_at_all(text, code):
    number = 1
    while put_with(Fault(number, code=code), text):
        number += 1

    assert number > 2


def put_with(fault: Fault, text: str) -> bool:
    """Put a batch during which an operation fails, and tell whether one did."""
    memory, faults = MemoryDisk(), []
    disk = InterposedDisk(memory, before=lambda *about: [each(*about) for each in faults])
    with filled(disk=disk) as bucket:
        batch, after = changed(bucket, text)
        faults.append(fault)
        try:
            bucket.put(batch)
            expected = [after]
        except (HeadwaterError, OSError):
            expected = [BEFORE, after]
        faults.clear()
        assert folded(bucket) in expected
        try:
            assert held(bucket) == folded(bucket)
        except BucketFencedError:
            assert bucket.log.is_fenced
        bucket.abandon()
        bucket.open()
        assert held(bucket) == folded(bucket)
        assert folded(bucket) in expected
        bucket.put(batch)
        assert held(bucket) == folded(bucket) == after
    return bool(fault.failed)


@cases("code", [errno.EIO, errno.ENOSPC])
def test_whichever_operation_of_upkeep_fails_the_rows_are_right_now_and_after_a_crash(code):
    number = 1
    while tended_with(Fault(number, code=code)):
        number += 1

    assert number > 20


def tended_with(fault: Fault) -> bool:
    """Keep a state up while an operation on its files fails, and tell whether one did."""
    memory, faults = MemoryDisk(), []

    def before(operation: str, path: str) -> None:
        if "/kv" in path:
            for each in faults:
                each(operation, path)

    with filled(disk=InterposedDisk(memory, before=before)) as bucket:
        faults.append(fault)
        for number in range(4):
            tend_once(bucket, number)
        faults.clear()
        expected = held(bucket)
        assert expected == folded(bucket)
        for left in (memory, memory.crashed(lambda change: None)):
            bucket.abandon()
            bucket.disk = left
            bucket.open()
            assert held(bucket) == folded(bucket) == expected
            assert bucket.store.faults == []
    return bool(fault.failed)


def tend_once(bucket: Bucket, number: int) -> None:
    with suppress(KvStorageError):
        bucket.put(upserts(bucket, {number % 4: (number % 4, "x" * 300), 9: (9, str(number))}))
    for job in (bucket.upkeep.spill, bucket.upkeep.compact, bucket.upkeep.snapshot):
        with suppress(OSError, KvStorageError):
            bucket.tend(job())


def test_whichever_operation_fails_while_a_state_is_opened_it_is_right_or_said_to_be_lost():
    faults: list[Fault] = []

    def before(operation: str, path: str) -> None:
        if "/kv" in path:
            for each in faults:
                each(operation, path)

    with filled(disk=InterposedDisk(MemoryDisk(), before=before)) as bucket:
        for number in range(4):
            tend_once(bucket, number)
        expected, is_failing, number = held(bucket), True, 0
        while is_failing:
            bucket.abandon()
            number += 1
            faults[:] = [Fault(number)]
            with suppress(KvStorageError):
                bucket.open()
            is_failing, faults[:] = bool(faults[0].failed), []
            bucket.open()
            assert held(bucket) == folded(bucket) == expected


def test_a_state_that_finds_no_room_on_disk_refuses_writes_until_it_does():
    failing: set[str] = set()

    def fail(operation: str, path: str) -> None:
        if operation in failing and "/kv/" in path:
            raise OSError(errno.ENOSPC, "injected", path)

    with filled(disk=InterposedDisk(MemoryDisk(), before=fail)) as bucket:
        failing.add("append")
        batch = upserts(bucket, {0: (0, "x" * 500)})
        for _ in range(2):
            bucket.put(batch)
        with pytest.raises(KvStorageError, match="injected"):
            bucket.put(batch)
        assert held(bucket) == folded(bucket)

        failing.clear()
        bucket.put(upserts(bucket, {0: (0, "again")}))

        assert held(bucket) == folded(bucket) == BEFORE | {0: (0, "again")}


def test_a_clock_that_goes_back_makes_no_row_older():
    with filled() as bucket:
        bucket.clock.milliseconds = 5_000
        bucket.put(upserts(bucket, {0: (0, "later")}))
        bucket.clock.milliseconds = 2_000
        bucket.put(upserts(bucket, {1: (1, "earlier")}))

        (segment,) = bucket.tablet.state.heap.segments.values()

        assert (segment.oldest_ms, segment.newest_ms) == (1_000, 5_000)


# ---- giving up


@TEXTS
@pytest.mark.parametrize("cancel_count", [1, 2, 3])
def test_a_write_that_is_given_up_at_any_step_happens_wholly_or_not_at_all(text, cancel_count):
    seen = [given_up(text, steps=steps, cancel_count=cancel_count) for steps in range(30)]

    assert seen[-1] == "done"
    assert "all" in seen


def given_up(text: str, *, steps: int, cancel_count: int) -> str:
    with filled(is_stepped=True) as bucket:
        batch, after = changed(bucket, text)
        work = bucket.tablet.put(batch, acks=-1, rules=PutRules())
        task = bucket.loop.create_task(work)
        for _ in range(steps):
            bucket.step()
        for _ in range(cancel_count):
            task.cancel()
            bucket.run(settle())
        bucket.put(upserts(bucket, {0: (0, "next"), 5: (5, "next")}))
        rows = held(bucket)
        assert rows == folded(bucket)
        assert (rows.pop(0), rows.pop(5)) == ((0, "next"), (5, "next"))
        rows[0] = after[0] if 9 in rows else BEFORE[0]
        assert rows in (BEFORE, after)
        if not task.cancelled():
            assert rows == after
            return "done"
        return "all" if rows == after else "nothing"


@cases("steps", range(12))
def test_upkeep_that_is_given_up_at_any_step_leaves_the_rows_right(steps):
    with filled(is_stepped=True) as bucket:
        for number in range(10):
            bucket.put(upserts(bucket, {0: (0, "x" * 300), number % 4: (number % 4, str(number))}))
        expected = held(bucket)
        for job in (bucket.upkeep.spill, bucket.upkeep.compact, bucket.upkeep.snapshot):
            task = bucket.loop.create_task(job())
            for _ in range(steps):
                bucket.step()
            task.cancel()
            bucket.tend(job())
            assert held(bucket) == expected
        bucket.restart()
        assert held(bucket) == folded(bucket) == expected


def test_rows_that_compaction_copies_are_durable_before_anybody_reads_the_copies():
    with filled() as bucket:
        for number in range(10):
            batch = upserts(bucket, {0: (0, "x" * 300), 1: (1, str(number))})
            bucket.put(batch, acks=0)
        end_offset = bucket.log.end_offset
        assert bucket.log.synced_offset < end_offset

        assert bucket.tend(bucket.upkeep.compact())

        assert bucket.log.synced_offset == end_offset


def test_a_scan_is_not_handed_out_before_its_rows_are_durable():
    with filled(is_stepped=True) as bucket:
        bucket.put(upserts(bucket, {0: (0, "new")}), acks=0)
        end_offset = bucket.log.end_offset
        assert bucket.log.synced_offset < end_offset

        scan = bucket.tend(bucket.tablet.scan())

        assert scan.offset == end_offset
        assert bucket.log.synced_offset == end_offset
