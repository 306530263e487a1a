"""Writing the rows of one epoch exactly once: the conductor."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace

from headwater.client.cluster import Cluster
from headwater.client.epochs.coding import Coding, coding_of
from headwater.client.epochs.epoch import Epoch
from headwater.client.epochs.held import HeldRows, PlaceRows
from headwater.client.epochs.intake import Intake, Meaning
from headwater.client.epochs.lane_batches import LaneBatches
from headwater.client.epochs.lane_past import LanePast
from headwater.client.epochs.lane_sender import Assignment, LaneOutcome, LaneSender
from headwater.client.epochs.lanes import LaneKey, Position
from headwater.client.epochs.ledger import Ledger
from headwater.client.epochs.ledger_rows import NO_EPOCH, Standing
from headwater.client.epochs.receipts import EpochReceipt
from headwater.client.epochs.trail import TURNS_MAX
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import check_positions, list_ends
from headwater.client.rows_in import RowsLike
from headwater.client.writing.partitions import Partitions
from headwater.client.writing.writers import Writers
from headwater.config.client import ACKS_ALL
from headwater.errors import PartitionMissingError, RequestError
from headwater.model.bucket import TableBucket
from headwater.model.lineage import LogPosition
from headwater.model.table import TableInfo

LANES_AT_ONCE = 16
"""Lanes of a call that are ordered, encoded and sent side by side."""


class EpochWriter:
    """Write epochs of one table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        if cluster.settings.acks != ACKS_ALL:
            raise RequestError(
                "Epochs need to know that what they write is durable.",
                hint=f"Use `acks={ACKS_ALL}` in the settings of the client.",
            )
        self._cluster = cluster
        self._table = table
        self._writers = writers
        self._partitions = Partitions(cluster, table)
        self._ledger: Ledger | None = None
        # How far this writer noted each lane to be: positions in the ledger never go back.
        self._noted: dict[LaneKey, Position] = {}

    async def write(self, rows: RowsLike, epoch: Epoch, meaning: Meaning) -> EpochReceipt:
        """Write all rows of an epoch, less those that have landed before.

        1. Take the rows, each to its bucket. 2. Find the buckets, and how far each lane is.
        3. Send what is missing of every lane. 4. Note the epoch as finished, if the storage is
        still the one that has the rows.
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
            await ledger.write(finished, only_if=holds)
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
        """Return a bucket; None where there is nothing to delete."""
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

    async def _get_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = await Ledger.open(self._cluster, self._writers)
        return self._ledger

    async def _assignments(
        self, keys: Mapping[Place, LaneKey], epoch: Epoch, ledger: Ledger | None
    ) -> dict[Place, Assignment]:
        """Return what is to be sent; lanes that have finished the epoch have nothing to send."""
        buckets = {place: key.bucket for place, key in keys.items()}
        found = await list_ends(self._cluster, self._table, buckets=buckets)
        ends = {place: each.offset for place, each in found.items()}
        # Nothing is noted of a log that is another one by then.
        same = [
            LogPosition(bucket, ends[place], found[place].lineage.writer_before(ends[place]))
            for place, bucket in buckets.items()
        ]
        if ledger is None:
            begins = epoch.begins or {}
            standings = {place: Standing(begin=begins.get(place, 0)) for place in keys}
            return {
                place: self._assignment(keys[place], standing, ends[place], is_new=True)
                for place, standing in standings.items()
            }
        known = await ledger.look_up(list(keys.values()))
        new = {key: ends[place] for place, key in keys.items() if key not in known}
        if new:
            # Noted before anything is sent, so that whoever comes later knows where to look.
            begun = {key: Standing(begin=end) for key, end in new.items()}
            await ledger.write(begun, only_if=same)
            known |= await ledger.look_up(list(new))
        lost = self._lost(known, {keys[place]: ends[place] for place in keys})
        if lost:
            await ledger.write(lost, only_if=same)
            self._noted |= {key: standing.position for key, standing in lost.items()}
            known |= lost
        return {
            place: self._assignment(key, known[key], ends[place], is_new=key in new)
            for place, key in keys.items()
            if known[key].epoch < epoch.number
        }

    def _lost(
        self, known: Mapping[LaneKey, Standing], ends: Mapping[LaneKey, int]
    ) -> dict[LaneKey, Standing]:
        """Return where lanes begin anew in a storage that was restored, and has forgotten epochs.

        It may hold a part of one of those, under numbers that would come next: of any turn that an
        attempt may have taken since.
        """
        return {
            key: replace(standing, position=Position(noted.turn + TURNS_MAX + 1), end=ends[key])
            for key, standing in known.items()
            if standing.position < (noted := self._noted.get(key, standing.position))
        }

    def _assignment(
        self, key: LaneKey, standing: Standing, log_end: int, *, is_new: bool
    ) -> Assignment:
        # A number above 0 is refused where its writer is forgotten, but 0 would be taken again.
        is_unsure = standing.epoch == NO_EPOCH and not is_new and log_end > standing.begin
        return Assignment(
            key=key,
            standing=standing,
            log_end=log_end,
            looks_first=is_unsure,
            checks_rows=not self._table.is_keyed,
        )

    # ---- sending

    async def _send_all(
        self,
        assignments: Mapping[Place, Assignment],
        held: HeldRows,
        coding: Coding,
        *,
        epoch: Epoch,
        ledger: Ledger | None,
    ) -> dict[Place, LaneOutcome]:
        room = asyncio.Semaphore(LANES_AT_ONCE)

        async def send(place: Place, task: Assignment) -> LaneOutcome:
            async with room:
                schema, rows = self._table.schema, held.pop(place)
                batches = await asyncio.to_thread(LaneBatches, rows, coding, schema)
                past = LanePast(
                    self._cluster,
                    self._table,
                    task.key,
                    standing=task.standing,
                    epoch=epoch.number,
                    ledger=ledger,
                )
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


def _finished(
    assignments: Mapping[Place, Assignment], outcomes: Mapping[Place, LaneOutcome], epoch: Epoch
) -> dict[LaneKey, Standing]:
    return {
        assignments[place].key: Standing(
            begin=assignments[place].standing.begin,
            epoch=epoch.number,
            position=outcome.position,
            end=outcome.end,
        )
        for place, outcome in outcomes.items()
        if not outcome.is_noted
    }


async def _all(work: Sequence[Coroutine[object, object, LaneOutcome]]) -> list[LaneOutcome]:
    """Return what all work returns; where one fails, nothing of the others goes on."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
