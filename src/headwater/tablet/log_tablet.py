"""The append path of one bucket of a log table, and reading it back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, Protocol, TypeVar

from headwater import errors
from headwater.log.join import Join, Joined
from headwater.log.log import Appended, Log
from headwater.log.retention import expired_segments, should_roll_expired
from headwater.log.writers import NOBODY
from headwater.metrics.tallies import WriteTally
from headwater.rows.log_batch import BatchHeader, iterate, read_header
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import to_the_end
from headwater.store.disk import Part
from headwater.tablet.group_commit import Answered, GroupCommit, settle
from headwater.tablet.selection import Selected, Selection, select

ACKS_DURABLE = -1
# Ours: Apache Fluss refuses it.
ACKS_REMOTE = -2
ACKS_WAITING = (ACKS_DURABLE, ACKS_REMOTE)
ACKS = (*ACKS_WAITING, 0, 1)
INLINE_BYTES_MAX = 64 << 10
INLINE_ROWS_MAX = 64
BATCHES_MAX = 4096
INLINE_COMPARISONS_MAX = 64
INLINE_READ_BYTES_MAX = 256 << 10

INLINE_BATCHES_MAX = 64
INLINE_DECODED_BYTES_MAX = 256 << 10
# Each thread may decode so much without waiting for memory.
THREAD_DECODED_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Sender:
    """Say who sends batches, and check that the ids of writers are theirs."""

    check: Callable[[int], None] = lambda _: None
    owner: int = NOBODY


ANYONE = Sender()
Batches = list[tuple[memoryview, BatchHeader]]
Listener = Callable[[], None]
WhenShipped = Callable[[int, Answered], None]
"""Calls back once everything before an offset is in remote storage."""
T = TypeVar("T")


class Unchecked(Protocol):
    """Be a batch whose values are still to be checked."""

    @property
    def decoded_bytes(self) -> int:
        """Return how much memory that takes."""

    def check_values(self) -> None:
        """Refuse values that are not what they should be."""


class Admission(Protocol):
    """Know what the batches of one request must be."""

    def inspect(self, batch: memoryview, header: BatchHeader) -> Unchecked:
        """Check everything but the values of a batch, which is quick and takes no memory."""

    def take(self, batches: int, decoded_bytes: int) -> None:
        """Refuse batches beyond what one request may bring."""

    def room(self, decoded_bytes: int) -> AbstractAsyncContextManager[None]:
        """Wait for memory to decode values in, and hold it."""


@dataclass(frozen=True, slots=True)
class AppendReceipt:
    """Tell where records landed."""

    base_offset: int


class Turn(asyncio.Lock):
    """A lock that tells whether anybody holds it or waits for it.

    While nobody does, work on the loop that waits for nothing may run as if it held the lock.
    """

    def __init__(self) -> None:
        super().__init__()
        self._claims = 0

    @property
    def is_free(self) -> bool:
        """Tell whether nobody holds the lock, nor came before whoever asks."""
        return not self._claims

    async def acquire(self) -> Literal[True]:
        """Wait for the lock, first come first served."""
        self._claims += 1
        try:
            return await super().acquire()
        except BaseException:
            self._claims -= 1
            raise

    def release(self) -> None:
        """Let the next one have the lock."""
        super().release()
        self._claims -= 1


class LogTablet:
    """Take appends for one bucket in the order in which they come."""

    def __init__(
        self,
        log: Log,
        *,
        executor: Executor,
        clock: Clock,
        tally: WriteTally | None = None,
        when_shipped: WhenShipped | None = None,
    ) -> None:
        self.log = log
        self._when_shipped = when_shipped
        self._tally = tally or WriteTally()
        self._executor = executor
        self._clock = clock
        # Whoever holds it is the only one to change the log.
        self.turn = Turn()
        self._listeners: dict[Listener, None] = {}  # in the order in which they came
        self._hurried: set[Listener] = set()
        self._announced = log.synced_offset
        self._answered = log.synced_offset  # before it are all rows that were answered for
        self._commit = GroupCommit(
            log, executor, clock=clock, on_synced=self._announce, tally=self._tally
        )

    @property
    def start_offset(self) -> int:
        """Return the first offset that is kept."""
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        """Return the offset before which rows may be read: what was read can never vanish."""
        return self.log.synced_offset

    def check_same(self, position: int, incarnation: int) -> None:
        """Refuse a position of another log: of one that went on from the same copy as this one."""
        if not self.log.lineage.holds(position, incarnation):
            raise errors.LogDivergedError(
                f"The rows before offset {position} are not those that were there before: the"
                " storage was restored from a copy that did not have them all."
            )

    @property
    def waiting_count(self) -> int:
        """Return how many writes wait to become durable."""
        return self._commit.waiting_count

    @property
    def is_fenced(self) -> bool:
        """Tell whether the bucket takes no writes since its disk failed."""
        return self.log.is_fenced or self._commit.has_failed

    async def append(
        self, records: Part, *, acks: int, admission: Admission, sender: Sender = ANYONE
    ) -> AppendReceipt:
        """Write the batches of one request.

        1. split  2. admit, in a thread where that takes long  3. wait for the turn
        4. write  5. wait until durable, or see that it soon will be
        """
        self.check_acks(acks)
        batches = _split(records)
        for _, header in batches:
            sender.check(header.writer_id)
        admitting = self._start_admission(batches, len(records), admission)
        async with self.turn:
            if admitting is not None:
                # What runs in a thread holds memory until it has ended, whoever goes away.
                await asyncio.shield(admitting)
            end_offset, receipt = await self.write(batches, len(records), owner=sender.owner)
        await self.acknowledge(end_offset, acks=acks)
        return receipt

    def check_acks(self, acks: int) -> None:
        """Refuse a number that says nothing, or asks for a remote storage that there is not."""
        check_acks(acks)
        if acks == ACKS_REMOTE and self._when_shipped is None:
            raise errors.InvalidAcksError(
                "acks is -2, but this server has no remote storage.",
                hint="Start it with --remote, or use acks=-1.",
            )

    def append_now(
        self, records: Part, *, admission: Admission, sender: Sender
    ) -> tuple[int, AppendReceipt] | None:
        """Write one small batch without waiting, and return where the log ends then.

        None says that nothing was done, and that `append` has to wait for something: its turn,
        a new segment, a note on the disk, or a thread that checks much.
        """
        view = memoryview(records).toreadonly()
        size = len(view)
        if size > INLINE_BYTES_MAX or not self.turn.is_free:
            return None
        header = read_header(view)
        if header.size != size or not self.writes_now(header, size, owner=sender.owner):
            return None
        sender.check(header.writer_id)
        unchecked = admission.inspect(view, header)
        decoded_bytes = unchecked.decoded_bytes
        if decoded_bytes > INLINE_DECODED_BYTES_MAX:
            return None
        admission.take(1, decoded_bytes)
        unchecked.check_values()
        return self.write_now(view, header, owner=sender.owner)

    def writes_now(self, header: BatchHeader, size: int, *, owner: int) -> bool:
        """Tell whether the log takes a small batch at once."""
        log = self.log
        return not (log.is_full_for(size) or log.notes_first((header,), owner=owner))

    def write_now(
        self, batch: memoryview, header: BatchHeader, *, owner: int
    ) -> tuple[int, AppendReceipt]:
        """Write a small batch that was admitted, and that the log takes at once."""
        appended = self.log.append(
            (batch,), headers=(header,), timestamp_ms=self._clock.now_ms(), owner=owner
        )
        return self._written(appended, len(batch))

    def when_acknowledged(self, end_offset: int, answered: Answered, *, acks: int) -> None:
        """Call back once everything before an offset is durable, or will soon be."""
        if acks == ACKS_DURABLE:
            self._commit.when_durable(end_offset, answered)
        elif acks == ACKS_REMOTE:
            self._commit.when_durable(
                end_offset, partial(self._await_shipped, end_offset, answered)
            )
        else:
            self._request_commit(end_offset)
            answered(None)

    async def acknowledge(self, end_offset: int, *, acks: int) -> None:
        """Wait until everything before an offset is durable, or see that it soon will be."""
        if acks == ACKS_DURABLE:
            await self._commit.durable(end_offset)
        elif acks == ACKS_REMOTE:
            shipped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_acknowledged(end_offset, partial(settle, shipped), acks=acks)
            await shipped
        else:
            self._request_commit(end_offset)

    def _await_shipped(
        self, end_offset: int, answered: Answered, fault: errors.HeadwaterError | None
    ) -> None:
        if fault is not None:
            answered(fault)
            return
        assert self._when_shipped is not None  # `check_acks` has refused it.
        self._when_shipped(end_offset, answered)

    def _request_commit(self, end_offset: int) -> None:
        self._answered = max(self._answered, end_offset)
        self._commit.request(at_once=bool(self._hurried))

    async def settled(self) -> int:
        """Return the offset after the durable rows, which are all that writers had answers for.

        On a disk that failed, what was durable before is all that there is.
        """
        with suppress(errors.BucketFencedError):
            await self._commit.durable(self._answered)
        return self.high_watermark

    async def read(
        self, offset: int, *, bytes_max: int, up_to: int, at_least_one: bool = True
    ) -> memoryview:
        """Return whole durable batches, without keeping the loop waiting for a disk."""
        up_to = min(up_to, self.high_watermark)
        if offset >= up_to or self.log.is_hot(offset):
            return self.log.read(
                offset, bytes_max=bytes_max, up_to=up_to, at_least_one=at_least_one
            )
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor,
            lambda: self.log.read(
                offset, bytes_max=bytes_max, up_to=up_to, at_least_one=at_least_one
            ),
        )

    def selects_at_once(self, offset: int, *, bytes_max: int, selection: Selection) -> bool:
        """Tell whether a selection is read in no time: little of it, and not from a disk."""
        if not self.log.is_hot(offset):
            return False
        if min(bytes_max, self.log.bytes_from(offset)) > INLINE_READ_BYTES_MAX:
            return False
        if selection.sieve is not None:
            return False
        # Passing bytes on is quick, but each batch that is cut or pruned costs time of its own.
        return selection.takes_everything or (
            self.high_watermark - offset <= INLINE_ROWS_MAX
            and selection.comparisons <= INLINE_COMPARISONS_MAX
        )

    async def select(
        self, offset: int, *, up_to: int, bytes_max: int, selection: Selection, at_least_one: bool
    ) -> Selected:
        """Return what a selection takes of the durable batches from an offset on."""
        up_to = min(up_to, self.high_watermark)
        work = partial(
            select,
            self.log,
            offset,
            up_to=up_to,
            bytes_max=bytes_max,
            selection=selection,
            at_least_one=at_least_one,
        )
        if self.selects_at_once(offset, bytes_max=bytes_max, selection=selection):
            return work()
        return await self._in_thread(work)

    async def offset_for_timestamp(self, timestamp_ms: int) -> int:
        """Return the first durable offset committed at or after a time."""
        find = partial(self.log.offset_for_timestamp, timestamp_ms)
        return min(await self._in_thread(find), self.high_watermark)

    async def roll_aged(self, roll_ms: int, *, now_ms: int) -> None:
        """Seal the active segment if its first row is so old; a new one begins with the next."""
        async with self.turn:
            begun_ms = await self._in_thread(self.log.active_since_ms)
            if begun_ms is not None and now_ms - begun_ms >= roll_ms:
                await self.alone(self.log.roll)

    async def expire(
        self,
        *,
        ttl_ms: int | None,
        bytes_max: int | None,
        kept_from: int | None = None,
        now_ms: int | None = None,
        delete_delay_ms: int = 0,
    ) -> None:
        """Delete whole segments that are too old or too many, none from `kept_from` on.

        Their rows are gone at once, their files after a delay.
        """
        now_ms = self._clock.now_ms() if now_ms is None else now_ms
        needed_from = self.high_watermark
        if kept_from is not None:
            needed_from = min(needed_from, kept_from)
        async with self.turn:
            active = self.log.spans[-1]
            if should_roll_expired(active, now_ms=now_ms, ttl_ms=ttl_ms, needed_from=needed_from):
                await self.alone(self.log.roll)
            start_offset = expired_segments(
                self.log.spans,
                now_ms=now_ms,
                ttl_ms=ttl_ms,
                bytes_max=bytes_max,
                needed_from=needed_from,
            )
            if start_offset > self.start_offset:
                before = self.start_offset
                due_ms = now_ms + delete_delay_ms if delete_delay_ms else None
                await self.alone(partial(self.log.delete_before, start_offset, due_ms=due_ms))
                self._tally.expired_rows += self.start_offset - before
            if self.log.has_deleted_files(now_ms):
                await self.alone(partial(self.log.remove_deleted, now_ms))

    async def join(self, join: Join) -> Joined | None:
        """Join the small batches of one segment, sealing the active one first if it has many."""
        if self.log.is_scattered:
            async with self.turn:
                await self.alone(self.log.roll)
        return await self._in_thread(partial(self._join, join))

    def _join(self, join: Join) -> Joined | None:
        if self.log.is_checkpoint_due:
            # Only what a checkpoint knows to be sealed is rewritten.
            self.log.checkpoint()
        return self.log.join(join)

    async def verify(self, limit_bytes: int) -> int:
        """Check some of the bytes that this process has not seen, and return how many."""
        return await self._in_thread(partial(self.log.verify, limit_bytes))

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    def listen(self, listener: Listener) -> None:
        """Have a callback run in the loop whenever the high watermark advances."""
        self._listeners[listener] = None

    def hurry(self, listener: Listener) -> None:
        """Make rows durable without delay for as long as one listens that waits for them."""
        self._hurried.add(listener)
        if self.log.end_offset > self.high_watermark:
            self._commit.request(at_once=True)

    def unlisten(self, listener: Listener) -> None:
        """Forget a callback."""
        self._listeners.pop(listener, None)
        self._hurried.discard(listener)

    async def close(self) -> None:
        """Finish what runs, then sync and close the log."""
        async with self.turn:
            await self._commit.close()
            await asyncio.get_running_loop().run_in_executor(self._executor, self.log.close)
        self._announce()

    def _start_admission(
        self, batches: Batches, size: int, admission: Admission
    ) -> asyncio.Task[None] | None:
        """Admit small requests here and now, large ones in a thread while others have a turn."""
        unchecked = None
        if size <= INLINE_BYTES_MAX and len(batches) <= INLINE_BATCHES_MAX:
            unchecked = _inspected(batches, admission)
            decoded_bytes = sum(each.decoded_bytes for each in unchecked)
            if decoded_bytes <= INLINE_DECODED_BYTES_MAX:
                admission.take(len(batches), decoded_bytes)
                _check_all(unchecked)
                return None
        admitting = asyncio.get_running_loop().create_task(
            self._admit_aside(batches, admission, unchecked)
        )
        admitting.add_done_callback(_retrieve)
        return admitting

    async def _admit_aside(
        self, batches: Batches, admission: Admission, unchecked: list[Unchecked] | None
    ) -> None:
        """Learn what the values take once decoded, wait for so much memory, then decode them."""
        if unchecked is None:
            look = partial(_looked_at, batches, admission)
            found, is_checked = await self._in_thread(look)
        else:
            found, is_checked = unchecked, False
        sizes = [each.decoded_bytes for each in found]
        admission.take(len(batches), sum(sizes))
        if is_checked:
            return
        async with admission.room(max(sizes, default=0)):
            await to_the_end(self._in_thread(partial(_check_all, found)))

    async def write(
        self, batches: Batches, size: int, *, owner: int = NOBODY
    ) -> tuple[int, AppendReceipt]:
        """Write batches that were admitted; the caller holds the turn."""
        if self.log.is_full_for(size):
            # Rolling syncs first; waiting here keeps that off the loop.
            await self._commit.durable(self.log.end_offset)
        headers = [header for _, header in batches]
        write = partial(
            self.log.append,
            [batch for batch, _ in batches],
            headers=headers,
            timestamp_ms=self._clock.now_ms(),
            owner=owner,
        )
        is_quick = size <= INLINE_BYTES_MAX and not self.log.notes_first(headers, owner=owner)
        return self._written(write() if is_quick else await self.alone(write), size)

    def _written(self, appended: Appended, size: int) -> tuple[int, AppendReceipt]:
        if not appended.duplicate:
            self._tally.rows += appended.end_offset - appended.base_offset
            self._tally.size_bytes += size
        return appended.end_offset, AppendReceipt(appended.base_offset)

    async def alone(self, work: Callable[[], T]) -> T:
        """Run work in a thread while holding the turn, which stays held until it has ended."""
        return await to_the_end(self._in_thread(work))

    def _announce(self) -> None:
        high_watermark = self.high_watermark
        if high_watermark == self._announced:
            return
        self._announced = high_watermark
        loop = asyncio.get_running_loop()
        for listener in tuple(self._listeners):
            # Each in its own turn of the loop, so that none can break the commit or another.
            loop.call_soon(listener)


def check_acks(acks: int) -> None:
    """Refuse a number that says nothing about durability."""
    if acks not in ACKS:
        raise errors.InvalidAcksError(
            f"acks is {acks}, but must be one of -1, 0 and 1, or -2 for rows in remote storage."
        )


def _split(records: Part) -> Batches:
    view = memoryview(records).toreadonly()
    found = islice(iterate(view), BATCHES_MAX + 1)
    batches = [(view[position : position + header.size], header) for header, position in found]
    if len(batches) > BATCHES_MAX:
        raise errors.RecordTooLargeError(
            f"A request has more than {BATCHES_MAX} record batches for a bucket.",
            hint="Put more rows into a batch.",
        )
    return batches


def _inspected(batches: Batches, admission: Admission) -> list[Unchecked]:
    return [admission.inspect(batch, header) for batch, header in batches]


def _looked_at(batches: Batches, admission: Admission) -> tuple[list[Unchecked], bool]:
    """Inspect batches, and check their values as well unless they are large once decoded."""
    unchecked = _inspected(batches, admission)
    if sum(each.decoded_bytes for each in unchecked) > THREAD_DECODED_BYTES_MAX:
        return unchecked, False
    _check_all(unchecked)
    return unchecked, True


def _check_all(batches: list[Unchecked]) -> None:
    for batch in batches:
        batch.check_values()


def _retrieve(admission: asyncio.Future[None]) -> None:
    """See the outcome even if the append was cancelled meanwhile."""
    if not admission.cancelled():
        admission.exception()
