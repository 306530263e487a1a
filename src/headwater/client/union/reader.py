"""The rows of splits: read from lake and log, merged, filtered and projected."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import chain

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.view import View
from headwater.client.union.lake_plans import LakePlans
from headwater.client.union.split import Tier, UnionSplit
from headwater.client.union.streams import Rows, Source, in_turn, pumped, side_by_side
from headwater.client.union.tail_cache import FoldedTail
from headwater.client.union.tails import Tails
from headwater.lake.spi import LakeSource
from headwater.model.boundary import LakeBucket

SPLITS_AT_ONCE = 3


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
        async with aclosing(pumped(lambda: self._filtered(_read(source, split)))) as rows:
            async for batch in rows:
                yield batch

    async def _hybrid(self, split: UnionSplit, *, has_lake: bool) -> Rows:
        """Yield the rows of the lake that were not changed since, then those that were."""
        folded, names = (await self.folded(split)).folded, self._names
        keys = [name for name in self._table.schema.primary_key if name not in names]
        source = await self._source(split, [*names, *keys]) if has_lake else None

        def rows() -> Iterator[pa.RecordBatch]:
            live = folded.live(names)
            if source is None:
                return self._filtered(live)
            return self._filtered(chain(folded.without_changed(_read(source, split)), live))

        async with aclosing(pumped(rows)) as batches:
            async for batch in batches:
                yield batch

    # ---- the lake

    async def _source(self, split: UnionSplit, names: Sequence[str]) -> LakeSource:
        assert split.lake is not None
        source = await self._plans.source(self._table, split.lake.snapshot_id)
        return source.with_projection([(name,) for name in names])

    def _filtered(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._wanted.filtered, rows)


def _read(source: LakeSource, split: UnionSplit) -> Iterator[pa.RecordBatch]:
    assert split.lake is not None
    return source.read(split.lake)
