"""The rows of splits: read from lake and log, merged, filtered and projected."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.view import View
from headwater.client.union.lake_plans import LakePlans
from headwater.client.union.merge.folded import Folded
from headwater.client.union.merge.sorted import merged_in_order
from headwater.client.union.refusals import lost_snapshot
from headwater.client.union.split import Tier, UnionSplit
from headwater.client.union.streams import Rows, Source, in_turn, pumped, side_by_side
from headwater.client.union.tail_cache import FoldedTail
from headwater.client.union.tails import Tails
from headwater.errors import (
    CorruptFileError,
    HeadwaterError,
    LakeSnapshotMissingError,
    LakeUnreachableError,
)
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeFile
from headwater.model.boundary import LakeBucket

SPLITS_AT_ONCE = 3
# What formats say of a file that is not there.
_UNREADABLE = (LakeUnreachableError, LakeSnapshotMissingError, CorruptFileError)


class UnionReader:
    """Read splits of one view of a table."""

    def __init__(
        self, cluster: Cluster, wanted: View, *, held: Mapping[LakeBucket, FoldedTail]
    ) -> None:
        self._wanted = wanted
        self._names = [column.name for column in wanted.read_columns]
        self._held = held
        self._table = wanted.table
        self._plans = LakePlans.of(cluster)
        self._tails = Tails.of(cluster)

    async def batches(
        self, splits: Sequence[UnionSplit], *, limit: int | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of splits, some splits at a time, no more than the limit."""
        left = limit
        if left == 0:
            return
        # With a limit one after the other, as the first may have rows enough.
        sources = self._sources(splits, keeps=limit is None)
        rows = side_by_side(sources, at_once=SPLITS_AT_ONCE) if limit is None else in_turn(sources)
        async with aclosing(rows) as found:
            async for batch in found:
                rows = batch if left is None else batch.slice(0, left)
                left = None if left is None else left - rows.num_rows
                if rows.num_rows:
                    yield rows
                if left == 0:
                    return

    async def tail_batches(
        self, splits: Sequence[UnionSplit]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of the log part of splits; by key those that are left."""
        sources = self._sources(splits, has_lake=False)
        async with aclosing(side_by_side(sources, at_once=SPLITS_AT_ONCE)) as found:
            async for batch in found:
                yield batch

    async def folded(self, split: UnionSplit) -> FoldedTail:
        """Return what the changes of a split leave, with the columns that are read."""
        assert split.log_bucket is not None
        held = self._held.get(split.log_bucket)
        if held is not None and held.holds(self._names, split):
            return held
        return await self._tails.folded(self._table, self._names, split)

    # ---- splits

    def _sources(
        self, splits: Sequence[UnionSplit], *, has_lake: bool = True, keeps: bool = True
    ) -> list[Source]:
        """Return what gives the rows of splits; the logs of a log table are read together."""
        logs = [split for split in splits if split.tier is Tier.LOG_ONLY]
        sources: list[Source] = []
        for split in splits:
            match split.tier:
                case Tier.HYBRID:
                    sources.append(partial(self._hybrid, split, has_lake=has_lake))
                case Tier.LAKE_ONLY if has_lake:
                    sources.append(partial(self._lake_only, split))
                case Tier.LOG_ONLY if split.reads_state:
                    sources.append(partial(self._tails.state, self._wanted, split))
                case Tier.LOG_ONLY if self._table.is_keyed:
                    sources.append(partial(self._hybrid, split, has_lake=False))
        if logs and not self._table.is_keyed:
            sources.append(partial(self._tails.logged, self._wanted, logs, keeps=keeps))
        return sources

    async def _lake_only(self, split: UnionSplit) -> Rows:
        source = await self._source(split, self._names)
        async with aclosing(self._pumped(split, lambda: _read(source, split))) as rows:
            async for batch in rows:
                yield batch

    async def _hybrid(self, split: UnionSplit, *, has_lake: bool) -> Rows:
        """Yield the rows of the lake that were not changed since, and those that were."""
        folded = (await self.folded(split)).folded
        if not has_lake:
            async with aclosing(self._pumped(split, lambda: folded.live(self._names))) as rows:
                async for batch in rows:
                    yield batch
            return
        keys = [name for name in self._table.schema.primary_key if name not in self._names]
        names = [*self._names, *keys]
        plain, keyed = await self._source(split, self._names), await self._source(split, names)
        merge = partial(_merged, folded, split, plain=plain, keyed=keyed, names=names)
        async with aclosing(self._pumped(split, merge)) as rows:
            async for batch in rows:
                yield batch

    # ---- the lake

    async def _source(self, split: UnionSplit, names: Sequence[str]) -> LakeSource:
        assert split.lake is not None
        source = await self._plans.source(self._table, split.lake.snapshot_id)
        return source.with_projection([(name,) for name in names])

    async def _pumped(
        self, split: UnionSplit, make: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Rows:
        """Yield the wanted ones of rows, which are read in a thread."""
        try:
            async with aclosing(pumped(lambda: self._filtered(make()))) as rows:
                async for batch in rows:
                    yield batch
        except _UNREADABLE as fault:
            await self._check_kept(split, fault)
            raise

    async def _check_kept(self, split: UnionSplit, fault: HeadwaterError) -> None:
        """Say so if files could not be read because their snapshot expired."""
        if split.lake is None:
            return
        snapshot_id = split.lake.snapshot_id
        self._plans.forget(self._table, snapshot_id)
        if await self._plans.snapshot(self._table, snapshot_id) is None:
            raise lost_snapshot(self._table, snapshot_id) from fault

    def _filtered(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._wanted.filtered, rows)


def _merged(
    folded: Folded,
    split: UnionSplit,
    *,
    plain: LakeSource,
    keyed: LakeSource,
    names: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split: of files that hold no changed row as they are, others merged."""
    lake = split.lake
    assert lake is not None
    if folded.is_spilled and keyed.is_key_ordered:
        # In the order of keys nothing has to be put into files but the changes.
        ordered = keyed.read(lake, in_key_order=True)
        yield from merged_in_order(ordered, folded, columns=names)
        return
    touched: dict[bool, list[LakeFile]] = {False: [], True: []}
    for file in lake.files:
        touched[not file.stands_alone or folded.may_touch(file)].append(file)
    if touched[False]:
        yield from plain.read(replace(lake, files=tuple(touched[False])))
    if touched[True]:
        yield from folded.without_changed(keyed.read(replace(lake, files=tuple(touched[True]))))
    yield from folded.live(names)


def _read(source: LakeSource, split: UnionSplit) -> Iterator[pa.RecordBatch]:
    assert split.lake is not None
    return source.read(split.lake)
