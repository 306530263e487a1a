"""Send the batches of one lane, one at a time, skipping those that landed before."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.epochs.batches import LaneBatches
from headwater.epochs.ledger import TURNS_MAX, LaneKey, LanePosition, LaneStanding
from headwater.model import LogPosition
from headwater.model.bucket import UNKNOWN
from headwater.wire.messages import Part
from headwater.write.batches import Answer, Lane, Payload
from headwater.write.send import Courier, Parcel

LOOKS_MAX = 2
"""Checks of the log without news before the server is assumed to have forgotten the writer."""
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class LaneHistory:
    """What the log and the ledger say about an epoch."""

    count: int
    """Batches that have landed."""
    next: LanePosition
    """The position after them."""
    end: int | None
    """The log end after the last of them."""
    seen: LogPosition | None = None
    """How far the log was read, and in which incarnation."""
    is_noted: bool = False
    """Whether the ledger says that the epoch is finished."""


class Past(Protocol):
    """Knows what has happened to an epoch so far."""

    async def look(self, batches: LaneBatches) -> LaneHistory:
        """Find which of these batches landed; raise if other rows landed."""
        ...


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """What became of the batches of a lane."""

    written: int
    landed: int
    position: LanePosition
    end: int
    holds: tuple[LogPosition, ...] = ()
    """The logs for which this is true."""
    is_noted: bool = False
    """Whether another attempt recorded the epoch as finished."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """What to send, and from where."""

    key: LaneKey
    standing: LaneStanding
    log_end: int
    """The log end before anything was sent: anything before it has landed."""
    looks_first: bool
    """Whether the first batch may have landed so long ago that the server forgot it."""
    checks_rows: bool
    """Whether batches that landed can be compared with those of this attempt."""
    begun: LaneStanding | None = None
    """Which epoch of the lane began last, and where, as far as the ledger tells."""


class LaneSender:
    """Sends the batches of one lane.

    A server accepts each number of a writer once and recognises its last few. So a batch is simply
    sent, and the answer says whether it is new or had landed. The log is only read if a server
    rejects a number: another attempt may be far ahead, or the server has forgotten the writer.
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
        """Return when all batches are written, by whichever attempt."""
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
        """Send the same bytes until a server gives a final answer."""
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
        if answer.fault is None or isinstance(answer.fault, errors.SequenceError):
            return answer
        if errors.moves_leader(answer.fault):
            self._cluster.stale(bucket)
        raise answer.fault

    # ---- what answers mean

    async def _heard(self, answer: Answer, batches: LaneBatches) -> None:
        match answer.fault:
            case None:
                await self._taken(answer, batches)
            case errors.DuplicateSequenceError():
                await self._passed(self._end, batches)
            case fault:
                await self._refused(fault, batches)

    async def _taken(self, answer: Answer, batches: LaneBatches) -> None:
        if answer.offset == _UNKNOWN:
            raise errors.CorruptBatchError(f"A batch for {self._task.key.bucket} was skipped.")
        end = self._lane.end_offset(answer.offset, batches.row_count(self._done))
        self._hold(LogPosition(self._task.key.bucket, end, answer.incarnation))
        if end <= self._task.log_end:
            await self._passed(end, batches)
            return
        self._written += 1
        self._step(end)

    async def _passed(self, end: int, batches: LaneBatches) -> None:
        """Continue after a batch that had landed, once it is known to hold the same rows."""
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

    async def _refused(self, fault: errors.HeadwaterError, batches: LaneBatches) -> None:
        """Find out why a number was rejected: another attempt is ahead, or the writer forgotten."""
        self._misses += 1
        if self._misses > 1:
            # A newly elected leader may not know yet how far its log is committed.
            await self._cluster.clock.sleep(self._cluster.retries.backoff_s(self._misses))
        if await self._look(batches) or self._misses < LOOKS_MAX:
            return
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise fault
        self._at, self._misses = self._at.next_turn, 0

    async def _look(self, batches: LaneBatches) -> bool:
        """Continue after everything that landed, and return whether that is news."""
        found = await self._past.look(batches)
        self._is_checked = True
        self._is_noted = found.is_noted
        self._hold(found.seen)
        if found.count > len(batches):
            raise errors.EpochDiffersError(
                f"An earlier attempt wrote {found.count} batches to "
                f"{self._task.key.bucket}, but this one has {len(batches)}."
            )
        if found.count < self._done:
            raise errors.LogDivergedError(
                f"{self._done} batches were written to {self._task.key.bucket}, but only "
                f"{found.count} are there now: the storage was restored from a copy "
                "meanwhile.",
                hint="Retry the epoch.",
            )
        if found.count == self._done:
            return False
        self._done, self._at, self._misses = found.count, found.next, 0
        self._end = max(self._end, found.end or 0)
        return True


def _tell(heard: asyncio.Future[Answer], answer: Answer) -> None:
    if not heard.done():
        heard.set_result(answer)
