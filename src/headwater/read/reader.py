"""The rows of splits: read from lake and log, merged, filtered and projected."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import assert_never

import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeFile, LakeSplit
from headwater.model import LakeBucket
from headwater.read.filters import RowView
from headwater.read.lake import LakePlans
from headwater.read.merge.fold import Folded
from headwater.read.merge.stream import merged_in_order
from headwater.read.sources import Rows, Source, in_turn, pumped, side_by_side, up_to
from headwater.read.split import Hybrid, LakeFiles, LogPart, LogRange, Split, StateAt
from headwater.read.tails import FoldedTail, Tails
from headwater.read.view import lost_snapshot

SPLITS_AT_ONCE = 3
# What formats say of a file that is not there.
_UNREADABLE = (
    errors.LakeUnreachableError,
    errors.LakeSnapshotMissingError,
    errors.CorruptFileError,
)


class UnionReader:
    """Read splits of one view of a table."""

    def __init__(
        self, cluster: Cluster, wanted: RowView, *, held: Mapping[LakeBucket, FoldedTail]
    ) -> None:
        self._wanted = wanted
        self._names = [column.name for column in wanted.read_columns]
        self._held = held
        self._table = wanted.table
        self._plans = LakePlans.of(cluster)
        self._tails = Tails.of(cluster)

    async def batches(
        self, splits: Sequence[Split], *, limit: int | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of splits, some splits at a time, no more than the limit."""
        if limit == 0:
            return
        # With a limit one after the other, as the first may have rows enough.
        sources = self._sources(splits, keeps=limit is None)
        rows = side_by_side(sources, at_once=SPLITS_AT_ONCE) if limit is None else in_turn(sources)
        async with aclosing(up_to(rows, limit)) as found:
            async for batch in found:
                yield batch

    async def tail_batches(self, splits: Sequence[Split]) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of the log part of splits; by key those that are left."""
        sources = self._sources(splits, reads_lake=False)
        async with aclosing(side_by_side(sources, at_once=SPLITS_AT_ONCE)) as found:
            async for batch in found:
                yield batch

    async def folded(self, tail: LogPart) -> FoldedTail:
        """Return what the changes of a log leave, with the columns that are read."""
        held = self._held.get(tail.log_bucket)
        if held is not None and held.holds(self._names, tail):
            return held
        return await self._tails.folded(self._table, self._names, tail)

    # ---- splits

    def _sources(
        self, splits: Sequence[Split], *, reads_lake: bool = True, keeps: bool = True
    ) -> list[Source]:
        """Return what gives the rows of splits; the logs of a log table are read together."""
        logs: list[LogRange] = []
        sources: list[Source] = []
        for split in splits:
            if isinstance(split, LogRange) and not self._table.is_keyed:
                logs.append(split)
            elif isinstance(split, Hybrid) and not reads_lake:
                sources.append(partial(self._live, split.tail))
            elif reads_lake or not isinstance(split, LakeFiles):
                sources.append(self._alone(split))
        if logs:
            sources.append(partial(self._tails.logged, self._wanted, logs, keeps=keeps))
        return sources

    def _alone(self, split: Split) -> Source:
        """Return what gives the rows of one split."""
        match split:
            case LogRange():
                return partial(self._live, split)
            case StateAt():
                return partial(self._tails.state, self._wanted, split)
            case LakeFiles():
                return partial(self._lake_files, split)
            case Hybrid():
                return partial(self._hybrid, split)
            case other:
                assert_never(other)

    async def _lake_files(self, split: LakeFiles) -> Rows:
        source = await self._source(split.files, self._names)
        async with aclosing(self._pumped(split.files, lambda: source.read(split.files))) as rows:
            async for batch in rows:
                yield batch

    async def _live(self, tail: LogPart) -> Rows:
        """Yield the rows that the changes of a log leave."""
        folded = (await self.folded(tail)).folded
        rows = pumped(lambda: self._filtered(folded.live(self._names)))
        async with aclosing(rows) as found:
            async for batch in found:
                yield batch

    async def _hybrid(self, split: Hybrid) -> Rows:
        """Yield the rows of the lake that were not changed since, and those that were."""
        folded, files = (await self.folded(split.tail)).folded, split.files
        keys = [name for name in self._table.schema.primary_key if name not in self._names]
        names = [*self._names, *keys]
        plain, keyed = await self._source(files, self._names), await self._source(files, names)
        merge = partial(_merged, folded, files, plain=plain, keyed=keyed, names=names)
        async with aclosing(self._pumped(files, merge)) as rows:
            async for batch in rows:
                yield batch

    # ---- the lake

    async def _source(self, files: LakeSplit, names: Sequence[str]) -> LakeSource:
        source = await self._plans.source(self._table, files.snapshot_id)
        return source.with_projection([(name,) for name in names])

    async def _pumped(self, files: LakeSplit, make: Callable[[], Iterator[pa.RecordBatch]]) -> Rows:
        """Yield the wanted ones of rows, which are read in a thread."""
        try:
            async with aclosing(pumped(lambda: self._filtered(make()))) as rows:
                async for batch in rows:
                    yield batch
        except _UNREADABLE as fault:
            await self._check_kept(files.snapshot_id, fault)
            raise

    async def _check_kept(self, snapshot_id: int, fault: errors.HeadwaterError) -> None:
        """Say so if files could not be read because their snapshot expired."""
        self._plans.forget(self._table, snapshot_id)
        if await self._plans.snapshot(self._table, snapshot_id) is None:
            raise lost_snapshot(self._table, snapshot_id) from fault

    def _filtered(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._wanted.filtered, rows)


def _merged(
    folded: Folded,
    lake: LakeSplit,
    *,
    plain: LakeSource,
    keyed: LakeSource,
    names: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a bucket: of files that hold no changed row as they are, others merged."""
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
