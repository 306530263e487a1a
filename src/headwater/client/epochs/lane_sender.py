"""The batches of one lane on their way: one at a time, less those that have landed before."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headwater.client.cluster import Cluster
from headwater.client.epochs.lane_batches import LaneBatches
from headwater.client.epochs.lanes import LaneKey, Position
from headwater.client.epochs.ledger_rows import Standing
from headwater.client.epochs.trail import TURNS_MAX
from headwater.client.writing.batches import Answer, Lane, Payload
from headwater.client.writing.courier import Courier, Parcel
from headwater.errors import (
    CorruptBatchError,
    DuplicateSequenceError,
    EpochDiffersError,
    HeadwaterError,
    LogDivergedError,
    SequenceError,
    moves_leader,
)
from headwater.model.lineage import UNKNOWN, LogPosition
from headwater.wire.fields import Part

LOOKS_MAX = 2
"""Looks at the log without news before a server is taken to have forgotten the writer."""
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what a look at the log and the ledger told of an epoch."""

    count: int
    """Batches that have landed."""
    next: Position
    """The position behind them."""
    end: int | None
    """Where the log stands after the last of them."""
    seen: LogPosition | None = None
    """How far the log was looked at, and who wrote that."""
    is_noted: bool = False
    """Whether the ledger says that the epoch is finished."""


class Past(Protocol):
    """Know what has happened to an epoch so far."""

    async def look(self, batches: LaneBatches) -> Found:
        """Return what has landed of these batches; refuse other rows than have landed."""
        ...


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """Tell what became of the batches of a lane."""

    written: int
    landed: int
    position: Position
    end: int
    holds: tuple[LogPosition, ...] = ()
    """The log that all this is true of."""
    is_noted: bool = False
    """Whether another attempt noted the epoch as finished."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """Say what is to be sent, and from where."""

    key: LaneKey
    standing: Standing
    log_end: int
    """Where the log ended before anything was sent: what stands before it has landed."""
    looks_first: bool
    """Whether the first batch may have landed so long ago that the server does not know it."""
    checks_rows: bool
    """Whether batches that have landed can be compared with those of this attempt."""


class LaneSender:
    """Send the batches of one lane.

    A server takes a number of a writer once, and recognises its last few. So a batch is simply
    sent: the answer tells whether it is new or had landed. Only where a server refuses a number
    the log is looked at: others may be far ahead, or the server has forgotten the writer.
    """

    def __init__(
        self, cluster: Cluster, courier: Courier, assignment: Assignment, *, lane: Lane, past: Past
    ) -> None:
        self._cluster = cluster
        self._courier = courier
        self._task = assignment
        self._lane = lane
        self._past = past
        self._at = assignment.standing.position.with_room
        self._end = assignment.standing.known_end
        self._done = 0
        self._written = 0
        self._misses = 0
        self._turns = 0
        self._is_checked = not assignment.checks_rows
        self._ready: dict[int, Payload] = {}
        self._holds: dict[int, LogPosition] = {}
        self._is_noted = False

    async def send(self, batches: LaneBatches) -> LaneOutcome:
        """Return when all batches are written, by whomever."""
        if self._task.looks_first:
            await self._look(batches)
        while self._done < len(batches):
            payload = await self._payload(batches, self._done)
            records = payload.records(
                writer_id=self._task.key.writer_id(self._at.turn), sequence=self._at.sequence
            )
            answer, _ = await asyncio.gather(
                self._post(records), self._prepare(batches, self._done + 1)
            )
            await self._heard(answer, batches)
        landed = len(batches) - self._written
        return LaneOutcome(
            self._written,
            landed,
            self._at,
            self._end,
            holds=tuple(self._holds.values()),
            is_noted=self._is_noted,
        )

    # ---- encoding, one batch ahead

    async def _payload(self, batches: LaneBatches, number: int) -> Payload:
        if number not in self._ready:
            self._ready.clear()
            await self._prepare(batches, number)
        return self._ready.pop(number)

    async def _prepare(self, batches: LaneBatches, number: int) -> None:
        if number < len(batches):
            self._ready[number] = await asyncio.to_thread(batches.payload, number)

    # ---- sending

    async def _post(self, records: Part) -> Answer:
        """Send a batch until a server says what becomes of it; the same bytes every time."""
        return await self._cluster.retries.run(
            partial(self._post_once, records), what=f"Writing to {self._task.key.bucket}"
        )

    async def _post_once(self, records: Part) -> Answer:
        bucket = self._task.key.bucket
        node = await self._cluster.leader(bucket)
        heard: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        deadline = self._cluster.clock.monotonic() + self._cluster.settings.deadline_s
        parcel = Parcel(bucket, self._lane, records, deadline, partial(_tell, heard))
        self._courier.send(node, parcel)
        answer = await heard
        if answer.fault is None or isinstance(answer.fault, SequenceError):
            return answer
        if moves_leader(answer.fault):
            self._cluster.stale(bucket)
        raise answer.fault

    # ---- what answers mean

    async def _heard(self, answer: Answer, batches: LaneBatches) -> None:
        match answer.fault:
            case None:
                await self._taken(answer, batches)
            case DuplicateSequenceError():
                await self._passed(self._end, batches)
            case fault:
                await self._refused(fault, batches)

    async def _taken(self, answer: Answer, batches: LaneBatches) -> None:
        if answer.offset == _UNKNOWN:
            raise CorruptBatchError(f"A batch for {self._task.key.bucket} was left out.")
        end = self._lane.end_offset(answer.offset, batches.row_count(self._done))
        self._hold(LogPosition(self._task.key.bucket, end, answer.incarnation))
        if end <= self._task.log_end:
            await self._passed(end, batches)
            return
        self._written += 1
        self._step(end)

    async def _passed(self, end: int, batches: LaneBatches) -> None:
        """Go on behind a batch that had landed, once it is known to hold the same rows."""
        if self._is_checked:
            self._step(end)
        else:
            await self._look(batches)

    def _step(self, end: int) -> None:
        self._done += 1
        self._at = self._at.following
        self._end = max(self._end, end)
        self._misses = 0

    def _hold(self, position: LogPosition | None) -> None:
        """Keep the furthest position of each incarnation: what it wrote is there up to it."""
        if position is None or position.incarnation == UNKNOWN:
            return
        held = self._holds.get(position.incarnation)
        if held is None or held.position < position.position:
            self._holds[position.incarnation] = position

    async def _refused(self, fault: HeadwaterError, batches: LaneBatches) -> None:
        """Find out why a number is not the next: others were ahead, or the writer is forgotten."""
        self._misses += 1
        if self._misses > 1:
            # A leader that was just elected may not know yet how far its log is good.
            await self._cluster.clock.sleep(self._cluster.retries.backoff_s(self._misses))
        if await self._look(batches) or self._misses < LOOKS_MAX:
            return
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise fault
        self._at, self._misses = self._at.next_turn, 0

    async def _look(self, batches: LaneBatches) -> bool:
        """Go on behind everything that has landed, and tell whether that is news."""
        found = await self._past.look(batches)
        self._is_checked = True
        self._is_noted = found.is_noted
        self._hold(found.seen)
        if found.count > len(batches):
            raise EpochDiffersError(
                f"An earlier attempt wrote {found.count} batches to {self._task.key.bucket},"
                f" where there are {len(batches)} now."
            )
        if found.count < self._done:
            raise LogDivergedError(
                f"{self._done} batches were written to {self._task.key.bucket}, of which"
                f" {found.count} are there now: the storage was restored from a copy meanwhile.",
                hint="Try the epoch again.",
            )
        if found.count == self._done:
            return False
        self._done, self._at, self._misses = found.count, found.next, 0
        self._end = max(self._end, found.end or 0)
        return True


def _tell(heard: asyncio.Future[Answer], answer: Answer) -> None:
    if not heard.done():
        heard.set_result(answer)
