"""The append path of a bucket, from the request to the receipt."""

import asyncio
import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from headwater.errors import (
    BucketFencedError,
    CorruptBatchError,
    InvalidAcksError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    RetryLaterError,
    StoppingError,
)
from headwater.log.retention import LogSettings
from headwater.runtime.clock import SystemClock
from headwater.store.local import LocalDisk
from headwater.store.memory import MemoryDisk
from headwater.tablet.log_tablet import INLINE_DECODED_BYTES_MAX, AppendReceipt, LogTablet
from tests.cases import cases
from tests.log.support import InterposedDisk, batch, messages, open_log
from tests.tablet.support import HeldExecutor, ManualClock, settle

LARGE = 100_000


class Admitting:
    """Admit batches, unless a check refuses one; values of a batch may be said to be large."""

    def __init__(self, check=lambda view: None, *, decoded_bytes: int = 0) -> None:
        self._check = check
        self.decoded_bytes = decoded_bytes
        self.threads: set[str] = set()
        self.held_bytes: list[int] = []

    def inspect(self, view, header):
        return Batch(view, self)

    def take(self, batches, decoded_bytes):
        pass

    @asynccontextmanager
    async def room(self, decoded_bytes):
        self.held_bytes.append(decoded_bytes)
        yield

    def check(self, view):
        self.threads.add(threading.current_thread().name)
        self._check(view)


class Batch:
    def __init__(self, view, admission: Admitting) -> None:
        self._view, self._admission = view, admission

    @property
    def decoded_bytes(self) -> int:
        return self._admission.decoded_bytes

    def check_values(self) -> None:
        self._admission.check(self._view)


@pytest.fixture
def executor():
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
async def tablet(executor):
    tablet = LogTablet(open_log(MemoryDisk()), executor=executor, clock=SystemClock())
    yield tablet
    await tablet.close()


async def put(tablet, *texts, acks=-1, admission=None):
    records = b"".join(map(batch, texts))
    return await tablet.append(records, acks=acks, admission=admission or Admitting())


def fail_syncs(operation, path):
    if operation == "sync":
        raise OSError(errno.EIO, "injected")


def started(work):
    return asyncio.get_running_loop().create_task(work)


async def test_an_append_is_durable_when_it_is_acked(tablet):
    receipts = [await put(tablet, "a", "b"), await put(tablet, "c")]

    assert receipts == [AppendReceipt(0), AppendReceipt(2)]
    assert tablet.high_watermark == 3
    assert messages(tablet.log) == {0: "a", 1: "b", 2: "c"}


@cases("acks", [0, 1])
async def test_an_append_that_does_not_wait_is_readable_once_durable(acks):
    executor, clock = HeldExecutor(), ManualClock()
    tablet = LogTablet(open_log(MemoryDisk()), executor=executor, clock=clock)

    receipt = await put(tablet, "a", acks=acks)
    await settle()
    before = tablet.high_watermark, await tablet.read(0, bytes_max=100, up_to=1)
    await clock.wake_all()
    await executor.run_next()

    assert receipt == AppendReceipt(0)
    assert before == (0, b"")
    assert tablet.high_watermark == 1
    assert await tablet.read(0, bytes_max=100, up_to=1)


@pytest.mark.parametrize("acks", [-2, 2, 100])
async def test_other_acks_are_refused(tablet, acks):
    with pytest.raises(InvalidAcksError):
        await put(tablet, "a", acks=acks)


async def test_nothing_is_written_when_one_batch_is_not_admitted(tablet):
    def check(view):
        if bytes(view[48:]) == b"bad":
            raise CorruptBatchError("no")

    with pytest.raises(CorruptBatchError):
        await put(tablet, "good", "bad", admission=Admitting(check))

    assert tablet.log.end_offset == 0


async def test_a_large_append_that_is_not_admitted_is_not_written(tablet):
    def check(view):
        raise CorruptBatchError("no")

    with pytest.raises(CorruptBatchError):
        await put(tablet, "x" * LARGE, admission=Admitting(check))
    assert await put(tablet, "next") == AppendReceipt(0)


async def test_values_are_checked_beside_the_loop_if_they_are_large_once_decoded(tablet):
    loop_thread = threading.current_thread().name
    small, bomb = Admitting(decoded_bytes=100), Admitting(decoded_bytes=INLINE_DECODED_BYTES_MAX)

    await put(tablet, "a", "b", admission=small)
    await put(tablet, "a", "b", admission=bomb)

    assert (small.threads, small.held_bytes) == ({loop_thread}, [])
    assert loop_thread not in bomb.threads
    assert bomb.held_bytes == [INLINE_DECODED_BYTES_MAX]


async def test_too_many_batches_for_one_bucket_are_refused(tablet):
    with pytest.raises(RecordTooLargeError, match="more than 4096 record batches"):
        await tablet.append(batch("a") * 4097, acks=1, admission=Admitting())


async def test_cut_records_are_refused(tablet):
    with pytest.raises(CorruptBatchError):
        await tablet.append(batch("a") + batch("b")[:-1], acks=1, admission=Admitting())

    assert tablet.log.end_offset == 0


async def test_appends_land_in_the_order_in_which_they_came(tablet):
    texts = [f"{number}" * (LARGE if number % 3 == 0 else 1) for number in range(1, 10)]

    receipts = await asyncio.gather(*(put(tablet, text) for text in texts))

    assert receipts == [AppendReceipt(number) for number in range(9)]
    assert list(messages(tablet.log).values()) == texts


async def test_a_small_append_does_not_overtake_a_large_one_in_admission():
    executor = HeldExecutor()
    log = open_log(MemoryDisk(), settings=LogSettings())
    tablet = LogTablet(log, executor=executor, clock=ManualClock())
    large = started(put(tablet, "x" * LARGE, acks=1))
    small = started(put(tablet, "y", acks=1))
    await settle()
    assert tablet.log.end_offset == 0

    await executor.run_next()
    await settle()
    await executor.run_next()

    assert (await large, await small) == (AppendReceipt(0), AppendReceipt(1))


async def test_a_cancelled_append_leaves_the_turn_to_the_next():
    executor = HeldExecutor()
    log = open_log(MemoryDisk(), settings=LogSettings())
    tablet = LogTablet(log, executor=executor, clock=ManualClock())
    large = started(put(tablet, "x" * LARGE, acks=1))
    small = started(put(tablet, "y", acks=1))
    await settle()

    large.cancel()
    await settle()

    assert await small == AppendReceipt(0)
    assert messages(tablet.log) == {0: "y"}


async def test_a_resend_that_is_not_durable_yet_waits_as_well():
    executor = HeldExecutor()
    tablet = LogTablet(open_log(MemoryDisk()), executor=executor, clock=ManualClock())
    sent = batch("a", writer_id=1, sequence=0)
    tasks = [started(tablet.append(sent, acks=-1, admission=Admitting())) for _ in range(2)]
    await settle()
    assert not any(task.done() for task in tasks)

    await executor.run_next()

    assert [await task for task in tasks] == [AppendReceipt(0), AppendReceipt(0)]
    assert tablet.log.end_offset == 1


async def test_a_full_segment_is_rolled_without_losing_the_order(tablet):
    await asyncio.gather(*(put(tablet, f"{number:060}") for number in range(40)))

    assert tablet.log.segment_count > 5
    assert [int(text) for text in messages(tablet.log).values()] == list(range(40))


async def test_listeners_hear_of_every_advance_until_they_leave(tablet):
    heard = []

    def listener():
        heard.append(tablet.high_watermark)

    tablet.listen(listener)
    await put(tablet, "a")
    await settle()
    await put(tablet, "b")
    await settle()
    tablet.unlisten(listener)
    await put(tablet, "c")
    await settle()

    assert heard == [1, 2]


@cases("acks", [0, 1])
async def test_rows_that_a_reader_waits_for_are_made_durable_without_delay(acks):
    executor, clock = HeldExecutor(), ManualClock()
    tablet = LogTablet(open_log(MemoryDisk()), executor=executor, clock=clock)

    def reader():
        pass

    tablet.listen(reader)
    await put(tablet, "a", acks=acks)
    assert executor.jobs == []  # it listens, but does not wait yet
    tablet.hurry(reader)
    await executor.run_next()
    first = tablet.high_watermark
    await put(tablet, "b", acks=acks)
    await executor.run_next()
    second = tablet.high_watermark
    tablet.unlisten(reader)
    await put(tablet, "c", acks=acks)
    await settle()

    assert (first, second) == (1, 2)
    assert executor.jobs == []


async def test_whoever_asks_for_the_end_gets_all_that_was_answered_before(tablet):
    for number, text in enumerate("abc"):
        await put(tablet, text, acks=1)
        assert await tablet.settled() == number + 1

    assert tablet.high_watermark == 3


async def test_rows_that_nobody_was_answered_for_hold_up_nobody_who_asks_for_the_end():
    executor = HeldExecutor()
    tablet = LogTablet(open_log(MemoryDisk()), executor=executor, clock=ManualClock())
    writer = started(put(tablet, "a"))
    await settle()

    end = await tablet.settled()

    assert (end, writer.done()) == (0, False)
    await executor.run_next()
    await writer


async def test_the_end_of_a_log_whose_disk_failed_is_that_of_its_durable_rows(executor):
    disk = InterposedDisk(MemoryDisk())
    tablet = LogTablet(open_log(disk), executor=executor, clock=SystemClock())
    await put(tablet, "durable")
    disk.before = fail_syncs
    await put(tablet, "lost", acks=1)

    assert await tablet.settled() == 1
    await tablet.close()


async def test_a_read_is_served_from_memory_or_in_a_thread(tmp_path, executor):
    log = open_log(LocalDisk(tmp_path))
    tablet = LogTablet(log, executor=executor, clock=SystemClock())
    for number in range(30):
        await put(tablet, f"{number:060}")

    assert not log.is_hot(0)
    assert log.is_hot(29)
    for offset in (0, 29):
        data = await tablet.read(offset, bytes_max=10, up_to=1 << 60)
        assert int(data[48:]) == offset
    await tablet.close()


async def test_a_read_outside_the_log_is_refused(tablet):
    for offset in (-1, 1):
        with pytest.raises(OffsetOutOfRangeError):
            await tablet.read(offset, bytes_max=10, up_to=1 << 60)


async def test_a_failed_sync_refuses_appends_but_not_reads(executor):
    disk = InterposedDisk(MemoryDisk())
    tablet = LogTablet(open_log(disk), executor=executor, clock=SystemClock())
    await put(tablet, "durable")
    disk.before = fail_syncs
    for _ in range(2):
        with pytest.raises(BucketFencedError):
            await put(tablet, "lost")

    assert tablet.high_watermark == 1
    assert await tablet.read(0, bytes_max=100, up_to=10)
    await tablet.close()


async def test_a_closed_tablet_takes_nothing_and_has_lost_nothing(executor):
    disk = MemoryDisk()
    tablet = LogTablet(open_log(disk), executor=executor, clock=SystemClock())
    await put(tablet, "a", acks=1)

    await tablet.close()

    with pytest.raises(StoppingError):
        await put(tablet, "b")
    assert messages(open_log(disk.crashed(lambda change: None))) == {0: "a"}


async def test_a_cancelled_write_keeps_the_turn_until_its_thread_has_ended():
    executor = HeldExecutor()
    log = open_log(MemoryDisk(), settings=LogSettings())
    tablet = LogTablet(log, executor=executor, clock=ManualClock())
    large = started(put(tablet, "x" * LARGE, acks=1))
    small = started(put(tablet, "y", acks=1))
    await settle()
    await executor.run_next()
    await settle()

    large.cancel()
    await settle()

    assert tablet.log.end_offset == 0
    await executor.run_next()
    assert await small == AppendReceipt(1)


@pytest.mark.parametrize("operation", ["sync_directory", "create"])
async def test_running_out_of_descriptors_fences_nothing_and_writing_goes_on(executor, operation):
    disk, left = InterposedDisk(MemoryDisk()), [3]

    def fail(found, path):
        if found == operation and left[0]:
            left[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files", path)

    limits = LogSettings(segment_bytes_max=600, index_interval_bytes=120)
    tablet = LogTablet(open_log(disk, settings=limits), executor=executor, clock=SystemClock())
    await put(tablet, "before")
    disk.before = fail

    refused = 0
    for number in range(40):
        try:
            await put(tablet, f"{number:060}")
        except RetryLaterError:
            refused += 1

    assert left == [0]
    assert refused == (3 if operation == "create" else 0)
    assert not tablet.is_fenced
    assert tablet.high_watermark == 41 - refused
    await tablet.close()
