"""A storage and its lake in a test: tables, tierers whose turn the test chooses, and one check.

The check is that of every test: the lake holds exactly what lies below the boundary of its newest
snapshot, and with the rest of the log it makes up all that was written.
"""

import asyncio
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from headwater.aio import AsyncClient, AsyncTable
from headwater.cluster.lake import TieringAssignment
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import LakeCommitter, LakeSnapshot
from headwater.model.boundary import LakeBucket, TieringEpoch
from headwater.read.log_scan import LogScan
from headwater.read.offsets import LogBatch, Place
from headwater.rows.log_batch import ChangeType
from headwater.tiering.plan import Limits
from headwater.tiering.progress import RoundReport, RoundStep, TieringTurn, no_watch
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner

STORAGE = "storage-of-the-test"
SCHEMA = {"id": "BIGINT", "text": "STRING"}


class KilledError(Exception):
    """End a round as if its process had died there."""


@dataclass
class World:
    hw: AsyncClient
    lakes: Lakes
    format: str
    directory: Path
    limits: Limits = field(default_factory=lambda: Limits(rows_max=1_000_000))

    async def table(self, name="t", schema=SCHEMA, **traits) -> AsyncTable:
        options = {
            "table.datalake.enabled": True,
            "table.datalake.format": self.format,
            **traits.pop("options", {}),
        }
        routing = {} if "primary_key" in traits else {"bucket_by": "id"}
        traits = {"buckets": 2, **routing, **traits}
        return await self.hw.create_table(name, schema, options=options, **traits)

    async def keyed(self, name="k", schema=SCHEMA, **traits) -> AsyncTable:
        return await self.table(name, schema, primary_key="id", **traits)

    # ---- tiering

    def turn(
        self, table: AsyncTable, number: int, *, coordinator=1, storage=STORAGE, unsettled=None
    ) -> TieringTurn:
        assignment = TieringAssignment(
            path=table.path,
            table_id=table.info.table_id,
            epoch=TieringEpoch(coordinator, number),
            unsettled=unsettled,
        )
        return TieringTurn(assignment, storage)

    async def paused(self, table: AsyncTable, number: int, step: RoundStep, **traits):
        """Return a round that stands before a step, and what lets it go on."""
        pause = Pause(step)
        work = asyncio.create_task(self.tier(table, number, watch=pause, **traits))
        await pause.reached(work)
        return work, pause

    async def tier(
        self, table: AsyncTable, number=1, *, watch=no_watch, runner=None, **traits
    ) -> RoundReport:
        return await tier_round(
            self.turn(table, number, **traits),
            client=self.hw,
            runner=runner or LocalRunner(self.hw),
            lakes=self.lakes,
            limits=self.limits,
            watch=watch,
        )

    # ---- what is there

    def committer(self, table: AsyncTable) -> LakeCommitter:
        return self.lakes.of(table.info).committer(lake_spec(table.info))

    def head(self, table: AsyncTable) -> LakeSnapshot | None:
        return self.committer(table).head()

    def snapshots(self, table: AsyncTable) -> list[LakeSnapshot]:
        return self.lakes.of(table.info).source(lake_spec(table.info)).snapshots()

    def has_lake_table(self, table: AsyncTable) -> bool:
        return self.lakes.of(table.info).catalog().exists(table.path)

    def files(self, table: AsyncTable, head: LakeSnapshot) -> list[str]:
        """Return the data files of a snapshot."""
        source = self.lakes.of(table.info).source(lake_spec(table.info))
        return [file.path for split in source.plan(head.snapshot_id) for file in split.files]

    def stray_files(self, table: AsyncTable) -> set[str]:
        """Return the data files of the lake that no snapshot names."""
        named = {
            Path(path).name for each in self.snapshots(table) for path in self.files(table, each)
        }
        return {path.name for path in self.directory.rglob("*.parquet")} - named

    def history(self, table: AsyncTable) -> list[tuple[LakeSnapshot, LakeBucket]]:
        """Return every snapshot with every bucket that it holds, oldest first."""
        snapshots = self.snapshots(table)
        return [(each, bucket) for each in snapshots for bucket in each.boundary.ranges]

    def lake_rows(self, table: AsyncTable, snapshot_id: int | None = None) -> Counter:
        source = self.lakes.of(table.info).source(lake_spec(table.info))
        head = source.snapshot(snapshot_id)
        if head is None:
            return Counter()
        splits = source.plan(head.snapshot_id)
        return counted(batch for split in splits for batch in source.read(split))

    async def log(self, table: AsyncTable, *, start="earliest", end="latest") -> list[LogBatch]:
        scan = LogScan(table.cluster, table.info, start=start, end=end)
        async with aclosing(scan.batches()) as batches:
            return [batch async for batch in batches]

    async def check(self, table: AsyncTable, *, kept: Counter | None = None) -> LakeSnapshot:
        """Compare the lake with the log; `kept` are rows of partitions that are gone."""
        await table.refresh()
        head = self.head(table)
        assert head is not None
        assert head.boundary is not None
        ends = await self.ends(table, head)
        below = await self.log(table, end=ends)
        above = await self.log(table, start=ends)
        found = self.lake_rows(table, head.snapshot_id) - (kept or Counter())
        assert found == folded(below, table)
        assert folded([*below, *above], table) == await self.now(table)
        union = counted([batch async for batch in table.scan()])
        assert union == await self.now(table) + (kept or Counter())
        return head

    async def ends(self, table: AsyncTable, head: LakeSnapshot | None) -> dict[Place, int]:
        """Return where the lake ends and the log goes on."""
        offsets = await table.offsets("earliest")
        ids = await table.cluster.partitions(table.info) if table.info.is_partitioned else {}
        if head is None or head.boundary is None:
            return dict(offsets)
        return {
            place: head.boundary.end(LakeBucket(ids.get(place.partition), place.bucket)) or first
            for place, first in offsets.items()
        }

    async def now(self, table: AsyncTable) -> Counter:
        """Return all rows of a table that the storage itself holds."""
        return counted([batch async for batch in table.scan(mode="log")])


def counted(batches) -> Counter:
    """Return how often each row is there."""
    return Counter(tuple(row.items()) for batch in batches for row in batch.to_pylist())


def folded(batches: list[LogBatch], table: AsyncTable) -> Counter:
    """Return what a log makes of a table, one row after the other."""
    if not table.info.is_keyed:
        return counted(batch.rows for batch in batches)
    held = {}
    for batch in batches:
        for row, change in zip(batch.rows.to_pylist(), batch.changes, strict=True):
            key = tuple(row[name] for name in table.info.schema.primary_key)
            if change == ChangeType.DELETE:
                held.pop(key, None)
            elif change != ChangeType.UPDATE_BEFORE:
                held[key] = tuple(row.items())
    return Counter(held.values())


def killing(step: RoundStep, *, times: int = 1):
    """Return a watch that ends a round before a step."""
    left = times

    async def watch(now: RoundStep) -> None:
        nonlocal left
        if now is step and left:
            left -= 1
            raise KilledError

    return watch


class Pause:
    """Be a watch that holds a round before a step until the test lets it go on."""

    def __init__(self, step: RoundStep) -> None:
        self._step = step
        self._reached, self._let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, now: RoundStep) -> None:
        if now is self._step and not self._let_go.is_set():
            self._reached.set()
            await self._let_go.wait()

    async def reached(self, work: asyncio.Task) -> None:
        """Wait until the round stands there; raise what it ended with if it did not get there."""
        await self.reached_or_done(work)
        if work.done():
            work.result()
        assert self._reached.is_set()

    async def reached_or_done(self, work: asyncio.Task) -> None:
        """Wait until the round stands there, or ended before."""
        waiting = asyncio.create_task(self._reached.wait())
        await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def let_go(self) -> None:
        self._let_go.set()


def rows(*ids: int, text: str = "a") -> list[dict[str, object]]:
    return [{"id": number, "text": f"{text}{number}"} for number in ids]
