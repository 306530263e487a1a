"""Write the rows of one epoch exactly once.

Rows are split by bucket, ordered and cut into batches identically in every attempt, and sent under
writer ids that are computed from the sink. A ledger table records which epochs each lane (a task's
way into one bucket) has finished and where its batches may lie in the log, so a retry sends only
what is missing.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace

from headwater.cluster.cluster import Cluster
from headwater.config.client import ACKS_ALL, ACKS_SAFE
from headwater.epochs.batches import Coding, LaneBatches, coding_of
from headwater.epochs.intake import Epoch, EpochReceipt, HeldRows, Intake, Meaning, PlaceRows
from headwater.epochs.lane_past import LanePast
from headwater.epochs.lane_sender import Assignment, LaneOutcome, LaneSender
from headwater.epochs.ledger import (
    NO_EPOCH,
    TURNS_MAX,
    LaneKey,
    LanePosition,
    LaneStanding,
    SinkLedger,
)
from headwater.errors import PartitionMissingError, RequestError
from headwater.model import LogPosition, TableBucket, TableInfo
from headwater.read.offsets import Place, check_positions, list_ends
from headwater.write.rows_in import RowsLike
from headwater.write.target import WriteContext, WritePartitions

LANES_AT_ONCE = 16
"""Lanes of a call that are ordered, encoded and sent concurrently."""


class EpochWriter:
    """Writes epochs of one table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: WriteContext) -> None:
        if cluster.settings.acks not in ACKS_SAFE:
            raise RequestError(
                "Epochs need durable writes, but the client does not wait for all "
                "acknowledgements.",
                hint=f"Set `acks={ACKS_ALL}` in the client settings.",
            )
        self._cluster = cluster
        self._table = table
        self._writers = writers
        self._partitions = WritePartitions(cluster, table)
        self._ledger: SinkLedger | None = None
        # How far this writer recorded each lane: positions in the ledger never go back.
        self._noted: dict[LaneKey, LanePosition] = {}

    async def write(self, rows: RowsLike, epoch: Epoch, meaning: Meaning) -> EpochReceipt:
        """Write all rows of an epoch except those that landed before.

        1. Split the rows by bucket. 2. Find the buckets, and how far each lane is.
        3. Send what is missing in every lane. 4. Record the epoch as finished, if the storage still
           has the rows.
        """
        held, coding = HeldRows(), coding_of(self._table, meaning)
        await Intake(self._table, meaning, lane=epoch.lane).take(rows, held)
        count = sum(each.count for each in held.places.values())
        keys = await self._lanes(held, epoch)
        ledger = await self._get_ledger() if epoch.begins is None and keys else None
        assignments = await self._assignments(keys, epoch, ledger)
        outcomes = await self._send_all(assignments, held, coding, epoch=epoch, ledger=ledger)
        holds = [position for each in outcomes.values() for position in each.holds]
        if ledger is not None:
            finished = _finished(assignments, outcomes, epoch)
            marks = _first_marks(assignments, finished)
            await ledger.write(finished | marks, only_if=holds)
            self._noted |= {key: standing.position for key, standing in finished.items()}
        elif holds:
            await check_positions(self._cluster, self._table, holds)
        return EpochReceipt(
            rows=count,
            batches_written=sum(each.written for each in outcomes.values()),
            batches_landed=sum(each.landed for each in outcomes.values()),
            offsets={place: each.end for place, each in outcomes.items()},
        )

    # ---- where rows go

    async def _lanes(self, held: HeldRows, epoch: Epoch) -> dict[Place, LaneKey]:
        keys = {}
        for place, rows in held.places.items():
            bucket = await self._bucket(place, rows)
            if bucket is not None:
                keys[place] = LaneKey(epoch.sink, bucket, epoch.lane)
        return keys

    async def _bucket(self, place: Place, rows: PlaceRows) -> TableBucket | None:
        """Find the bucket; None if there is nothing to delete."""
        if place.partition is None:
            return TableBucket(self._table.table_id, place.bucket, None)
        if rows.only_deletes:
            partition_id = await self._partitions.find(place.partition)
            if partition_id is None:
                return None
        else:
            partition_id = await self._partitions.ensure(place.partition)
        return TableBucket(self._table.table_id, place.bucket, partition_id)

    # ---- how far lanes are

    async def _get_ledger(self) -> SinkLedger:
        if self._ledger is None:
            self._ledger = await SinkLedger.open(self._cluster, self._writers)
        return self._ledger

    async def _assignments(
        self, keys: Mapping[Place, LaneKey], epoch: Epoch, ledger: SinkLedger | None
    ) -> dict[Place, Assignment]:
        """Decide what to send; lanes that finished the epoch have nothing to send."""
        buckets = {place: key.bucket for place, key in keys.items()}
        found = await list_ends(self._cluster, self._table, buckets=buckets)
        ends = {place: each.offset for place, each in found.items()}
        # Nothing is recorded about a log that was replaced meanwhile.
        same = [
            LogPosition(bucket, ends[place], found[place].lineage.writer_before(ends[place]))
            for place, bucket in buckets.items()
        ]
        if ledger is None:
            begins = epoch.begins or {}
            standings = {place: LaneStanding(begin=begins.get(place, 0)) for place in keys}
            return {
                place: self._assignment(keys[place], standing, ends[place], is_new=True)
                for place, standing in standings.items()
            }
        known = await ledger.look_up([row for key in keys.values() for row in (key, key.begun)])
        by_key = {keys[place]: end for place, end in ends.items()}
        new = by_key.keys() - known.keys()
        begun = await self._begun(known, by_key, epoch=epoch, ledger=ledger)
        if begun:
            # Recorded before anything is sent, so that a later attempt knows where to look.
            await ledger.write(begun, only_if=same)
            known |= await ledger.look_up(list(begun))
        lost = self._lost(known, by_key)
        if lost:
            await ledger.write(lost, only_if=same)
            self._noted |= {key: standing.position for key, standing in lost.items()}
            known |= lost
        return {
            place: self._assignment(
                key,
                _since(known, key, epoch),
                ends[place],
                is_new=key in new,
                begun=known.get(key.begun),
            )
            for place, key in keys.items()
            if known[key].epoch < epoch.number
        }

    async def _begun(
        self,
        known: Mapping[LaneKey, LaneStanding],
        ends: Mapping[LaneKey, int],
        *,
        epoch: Epoch,
        ledger: SinkLedger,
    ) -> dict[LaneKey, LaneStanding]:
        """Return what the ledger has to tell before an epoch begins.

        That is where lanes begin, and where epochs do that do not follow the last finished one.
        If the log has batches of a lane then, they are of an epoch that a restored storage has
        lost, and their numbers are skipped.
        """
        begun: dict[LaneKey, LaneStanding] = {}
        for key, end in ends.items():
            standing, last = known.get(key), known.get(key.begun)
            mark = LaneStanding(begin=end, epoch=epoch.number, end=end)
            if standing is None:
                begun |= {key: LaneStanding(begin=end), key.begun: mark}
            elif last is not None and max(last.epoch, standing.epoch + 1) < epoch.number:
                begun[key.begun] = mark
                task = self._assignment(key, standing, end, is_new=False)
                past = LanePast(self._cluster, self._table, task, epoch=epoch.number, ledger=ledger)
                if await past.has_batches():
                    skipped = LanePosition(standing.position.turn + TURNS_MAX + 1)
                    begun[key] = replace(standing, position=skipped)
        return begun

    def _lost(
        self, known: Mapping[LaneKey, LaneStanding], ends: Mapping[LaneKey, int]
    ) -> dict[LaneKey, LaneStanding]:
        """Find where lanes restart in a storage that was restored and has forgotten epochs.

        It may hold part of a forgotten epoch under the numbers that would come next, in any turn
        that an attempt may have used since.
        """
        return {
            key: replace(standing, position=LanePosition(noted.turn + TURNS_MAX + 1), end=ends[key])
            for key, standing in known.items()
            if standing.position < (noted := self._noted.get(key, standing.position))
        }

    def _assignment(
        self,
        key: LaneKey,
        standing: LaneStanding,
        log_end: int,
        *,
        is_new: bool,
        begun: LaneStanding | None = None,
    ) -> Assignment:
        # A number above 0 is rejected if its writer is forgotten, but 0 would be accepted again.
        is_unsure = standing.epoch == NO_EPOCH and not is_new and log_end > standing.begin
        return Assignment(
            key=key,
            standing=standing,
            log_end=log_end,
            looks_first=is_unsure,
            checks_rows=not self._table.is_keyed,
            begun=begun,
        )

    # ---- sending

    async def _send_all(
        self,
        assignments: Mapping[Place, Assignment],
        held: HeldRows,
        coding: Coding,
        *,
        epoch: Epoch,
        ledger: SinkLedger | None,
    ) -> dict[Place, LaneOutcome]:
        room = asyncio.Semaphore(LANES_AT_ONCE)

        async def send(place: Place, task: Assignment) -> LaneOutcome:
            async with room:
                schema, rows = self._table.schema, held.pop(place)
                batches = await asyncio.to_thread(LaneBatches, rows, coding, schema)
                past = LanePast(self._cluster, self._table, task, epoch=epoch.number, ledger=ledger)
                sender = LaneSender(
                    self._cluster, self._writers.courier, task, lane=coding.lane, past=past
                )
                return await sender.send(batches)

        try:
            sent = await _all([send(place, task) for place, task in assignments.items()])
        except PartitionMissingError:
            for place in assignments:
                if place.partition is not None:
                    self._partitions.forget(place.partition)
            raise
        return dict(zip(assignments, sent, strict=True))


def _since(known: Mapping[LaneKey, LaneStanding], key: LaneKey, epoch: Epoch) -> LaneStanding:
    """Return how far a lane is, and that nothing of an epoch is before the place where it began."""
    standing, begun = known[key], known.get(key.begun)
    if begun is None or begun.epoch != epoch.number:
        return standing
    return replace(standing, end=max(standing.known_end, begun.known_end))


def _finished(
    assignments: Mapping[Place, Assignment], outcomes: Mapping[Place, LaneOutcome], epoch: Epoch
) -> dict[LaneKey, LaneStanding]:
    return {
        assignments[place].key: LaneStanding(
            begin=assignments[place].standing.begin,
            epoch=epoch.number,
            position=outcome.position,
            end=outcome.end,
        )
        for place, outcome in outcomes.items()
        if not outcome.is_noted
    }


def _first_marks(
    assignments: Mapping[Place, Assignment], finished: Mapping[LaneKey, LaneStanding]
) -> dict[LaneKey, LaneStanding]:
    """Return which epoch began last, for lanes of earlier versions, which did not tell."""
    return {
        task.key.begun: LaneStanding(
            begin=standing.known_end, epoch=standing.epoch, end=standing.end
        )
        for task in assignments.values()
        if task.begun is None and (standing := finished.get(task.key)) is not None
    }


async def _all(work: Sequence[Coroutine[object, object, LaneOutcome]]) -> list[LaneOutcome]:
    """Run all coroutines and return their results; if one fails, the others are cancelled."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
