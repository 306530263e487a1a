"""The part of logs that the lake does not hold, read and folded."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from contextlib import aclosing

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.gathering import gathered
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.state_at import StateAt
from headwater.client.reading.view import View
from headwater.client.union.merge.fold import TailFold
from headwater.client.union.newest import newest_table
from headwater.client.union.refusals import lost_rows, lost_values
from headwater.client.union.split import UnionSplit
from headwater.client.union.tail_cache import FoldedTail, LoggedTail, TailCache, TailKey
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo
from headwater.rows.log_batch import ChangeType
from headwater.runtime.aside import aside

Ranges = dict[LakeBucket, OffsetRange]


class Tails:
    """Read the log part of splits, and keep what was read for the next read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._locks: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.cache = TailCache(cluster.settings.union_tail_bytes_max)

    @classmethod
    def of(cls, cluster: Cluster) -> "Tails":
        """Return those of a client, shared by all of its reads."""
        return cluster.own(cls, lambda: cls(cluster))

    # ---- log tables

    async def logged(
        self, view: View, splits: Sequence[UnionSplit], *, keeps: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of LOG_ONLY splits of a log table, in large batches."""
        async with aclosing(self._logged(view, splits, keeps=keeps)) as batches:
            async for rows in gathered(batches):
                yield rows

    async def _logged(
        self, view: View, splits: Sequence[UnionSplit], *, keeps: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows as they come.

        1. With `keeps`, fetch what is missing in the cache, as far as there is room for it.
        2. Yield what the cache holds. 3. Fetch and yield the rest.
        """
        names = {each.log_bucket: each.partition for each in splits if each.log_bucket is not None}
        # Servers can leave rows out by a filter; the cache needs them all.
        fills = keeps and self.cache.bytes_max > 0 and view.predicate is None
        for wanted in _rounds(splits):
            if fills:
                async with self._locks[view.table.table_id]:
                    await self._fill(view, wanted, names)
            missing: Ranges = {}
            for bucket, offsets in wanted.items():
                held, missing[bucket] = self._kept(view, bucket, offsets)
                for batch in held:
                    yield await self._filtered(view, batch)
            async with aclosing(self._fetched(view, missing, names)) as batches:
                async for each in batches:
                    yield each.rows

    async def _filtered(self, view: View, rows: pa.RecordBatch) -> pa.RecordBatch:
        if view.filter is None:
            return view.given(rows)
        return await aside(view.filtered, rows)

    def _kept(
        self, view: View, bucket: LakeBucket, wanted: OffsetRange
    ) -> tuple[list[pa.RecordBatch], OffsetRange]:
        """Return the rows from a start on that the cache holds, and the offsets that it lacks."""
        held = self.cache.logged(_key(view.table, bucket))
        if held is None or not held.reaches(wanted, _read_names(view)):
            return [], wanted
        return list(held.rows(wanted)), OffsetRange(min(held.held.end, wanted.end), wanted.end)

    async def _fill(self, view: View, wanted: Ranges, names: dict[LakeBucket, str | None]) -> None:
        """Fetch what comes behind the kept rows of logs, or all that a position needs of them."""
        begun: dict[LakeBucket, LoggedTail] = {}
        columns = frozenset(_read_names(view))
        for bucket, offsets in wanted.items():
            held = self.cache.logged(_key(view.table, bucket))
            if held is None or offsets.start > held.held.end:
                begun[bucket] = LoggedTail(OffsetRange(offsets.start, offsets.start), columns)
            elif offsets.start < held.held.start or offsets.end < held.held.end:
                continue
            elif held.columns.issuperset(columns):
                begun[bucket] = held.cut(offsets.start)
            else:
                empty = OffsetRange(offsets.start, offsets.start)
                begun[bucket] = LoggedTail(empty, held.columns | columns)
        for group in _by_columns(begun):
            await self._extend(view.table, group, wanted, names)

    async def _extend(
        self,
        table: TableInfo,
        tails: dict[LakeBucket, LoggedTail],
        wanted: Ranges,
        names: dict[LakeBucket, str | None],
    ) -> None:
        columns = next(iter(tails.values())).columns
        view = View.of(table, columns=[name for name in table.schema.names if name in columns])
        missing = {
            bucket: OffsetRange(tail.held.end, wanted[bucket].end) for bucket, tail in tails.items()
        }
        came: defaultdict[LakeBucket, list[LogBatch]] = defaultdict(list)
        room = self.cache.bytes_max - sum(tail.byte_count for tail in tails.values())
        is_whole = True
        async with aclosing(self._fetched(view, missing, names)) as batches:
            async for batch in batches:
                came[LakeBucket(batch.bucket.partition_id, batch.bucket.bucket)].append(batch)
                room -= batch.rows.nbytes + batch.offsets.nbytes
                if room < 0:
                    is_whole = False
                    break
        for bucket, tail in tails.items():
            got = came[bucket]
            end = int(got[-1].offsets[-1]) + 1 if got else tail.held.end
            extended = tail.extended(got, end=wanted[bucket].end if is_whole else end)
            self.cache.put(_key(table, bucket), extended)

    # ---- by key

    async def folded(
        self, table: TableInfo, columns: Sequence[str], split: UnionSplit
    ) -> FoldedTail:
        """Return what the changes of a split leave, with these columns and the key."""
        assert split.log_bucket is not None
        key = _key(table, split.log_bucket)
        needed = {*columns, *table.schema.primary_key}
        async with self._locks[key]:
            held = self.cache.folded(key)
            if held is not None and held.holds(needed, split):
                return held
            if held is not None and held.leads_to(needed, split) and not split.reads_state:
                # Taken out, since a fold that goes on only halfway is good for nothing.
                self.cache.drop(key)
                tail = await self._folded_on(table, held, split)
            else:
                tail = await self._folded_anew(table, needed, split)
            if not split.reads_state and (held is None or held.offsets.end <= tail.offsets.end):
                self.cache.put(key, tail)
            return tail

    async def _folded_anew(
        self, table: TableInfo, needed: set[str], split: UnionSplit
    ) -> FoldedTail:
        assert split.log is not None
        view = View.of(table, columns=[name for name in table.schema.names if name in needed])
        limit = self._cluster.settings.union_memory_bytes_max
        fold = TailFold(table, view.schema, memory_bytes_max=limit)
        changes = self._inserted(view, split) if split.reads_state else self._changes(view, split)
        async with aclosing(changes) as batches:
            async for batch in batches:
                await aside(fold.add, batch)
        return FoldedTail(await aside(fold.folded), split.log, frozenset(view.names), fold)

    async def _folded_on(self, table: TableInfo, held: FoldedTail, split: UnionSplit) -> FoldedTail:
        assert split.log is not None
        view = View.of(table, columns=[name for name in table.schema.names if name in held.columns])
        async with aclosing(self._changes(view, split, start=held.offsets.end)) as batches:
            async for batch in batches:
                await aside(held.fold.add, batch)
        return FoldedTail(await aside(held.fold.folded), split.log, held.columns, held.fold)

    async def state(self, view: View, split: UnionSplit) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of a bucket by key, as its servers tell them."""
        assert split.log is not None
        assert split.log_bucket is not None
        state = StateAt(
            self._cluster,
            view,
            place=Place(split.partition, split.log_bucket.bucket),
            bucket=_bucket(view.table, split.log_bucket),
            at=split.log.end,
            keeps_unknown=False,
            refuses_unknown=True,
        )
        try:
            await self._check_columns(view, split)
            async with aclosing(aiter(state)) as batches:
                async for rows in batches:
                    yield rows
            await self._check_columns(view, split)
        except (OffsetOutOfRangeError, PartitionMissingError) as fault:
            raise lost_rows(view.table, fault) from fault

    async def _check_columns(self, view: View, split: UnionSplit) -> None:
        """Refuse columns that were dropped, if rows were changed since: their values are gone."""
        newest = await newest_table(self._cluster, view.table)
        known = {column.column_id for column in newest.schema.columns}
        dropped = [each.name for each in view.read_columns if each.column_id not in known]
        if not dropped:
            return
        assert split.log is not None
        assert split.log_bucket is not None
        place = Place(split.partition, split.log_bucket.bucket)
        buckets = {place: _bucket(view.table, split.log_bucket)}
        ends = await list_offsets(self._cluster, view.table, "latest", buckets=buckets)
        if ends[place] > split.log.end:
            raise lost_values(view.table, dropped[0])

    async def _inserted(self, view: View, split: UnionSplit) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows of a state as changes, for those who have to merge them."""
        assert split.log is not None
        assert split.log_bucket is not None
        async with aclosing(self.state(view, split)) as batches:
            async for rows in batches:
                yield LogBatch(
                    rows=rows,
                    changes=np.full(rows.num_rows, ChangeType.INSERT, np.uint8),
                    offsets=np.full(rows.num_rows, split.log.end - 1, np.int64),
                    timestamp_ms=0,
                    bucket=_bucket(view.table, split.log_bucket),
                    partition=split.partition,
                )

    async def _changes(
        self, view: View, split: UnionSplit, *, start: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        assert split.log is not None
        assert split.log_bucket is not None
        offsets = OffsetRange(split.log.start if start is None else start, split.log.end)
        names = {split.log_bucket: split.partition}
        async with aclosing(self._fetched(view, {split.log_bucket: offsets}, names)) as batches:
            async for batch in batches:
                yield batch

    # ---- fetching

    async def _fetched(
        self, view: View, wanted: Ranges, names: dict[LakeBucket, str | None]
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield what logs hold between offsets, of all of them together."""
        fetcher = Fetcher(self._cluster, view)
        try:
            for bucket, offsets in wanted.items():
                if offsets.start < offsets.end:
                    place = Place(names[bucket], bucket.bucket)
                    known = _bucket(view.table, bucket)
                    fetcher.follow(place, known, offset=offsets.start, end=offsets.end)
            async for batch in drained(fetcher, self._cluster, table=view.table.path):
                yield batch
        except (OffsetOutOfRangeError, PartitionMissingError) as fault:
            raise lost_rows(view.table, fault) from fault
        finally:
            await fetcher.close()


def _key(table: TableInfo, bucket: LakeBucket) -> TailKey:
    return TailKey(table.table_id, table.schema_id, bucket.partition_id, bucket.bucket)


def _bucket(table: TableInfo, bucket: LakeBucket) -> TableBucket:
    return TableBucket(table.table_id, bucket.bucket, bucket.partition_id)


def _rounds(splits: Sequence[UnionSplit]) -> list[Ranges]:
    """Put offsets together that follow each other; of one bucket, no two are in one round."""
    rounds: list[Ranges] = [{}]
    for split in sorted(splits, key=_start):
        assert split.log is not None
        assert split.log_bucket is not None
        last = next((each for each in reversed(rounds) if split.log_bucket in each), None)
        if last is None:
            rounds[0][split.log_bucket] = split.log
        elif last[split.log_bucket].end == split.log.start:
            last[split.log_bucket] = OffsetRange(last[split.log_bucket].start, split.log.end)
        elif last is rounds[-1]:
            rounds.append({split.log_bucket: split.log})
        else:
            rounds[rounds.index(last) + 1][split.log_bucket] = split.log
    return rounds


def _start(split: UnionSplit) -> int:
    return 0 if split.log is None else split.log.start


def _by_columns(
    tails: Mapping[LakeBucket, LoggedTail],
) -> list[dict[LakeBucket, LoggedTail]]:
    """Put tails together that are fetched with the same columns."""
    groups: defaultdict[frozenset[str], dict[LakeBucket, LoggedTail]] = defaultdict(dict)
    for bucket, tail in tails.items():
        groups[tail.columns][bucket] = tail
    return list(groups.values())


def _read_names(view: View) -> list[str]:
    return [column.name for column in view.read_columns]
