"""Send batches: they wait in the queue of their bucket, and go to servers many in one request."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Retries
from headwater.config.client import ClientSettings
from headwater.model import TableBucket
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks
from headwater.wire.apis import Api
from headwater.wire.limits import WRITES_MAX
from headwater.wire.messages import Part
from headwater.wire.write import BucketRecords
from headwater.write import batches, sequencer
from headwater.write.encode import INLINE_BYTES_MAX
from headwater.write.work import WriterIds, WriteWork

# The bytes that may wait to be written at a time; whoever finds no room waits in turn.


class WriteRoom:
    """Hand out bytes up to a total, first come first served."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, count: int) -> None:
        """Wait until bytes fit; one taker may exceed an untouched room."""
        if not self._waiting and self._fits(count):
            self._used_bytes += count
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(count)  # They were granted just before.
            self._serve()
            raise

    def give(self, count: int) -> None:
        """Return bytes and serve those who wait."""
        self._used_bytes -= count
        assert self._used_bytes >= 0
        self._serve()

    def _fits(self, count: int) -> bool:
        return not self._used_bytes or self._used_bytes + count <= self._total_bytes

    def _serve(self) -> None:
        while self._waiting:
            count, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(count):
                    return
                self._used_bytes += count
                turn.set_result(None)
            self._waiting.popleft()


# Requests that carry batches to servers: those of one turn for one server and table together.

_courier_events = Events("courier")
REQUEST_BYTES_MAX = 8 * 1024 * 1024
TIMEOUT_S_MIN = 0.01
# The server gives up a little earlier, so that its answer is still heard.
SERVER_SHARE = 0.9


class Nodes(Protocol):
    """Be the servers, as far as sending goes."""

    @property
    def settings(self) -> ClientSettings:
        """Return the limits of the client."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...

    async def call_node(
        self, node_id: int, api: Api, parts: Sequence[Part], *, timeout_s: float | None = None
    ) -> memoryview:
        """Send a request to a server, once."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Hold one batch for one bucket, and who wants to hear of it."""

    bucket: TableBucket
    lane: batches.Lane
    records: Part
    deadline: float
    answered: Callable[[batches.Answer], None]


class Courier:
    """Carry the batches of one turn of the loop in as few requests as keep their order."""

    def __init__(self, nodes: Nodes, tasks: Tasks) -> None:
        self._nodes = nodes
        self._tasks = tasks
        self._waiting: dict[int, list[Parcel]] = {}

    def send(self, node_id: int, parcel: Parcel) -> None:
        """Send a batch; batches of a bucket leave in the order of calls."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._depart)
        self._waiting.setdefault(node_id, []).append(parcel)

    def _depart(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for node_id, parcels in waiting.items():
            for load in loads_of(parcels, bytes_max=REQUEST_BYTES_MAX):
                self._tasks.start(self._carry(node_id, load), name="write")

    async def _carry(self, node_id: int, load: Sequence[Parcel]) -> None:
        try:
            answers = await self._exchange(node_id, load)
        except errors.HeadwaterError as fault:
            answers = _same_for_all(load, fault)
        except Exception as cause:  # noqa: BLE001 - the outer edge of a task others wait for
            _courier_events.error("request failed", cause=cause, node=node_id)
            unexpected = f"A request failed in an unexpected way: {cause!r}."
            answers = _same_for_all(load, errors.HeadwaterError(unexpected))
        for parcel in load:
            parcel.answered(answers.get(parcel.bucket) or left_out(parcel.bucket))

    async def _exchange(
        self, node_id: int, load: Sequence[Parcel]
    ) -> dict[TableBucket, batches.Answer]:
        lane, settings = load[0].lane, self._nodes.settings
        left_s = min(parcel.deadline for parcel in load) - self._nodes.clock.monotonic()
        timeout_s = max(min(settings.request_timeout_s, left_s), TIMEOUT_S_MIN)
        request = lane.request(
            [_records(parcel) for parcel in load],
            acks=settings.acks,
            timeout_ms=max(int(timeout_s * SERVER_SHARE * 1000), 1),
        )
        body = await self._nodes.call_node(node_id, lane.api, request, timeout_s=timeout_s)
        return {
            TableBucket(lane.table_id, bucket, partition_id): answer
            for (partition_id, bucket), answer in lane.answers(body).items()
        }


def loads_of(parcels: Sequence[Parcel], *, bytes_max: int) -> list[list[Parcel]]:
    """Share batches out to requests: a bucket once in each, and in the order of its batches."""
    loads: list[list[Parcel]] = []
    sizes: list[int] = []
    earliest: dict[TableBucket, int] = {}
    for parcel in parcels:
        size = len(parcel.records)
        at = earliest.get(parcel.bucket, 0)
        while at < len(loads) and (
            loads[at][0].lane is not parcel.lane
            or sizes[at] + size > bytes_max
            or len(loads[at]) >= WRITES_MAX
        ):
            at += 1
        if at == len(loads):
            loads.append([])
            sizes.append(0)
        loads[at].append(parcel)
        sizes[at] += size
        earliest[parcel.bucket] = at + 1
    return loads


def _records(parcel: Parcel) -> BucketRecords:
    return BucketRecords(parcel.bucket.bucket, parcel.records, parcel.bucket.partition_id)


def _same_for_all(
    load: Sequence[Parcel], fault: errors.HeadwaterError
) -> dict[TableBucket, batches.Answer]:
    return dict.fromkeys((parcel.bucket for parcel in load), batches.Answer(-1, fault))


def left_out(bucket: TableBucket) -> batches.Answer:
    """Return what is taken for the answer of a bucket that a server does not answer for."""
    return batches.Answer(
        -1, errors.RetryLaterError(f"The answer of the server leaves out {bucket}.")
    )


# The batches that wait for one bucket, and the task that sends them.

_queue_events = Events("bucket_queue")
# No server takes a request that is larger.
RECORDS_BYTES_MAX = 60 * 1024 * 1024


class Leaders(Protocol):
    """Know who leads a bucket."""

    @property
    def settings(self) -> ClientSettings:
        """Return the limits of the client."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...

    @property
    def retries(self) -> Retries:
        """Return how long to wait after failures."""
        ...

    async def leader(self, bucket: TableBucket) -> int:
        """Return the server that leads a bucket."""
        ...

    def stale(self, bucket: TableBucket) -> None:
        """Ask for the leader of a bucket again before the next use."""
        ...


@dataclass(frozen=True, slots=True)
class Lent:
    """Hold the number that a batch is sent under past the queue of its bucket, and where to."""

    writer_id: int
    sequence: int
    node_id: int


class BucketQueue:
    """Send the batches of one bucket in order, a few at a time."""

    def __init__(
        self,
        bucket: TableBucket,
        cluster: Leaders,
        *,
        courier: Courier,
        room: WriteRoom,
        ids: WriterIds,
        work: WriteWork,
    ) -> None:
        self.bucket = bucket
        self._cluster = cluster
        self._settings = cluster.settings
        self._courier = courier
        self._room = room
        self._ids = ids
        self._work = work
        self._sequencer: sequencer.Sequencer[batches.WriteBatch] = sequencer.Sequencer(
            window=self._settings.inflight_per_bucket_max
        )
        self._node_id: int | None = None
        self._woken = asyncio.Event()
        self._driver: asyncio.Task[None] | None = None
        self._broken: errors.HeadwaterError | None = None
        # Held while it is decided who sends next: the driver on the loop, or a borrower's thread.
        self._deciding = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lent_to: object | None = None
        self._returned: asyncio.Event | None = None

    # ---- adding

    def takes(self, lane: batches.Lane, rows: batches.WriteRows) -> bool:
        """Tell whether rows would join a batch that waits."""
        last = self._sequencer.last
        return last is not None and last.fits(
            lane,
            rows,
            bytes_max=self._settings.batch_bytes_max,
            rows_max=self._settings.batch_rows_max,
        )

    def add(self, lane: batches.Lane, piece: batches.WritePiece) -> None:
        """Put rows behind all others, together with those that still wait where they fit."""
        if self._broken is not None:
            raise self._broken
        last = self._sequencer.last
        if last is not None and self.takes(lane, piece.rows):
            last.add(piece)
            return
        deadline = self._cluster.clock.monotonic() + self._settings.deadline_s
        with self._deciding:
            self._sequencer.add(batches.WriteBatch(lane, [piece]), deadline=deadline)
            self._go_on()

    def _go_on(self) -> None:
        """Have the driver send what waits, unless a borrower sends; then it begins after that."""
        self._loop = asyncio.get_running_loop()
        self._woken.set()
        if self._lent_to is None and (self._driver is None or self._driver.done()):
            self._driver = self._work.start(self._drive(), name=f"write to {self.bucket}")

    # ---- lending the next number to whoever sends one batch from a thread of its own

    def lend(self, borrower: object) -> Lent | None:
        """Return the next number if nothing waits or is on its way; from any thread.

        Whoever gets it says what became of its batch, by `lent_unused`, `lent_written` or
        `lent_failed`. What is added meanwhile waits for that.
        """
        with self._deciding:
            node_id, driver = self._node_id, self._driver
            if self._lent_to or node_id is None or self._broken or self._work.is_closed:
                return None
            if driver is not None and not driver.done():
                return None
            number = self._sequencer.lend()
            if number is None:
                return None
            self._lent_to = borrower
            return Lent(*number, node_id)

    def lent_written(self) -> None:
        """Take note that the number was used, and the batch written; from any thread."""
        with self._deciding:
            # First, since the borrower may be interrupted in between: to use a number twice is
            # noticed by the server, but to send a batch under two numbers would write it twice.
            self._lent_to = None
            self._sequencer.lent_written()
            self._wake_later()

    def lent_unused(self) -> None:
        """Take the number back, under which nothing was sent; from any thread."""
        with self._deciding:
            self._lent_to = None
            self._wake_later()

    def lent_failed(
        self, batch: batches.WriteBatch, fault: errors.HeadwaterError, *, deadline: float
    ) -> None:
        """Take a batch over whose send failed, or may have; on the loop."""
        with self._deciding:
            self._sequencer.lent_failed(batch, fault, deadline=deadline)
            if errors.moves_leader(fault):
                self._cluster.stale(self.bucket)
                self._node_id = None
            self._lent_to = None
        self._after_lending()

    def reclaim(
        self,
        borrower: object,
        batch: batches.WriteBatch,
        fault: errors.HeadwaterError,
        *,
        deadline: float,
    ) -> None:
        """Take over what a borrower left that was interrupted at any point; on the loop."""
        if self._lent_to is borrower:
            self.lent_failed(batch, fault, deadline=deadline)
        else:
            self._after_lending()

    def _wake_later(self) -> None:
        loop = self._loop
        if loop is not None and (len(self._sequencer) or self._returned is not None):
            loop.call_soon_threadsafe(self._after_lending)

    def _after_lending(self) -> None:
        if self._returned is not None:
            self._returned.set()
        with self._deciding:
            if len(self._sequencer):
                self._go_on()

    async def until_returned(self) -> None:
        """Wait until no number is lent; the client is closed by then, so that none will be."""
        with self._deciding:
            self._loop = asyncio.get_running_loop()
            if self._lent_to is None:
                return
            self._returned = asyncio.Event()
        await self._returned.wait()

    # ---- sending

    async def _drive(self) -> None:
        """Send until nothing is left."""
        try:
            while len(self._sequencer):
                await self._turn()
        except Exception as cause:  # noqa: BLE001 - the outer edge of a task others wait for
            self._break(cause)

    async def _turn(self) -> None:
        self._woken.clear()
        action = self._sequencer.next(self._cluster.clock.monotonic())
        self._tell()
        match action:
            case sequencer.Rest():
                if len(self._sequencer):
                    await self._woken.wait()
            case sequencer.Pause(failures):
                await self._cluster.clock.sleep(self._cluster.retries.backoff_s(failures))
            case sequencer.NeedWriter():
                await self._begin()
            case sequencer.Send(slot):
                await self._advance(slot)
            case _:
                assert_never(action)

    async def _advance(self, slot: sequencer.Slot[batches.WriteBatch]) -> None:
        """Do the next thing that a batch needs; what happened meanwhile is looked at after it."""
        if slot.batch.payload is None:
            await self._encode(slot)
        elif self._node_id is None:
            await self._locate()
        else:
            self._send(slot, slot.batch.payload, self._node_id)

    async def _begin(self) -> None:
        try:
            used = self._sequencer.writer_id
            self._sequencer.begin(await self._ids.get(self.bucket, used=used))
        except errors.HeadwaterError as fault:
            self._sequencer.stall(fault)

    async def _locate(self) -> None:
        try:
            self._node_id = await self._cluster.leader(self.bucket)
        except errors.HeadwaterError as fault:
            self._sequencer.stall(fault)

    async def _encode(self, slot: sequencer.Slot[batches.WriteBatch]) -> None:
        batch = slot.batch
        batch.is_sealed = True
        work = partial(batch.lane.payload, [piece.rows for piece in batch.pieces])
        try:
            batch.payload = await _in_time(work, size=batch.size_bytes)
        except errors.HeadwaterError as fault:
            self._sequencer.reject(slot, fault)
        except pa.ArrowException as cause:
            self._sequencer.reject(
                slot, errors.InvalidValueError(f"Rows cannot be encoded: {cause}.")
            )

    def _send(
        self, slot: sequencer.Slot[batches.WriteBatch], payload: batches.Payload, node_id: int
    ) -> None:
        writer_id, sequence = self._sequencer.number(slot)
        records = payload.records(writer_id=writer_id, sequence=sequence)
        if len(records) > RECORDS_BYTES_MAX:
            self._answered(slot, batches.Answer(-1, _too_large(slot.batch, len(records))))
            return
        self._courier.send(
            node_id,
            Parcel(
                self.bucket,
                slot.batch.lane,
                records,
                slot.deadline,
                partial(self._answered, slot),
            ),
        )

    def _answered(self, slot: sequencer.Slot[batches.WriteBatch], answer: batches.Answer) -> None:
        if self._broken is not None:
            return
        if answer.fault is None:
            self._sequencer.written(slot, answer.offset)
        else:
            self._sequencer.failed(slot, answer.fault)
            if errors.moves_leader(answer.fault):
                self._cluster.stale(self.bucket)
                self._node_id = None
        self._tell()
        self._woken.set()

    # ---- telling

    def _tell(self) -> None:
        for verdict in self._sequencer.take_verdicts():
            match verdict:
                case sequencer.BatchWritten(batch, offset):
                    batch.written(offset)
                case sequencer.BatchFailed(batch, fault):
                    batch.failed(fault)
            self._room.give(verdict.batch.room_bytes)

    def _break(self, cause: Exception) -> None:
        """Fail everything for a mistake of ours, rather than let callers wait for ever."""
        _queue_events.error("queue broke", cause=cause, bucket=str(self.bucket))
        self._broken = errors.HeadwaterError(
            f"Writing to {self.bucket} failed in an unexpected way: {cause!r}."
        )
        for batch in self._sequencer.drain():
            batch.failed(self._broken)
            self._room.give(batch.room_bytes)


async def _in_time(work: Callable[[], batches.Payload], *, size: int) -> batches.Payload:
    return work() if size <= INLINE_BYTES_MAX else await asyncio.to_thread(work)


def _too_large(batch: batches.WriteBatch, size: int) -> errors.RecordTooLargeError:
    return errors.RecordTooLargeError(
        f"A batch of {batch.count} rows has {size} bytes, at most {RECORDS_BYTES_MAX} can be sent.",
        hint="Write smaller values.",
    )
