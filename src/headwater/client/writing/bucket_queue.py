"""The batches that wait for one bucket, and the task that sends them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol, assert_never

import pyarrow as pa

from headwater.client.retries import Retries
from headwater.client.writing.batches import Answer, Batch, Lane, Payload, Piece, Rows
from headwater.client.writing.courier import Courier, Parcel
from headwater.client.writing.room import Room
from headwater.client.writing.sequencing import (
    Failed,
    NeedWriter,
    Pause,
    Rest,
    Send,
    Sequencer,
    Slot,
    Written,
)
from headwater.config.client import ClientSettings
from headwater.errors import (
    HeadwaterError,
    InvalidValueError,
    RecordTooLargeError,
    moves_leader,
)
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("bucket_queue")
# Encoding more than this would keep the loop waiting.
INLINE_BYTES_MAX = 64 * 1024
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


class Office(Protocol):
    """Provide what all queues share."""

    @property
    def cluster(self) -> Leaders:
        """Return who knows the leaders."""
        ...

    @property
    def courier(self) -> Courier:
        """Return who carries batches."""
        ...

    @property
    def room(self) -> Room:
        """Return the room that batches take."""
        ...

    async def writer_id(self, bucket: TableBucket, *, used: int | None) -> int:
        """Return a writer id other than the one that was used."""
        ...

    def start(self, work: Coroutine[object, object, None], *, name: str) -> "asyncio.Task[None]":
        """Run a coroutine in the background."""
        ...


class BucketQueue:
    """Send the batches of one bucket in order, a few at a time."""

    def __init__(self, bucket: TableBucket, office: Office) -> None:
        self._bucket = bucket
        self._office = office
        self._cluster = office.cluster
        self._settings = office.cluster.settings
        self._sequencer: Sequencer[Batch] = Sequencer(window=self._settings.inflight_per_bucket_max)
        self._node_id: int | None = None
        self._woken = asyncio.Event()
        self._driver: asyncio.Task[None] | None = None
        self._broken: HeadwaterError | None = None

    # ---- adding

    def takes(self, lane: Lane, rows: Rows) -> bool:
        """Tell whether rows would join a batch that waits."""
        last = self._sequencer.last
        return last is not None and last.fits(
            lane,
            rows,
            bytes_max=self._settings.batch_bytes_max,
            rows_max=self._settings.batch_rows_max,
        )

    def add(self, lane: Lane, piece: Piece) -> None:
        """Put rows behind all others, together with those that still wait where they fit."""
        if self._broken is not None:
            raise self._broken
        last = self._sequencer.last
        if last is not None and self.takes(lane, piece.rows):
            last.add(piece)
            return
        deadline = self._cluster.clock.monotonic() + self._settings.deadline_s
        self._sequencer.add(Batch(lane, [piece]), deadline=deadline)
        self._woken.set()
        if self._driver is None or self._driver.done():
            self._driver = self._office.start(self._drive(), name=f"write to {self._bucket}")

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
            case Rest():
                if len(self._sequencer):
                    await self._woken.wait()
            case Pause(failures):
                await self._cluster.clock.sleep(self._cluster.retries.backoff_s(failures))
            case NeedWriter():
                await self._begin()
            case Send(slot):
                await self._advance(slot)
            case _:
                assert_never(action)

    async def _advance(self, slot: Slot[Batch]) -> None:
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
            self._sequencer.begin(await self._office.writer_id(self._bucket, used=used))
        except HeadwaterError as fault:
            self._sequencer.stall(fault)

    async def _locate(self) -> None:
        try:
            self._node_id = await self._cluster.leader(self._bucket)
        except HeadwaterError as fault:
            self._sequencer.stall(fault)

    async def _encode(self, slot: Slot[Batch]) -> None:
        batch = slot.batch
        batch.is_sealed = True
        work = partial(batch.lane.payload, [piece.rows for piece in batch.pieces])
        try:
            batch.payload = await _in_time(work, size=batch.size_bytes)
        except HeadwaterError as fault:
            self._sequencer.reject(slot, fault)
        except pa.ArrowException as cause:
            self._sequencer.reject(slot, InvalidValueError(f"Rows cannot be encoded: {cause}."))

    def _send(self, slot: Slot[Batch], payload: Payload, node_id: int) -> None:
        writer_id, sequence = self._sequencer.number(slot)
        records = payload.records(writer_id=writer_id, sequence=sequence)
        if len(records) > RECORDS_BYTES_MAX:
            self._answered(slot, Answer(-1, _too_large(slot.batch, len(records))))
            return
        self._office.courier.send(
            node_id,
            Parcel(
                self._bucket,
                slot.batch.lane,
                records,
                slot.deadline,
                partial(self._answered, slot),
            ),
        )

    def _answered(self, slot: Slot[Batch], answer: Answer) -> None:
        if self._broken is not None:
            return
        if answer.fault is None:
            self._sequencer.written(slot, answer.offset)
        else:
            self._sequencer.failed(slot, answer.fault)
            if moves_leader(answer.fault):
                self._cluster.stale(self._bucket)
                self._node_id = None
        self._tell()
        self._woken.set()

    # ---- telling

    def _tell(self) -> None:
        for verdict in self._sequencer.take_verdicts():
            match verdict:
                case Written(batch, offset):
                    batch.written(offset)
                case Failed(batch, fault):
                    batch.failed(fault)
            self._office.room.give(verdict.batch.size_bytes)

    def _break(self, cause: Exception) -> None:
        """Fail everything for a mistake of ours, rather than let callers wait for ever."""
        _events.error("queue broke", cause=cause, bucket=str(self._bucket))
        self._broken = HeadwaterError(
            f"Writing to {self._bucket} failed in an unexpected way: {cause!r}."
        )
        for batch in self._sequencer.drain():
            batch.failed(self._broken)
            self._office.room.give(batch.size_bytes)


async def _in_time(work: Callable[[], Payload], *, size: int) -> Payload:
    return work() if size <= INLINE_BYTES_MAX else await asyncio.to_thread(work)


def _too_large(batch: Batch, size: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"A batch of {batch.count} rows has {size} bytes, at most {RECORDS_BYTES_MAX} can be sent.",
        hint="Write smaller values.",
    )
