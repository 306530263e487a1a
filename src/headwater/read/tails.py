"""Tails: the parts of logs that the lake does not hold, read, folded and kept for later reads.

The next read fetches only what came since. Offsets never change what they hold, so nothing that is
kept can be wrong; it can only be too old or too new for a position, and is passed over then.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cluster.admin import newest_table
from headwater.cluster.cluster import Cluster
from headwater.config.options import CHANGELOG_IMAGE, KV_TTL, ChangelogImage
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo
from headwater.read.filters import RowView
from headwater.read.log_ranges import LogRanges, rounds_of
from headwater.read.merge.fold import Folded, TailFold
from headwater.read.offsets import LogBatch, list_offsets
from headwater.read.sources import gathered
from headwater.read.split import LogPart, LogRange, StateAt
from headwater.read.state import StateReader, inserted
from headwater.read.view import lost_rows, lost_values
from headwater.runtime.tasks import aside

# Pieces of fewer rows are put together, so that a tail that grows by small steps stays quick.
_PIECE_ROWS = 65_536
_GROWTH = 2


@dataclass(frozen=True, slots=True)
class TailKey:
    """Name a log under one schema; the partition by its id, as names come again."""

    table_id: int
    schema_id: int
    partition_id: int | None
    bucket: int


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Hold rows of a log with their offsets, ascending."""

    rows: pa.RecordBatch
    offsets: npt.NDArray[np.int64]

    @property
    def byte_count(self) -> int:
        """Return the bytes that it takes."""
        return int(self.rows.nbytes) + self.offsets.nbytes

    def within(self, wanted: OffsetRange) -> "Piece":
        """Return the rows between two offsets."""
        start, end = np.searchsorted(self.offsets, [wanted.start, wanted.end])
        if end - start == len(self.offsets):
            return self
        return Piece(self.rows.slice(start, end - start), self.offsets[start:end])


@dataclass(frozen=True, slots=True, eq=False)
class LoggedTail:
    """Hold the rows of a log between two offsets."""

    held: OffsetRange
    columns: frozenset[str]
    pieces: tuple[Piece, ...] = ()

    @property
    def byte_count(self) -> int:
        """Return the bytes that the rows take."""
        return sum(piece.byte_count for piece in self.pieces)

    def reaches(self, wanted: OffsetRange, columns: Collection[str]) -> bool:
        """Tell whether the rows from a start on are here, as far as they go."""
        return wanted.start in self.held and self.columns.issuperset(columns)

    def rows(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two offsets, as far as they are here."""
        for piece in self.pieces:
            part = piece.within(wanted)
            if part.rows.num_rows:
                yield part.rows

    def cut(self, start: int) -> "LoggedTail":
        """Return the tail from an offset on, since the lake holds what came before it."""
        if start == self.held.start:
            return self
        wanted = OffsetRange(start, self.held.end)
        parts = [piece.within(wanted) for piece in self.pieces]
        return replace(
            self, held=wanted, pieces=tuple(part for part in parts if part.rows.num_rows)
        )

    def extended(self, batches: Collection[LogBatch], *, end: int) -> "LoggedTail":
        """Return the tail with what comes behind it."""
        added = [Piece(batch.rows, batch.offsets) for batch in batches if batch.rows.num_rows]
        pieces = _fewer([*self.pieces, *added])
        return replace(self, held=OffsetRange(self.held.start, end), pieces=tuple(pieces))


@dataclass(frozen=True, slots=True, eq=False)
class FoldedTail:
    """Hold what the changes of one bucket leave between two offsets, and which columns of it."""

    folded: Folded
    offsets: OffsetRange
    columns: frozenset[str]
    fold: TailFold
    """What goes on from there, by whoever has taken the tail out of the cache."""

    @property
    def byte_count(self) -> int:
        """Return the bytes that the changes take in memory."""
        return self.folded.byte_count

    def holds(self, columns: Collection[str], tail: LogPart) -> bool:
        """Tell whether these columns of a tail are here."""
        return self.offsets == tail.offsets and self.columns.issuperset(columns)

    def leads_to(self, columns: Collection[str], tail: LogPart) -> bool:
        """Tell whether a tail is what is here, and what came since."""
        return (
            self.offsets.start == tail.offsets.start
            and self.offsets.end <= tail.offsets.end
            and self.columns.issuperset(columns)
        )


CachedTail: TypeAlias = LoggedTail | FoldedTail


class TailCache:
    """Keep tails up to a number of bytes, those that were used last."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held: OrderedDict[TailKey, tuple[CachedTail, int]] = OrderedDict()
        self._bytes = 0

    @property
    def byte_count(self) -> int:
        """Return the bytes of all that is kept."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)

    def logged(self, key: TailKey) -> LoggedTail | None:
        """Return the rows that are kept of a log."""
        found = self._get(key)
        return found if isinstance(found, LoggedTail) else None

    def folded(self, key: TailKey) -> FoldedTail | None:
        """Return the changes that are kept of a log."""
        found = self._get(key)
        return found if isinstance(found, FoldedTail) else None

    def put(self, key: TailKey, tail: CachedTail) -> None:
        """Keep a tail in the place of what was kept of its log, if it is not too large."""
        self.drop(key)
        size = tail.byte_count
        if size > self.bytes_max or (isinstance(tail, FoldedTail) and tail.folded.is_spilled):
            return
        self._held[key] = (tail, size)
        self._bytes += size
        while self._bytes > self.bytes_max:
            self.drop(next(iter(self._held)))

    def drop(self, key: TailKey) -> None:
        """Keep nothing of a log."""
        _, size = self._held.pop(key, (None, 0))
        self._bytes -= size

    def _get(self, key: TailKey) -> CachedTail | None:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]


def _fewer(pieces: Sequence[Piece]) -> list[Piece]:
    """Put small pieces together, such that each row is copied a few times at most."""
    found: list[Piece] = []
    run: list[Piece] = []
    for piece in pieces:
        if len(piece.offsets) >= _PIECE_ROWS:
            found += [*_joined(run), piece]
            run = []
        else:
            run.append(piece)
    return found + _joined(run)


def _joined(run: Sequence[Piece]) -> list[Piece]:
    """Join the last pieces, such that each that is left is much larger than the next."""
    at, size = len(run), 0
    while at and (not size or len(run[at - 1].offsets) < _GROWTH * size):
        at -= 1
        size += len(run[at].offsets)
    return [*run[:at], *_together(run[at:])]


def _together(pieces: Sequence[Piece]) -> Sequence[Piece]:
    if len(pieces) <= 1:
        return pieces
    rows = pa.concat_batches([piece.rows for piece in pieces])
    return [Piece(rows, np.concatenate([piece.offsets for piece in pieces]))]


# ---- reading


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
        self, view: RowView, splits: Sequence[LogRange], *, keeps: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of ranges of a log table, in large batches."""
        async with aclosing(self._logged(view, splits, keeps=keeps)) as batches:
            async for rows in gathered(batches):
                yield rows

    async def _logged(
        self, view: RowView, splits: Sequence[LogRange], *, keeps: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows as they come.

        1. With `keeps`, fetch what is missing in the cache, as far as there is room for it.
        2. Yield what the cache holds. 3. Fetch and yield the rest.
        """
        # Servers can leave rows out by a filter; the cache needs them all.
        fills = keeps and self.cache.bytes_max > 0 and view.predicate is None
        for wanted in rounds_of(splits):
            if fills:
                async with self._locks[view.table.table_id]:
                    await self._fill(view, wanted)
            missing: list[LogRange] = []
            for log in wanted:
                held, rest = self._kept(view, log)
                missing.append(rest)
                for batch in held:
                    yield await self._filtered(view, batch)
            async with aclosing(self._fetched(view, missing)) as batches:
                async for each in batches:
                    yield each.rows

    async def _filtered(self, view: RowView, rows: pa.RecordBatch) -> pa.RecordBatch:
        if view.filter is None:
            return view.given(rows)
        return await aside(view.filtered, rows)

    def _kept(self, view: RowView, log: LogRange) -> tuple[list[pa.RecordBatch], LogRange]:
        """Return the rows from a start on that the cache holds, and the offsets that it lacks."""
        held, wanted = self.cache.logged(_key(view.table, log)), log.offsets
        if held is None or not held.reaches(wanted, _read_names(view)):
            return [], log
        missing = OffsetRange(min(held.held.end, wanted.end), wanted.end)
        return list(held.rows(wanted)), replace(log, offsets=missing)

    async def _fill(self, view: RowView, wanted: Sequence[LogRange]) -> None:
        """Fetch what comes behind the kept rows of logs, or all that a position needs of them."""
        begun: dict[LogRange, LoggedTail] = {}
        columns = frozenset(_read_names(view))
        for log in wanted:
            held, offsets = self.cache.logged(_key(view.table, log)), log.offsets
            empty = OffsetRange(offsets.start, offsets.start)
            if held is None or offsets.start > held.held.end:
                begun[log] = LoggedTail(empty, columns)
            elif offsets.start < held.held.start or offsets.end < held.held.end:
                continue
            elif held.columns.issuperset(columns):
                begun[log] = held.cut(offsets.start)
            else:
                begun[log] = LoggedTail(empty, held.columns | columns)
        for group in _by_columns(begun):
            await self._extend(view.table, group)

    async def _extend(self, table: TableInfo, tails: Mapping[LogRange, LoggedTail]) -> None:
        """Fetch what tails of the same columns lack of the ranges that they are wanted for."""
        columns = next(iter(tails.values())).columns
        view = RowView.of(table, columns=[name for name in table.schema.names if name in columns])
        missing = [
            replace(log, offsets=OffsetRange(tail.held.end, log.offsets.end))
            for log, tail in tails.items()
        ]
        came: defaultdict[TableBucket, list[LogBatch]] = defaultdict(list)
        room = self.cache.bytes_max - sum(tail.byte_count for tail in tails.values())
        is_whole = True
        async with aclosing(self._fetched(view, missing)) as batches:
            async for batch in batches:
                came[batch.bucket].append(batch)
                room -= batch.rows.nbytes + batch.offsets.nbytes
                if room < 0:
                    is_whole = False
                    break
        for log, tail in tails.items():
            got = came[log.bucket_of(table)]
            end = int(got[-1].offsets[-1]) + 1 if got else tail.held.end
            extended = tail.extended(got, end=log.offsets.end if is_whole else end)
            self.cache.put(_key(table, log), extended)

    # ---- by key

    async def folded(self, table: TableInfo, columns: Sequence[str], tail: LogPart) -> FoldedTail:
        """Return what the changes of a tail leave, with these columns and the key."""
        key = _key(table, tail)
        needed = {*columns, *table.schema.primary_key}
        async with self._locks[key]:
            held = self.cache.folded(key)
            if held is not None and held.holds(needed, tail):
                return held
            if isinstance(tail, StateAt):
                return await self._folded_anew(table, needed, tail)
            if held is not None and held.leads_to(needed, tail):
                # Taken out, since a fold that goes on only halfway is good for nothing.
                self.cache.drop(key)
                found = await self._folded_on(table, held, tail)
            else:
                found = await self._folded_anew(table, needed, tail)
            if held is None or held.offsets.end <= found.offsets.end:
                self.cache.put(key, found)
            return found

    async def _folded_anew(self, table: TableInfo, needed: set[str], tail: LogPart) -> FoldedTail:
        view = RowView.of(table, columns=[name for name in table.schema.names if name in needed])
        limit = self._cluster.settings.union_memory_bytes_max
        new = tells_new(table, tail)
        fold = TailFold(table, view.schema, memory_bytes_max=limit, tells_new=new)
        changes = (
            self._inserted(view, tail) if isinstance(tail, StateAt) else self._fetched(view, [tail])
        )
        async with aclosing(changes) as batches:
            async for batch in batches:
                await aside(fold.add, batch)
        return FoldedTail(await aside(fold.folded), tail.offsets, frozenset(view.names), fold)

    async def _folded_on(self, table: TableInfo, held: FoldedTail, tail: LogRange) -> FoldedTail:
        view = RowView.of(
            table, columns=[name for name in table.schema.names if name in held.columns]
        )
        since = replace(tail, offsets=OffsetRange(held.offsets.end, tail.offsets.end))
        async with aclosing(self._fetched(view, [since])) as batches:
            async for batch in batches:
                await aside(held.fold.add, batch)
        return FoldedTail(await aside(held.fold.folded), tail.offsets, held.columns, held.fold)

    async def state(self, view: RowView, state: StateAt) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of a bucket by key, as its servers tell them."""
        reader = StateReader(self._cluster, view, state, keeps_unknown=False, refuses_unknown=True)
        try:
            await self._check_columns(view, state)
            async with aclosing(aiter(reader)) as batches:
                async for rows in batches:
                    yield rows
            await self._check_columns(view, state)
        except (OffsetOutOfRangeError, PartitionMissingError) as fault:
            raise lost_rows(view.table, fault) from fault

    async def _check_columns(self, view: RowView, state: StateAt) -> None:
        """Refuse columns that were dropped, if rows were changed since: their values are gone."""
        newest = await newest_table(self._cluster, view.table)
        known = {column.column_id for column in newest.schema.columns}
        dropped = [each.name for each in view.read_columns if each.column_id not in known]
        if not dropped:
            return
        buckets = {state.place: state.bucket_of(view.table)}
        ends = await list_offsets(self._cluster, view.table, "latest", buckets=buckets)
        if ends[state.place] > state.at:
            raise lost_values(view.table, dropped[0])

    async def _inserted(self, view: RowView, state: StateAt) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows of a state as changes, for those who have to merge them."""
        async with aclosing(self.state(view, state)) as batches:
            async for rows in batches:
                yield inserted(rows, state, bucket=state.bucket_of(view.table))

    # ---- fetching

    async def _fetched(
        self, view: RowView, logs: Sequence[LogRange]
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield what ranges of logs hold, of all buckets together."""
        try:
            async with aclosing(LogRanges(self._cluster, view).read(logs)) as batches:
                async for batch in batches:
                    yield batch
        except (OffsetOutOfRangeError, PartitionMissingError) as fault:
            raise lost_rows(view.table, fault) from fault


def tells_new(table: TableInfo, tail: LogPart) -> bool:
    """Tell whether keys that a tail inserts first cannot be in the files of the lake.

    The lake keeps the rows of partitions that were dropped. If one is made anew under the same
    name, its log inserts keys that the lake still holds, so this is never known of partitions.
    Other servers may expire rows without a change, and without the rows before updates they may
    call an update an insert.
    """
    if not isinstance(tail, LogRange) or table.descriptor.is_partitioned:
        return False
    properties = table.descriptor.properties
    is_full = CHANGELOG_IMAGE.of(properties) is ChangelogImage.FULL
    return is_full and KV_TTL.of(properties) is None


def _key(table: TableInfo, tail: LogPart) -> TailKey:
    return TailKey(table.table_id, table.schema_id, tail.partition_id, tail.bucket)


def _by_columns(tails: Mapping[LogRange, LoggedTail]) -> list[dict[LogRange, LoggedTail]]:
    """Put tails together that are fetched with the same columns."""
    groups: defaultdict[frozenset[str], dict[LogRange, LoggedTail]] = defaultdict(dict)
    for log, tail in tails.items():
        groups[tail.columns][log] = tail
    return list(groups.values())


def _read_names(view: RowView) -> list[str]:
    return [column.name for column in view.read_columns]
