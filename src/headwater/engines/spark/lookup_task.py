"""The Spark task of a lookup join: collect keys, look them up, and attach the results.

Each distinct key is looked up once; results may be cached for a while, from task to task.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from headwater.client.sync.table import Table
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.types import SparkBatches
from headwater.model import DataType
from headwater.rows.compacted.coders import KeyEncoder
from headwater.rows.row_bytes import Longs, Mask
from headwater.runtime.clock import Clock, SystemClock

# The keys of the rows: each distinct one once, and which row has which.

NO_KEY = -1


@dataclass(frozen=True, slots=True, eq=False)
class DistinctKeys:
    """Distinct keys, and for each row which of them it has."""

    keys: pa.RecordBatch
    ids: pa.Array
    """A unique value for each key."""
    key_of_row: Longs
    """Index of each row's key, or `NO_KEY` if part of it is null."""


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Extracts the keys from rows."""

    given: tuple[str, ...]
    """The columns of the rows that hold the key."""
    schema: pa.Schema
    """The columns of the table that they are looked up in."""
    types: tuple[DataType, ...]

    def distinct(self, batches: Sequence[pa.RecordBatch]) -> DistinctKeys:
        """The distinct keys of several batches."""
        columns = [
            pa.concat_arrays([batch.column(name) for batch in batches]).cast(field.type)
            for name, field in zip(self.given, self.schema, strict=True)
        ]
        keys = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        has_key = _without_nulls(columns)
        if has_key is not None:
            keys = keys.filter(pa.array(has_key))
        encoded = self.ids(keys).dictionary_encode()
        positions = encoded.indices.to_numpy().astype(np.int64)
        key_of_row = positions
        if has_key is not None:
            key_of_row = np.full(len(has_key), NO_KEY, np.int64)
            key_of_row[has_key] = positions
        return DistinctKeys(
            keys.take(pa.array(_firsts(positions, len(encoded.dictionary)))),
            encoded.dictionary,
            key_of_row,
        )

    def ids(self, keys: pa.RecordBatch) -> pa.Array:
        """A unique value for each key."""
        if keys.num_columns == 1:
            return keys.column(0)
        return KeyEncoder.of(self.types).encode(keys.columns).to_arrow()


def _without_nulls(
    columns: Sequence[pa.Array],
) -> Mask | None:
    """Tell which rows have a complete key; None if all do."""
    partial = [column for column in columns if column.null_count]
    if not partial:
        return None
    valid = pc.is_valid(partial[0])
    for column in partial[1:]:
        valid = pc.and_(valid, pc.is_valid(column))
    return np.asarray(valid)


def _firsts(positions: Longs, count: int) -> Longs:
    """Find where each position occurs first."""
    firsts = np.empty(count, np.int64)
    # If several values go to one place the last one stays, so they come in reverse.
    firsts[positions[::-1]] = np.arange(len(positions) - 1, -1, -1)
    return firsts


# What was found: rows, and for each key where its rows begin and how many they are.


@dataclass(frozen=True, slots=True, eq=False)
class LookupAnswers:
    """The rows found for keys: none, one or several for each."""

    rows: pa.RecordBatch
    starts: Longs
    counts: Longs

    @classmethod
    def of(cls, rows: pa.RecordBatch, owners: Longs, *, keys: int) -> "LookupAnswers":
        """Combine rows that come in key order, and the key of each."""
        counts = np.bincount(owners, minlength=keys).astype(np.int64)
        return cls(rows, _starts(counts), counts)

    def select(self, positions: Longs) -> "LookupAnswers":
        """The results for some of the keys, over the same rows."""
        return LookupAnswers(self.rows, self.starts[positions], self.counts[positions])

    def compact(self) -> "LookupAnswers":
        """The same results without the rows of other keys."""
        rows = self.rows.take(pa.array(spread(self.starts, self.counts)))
        return LookupAnswers(rows, _starts(self.counts), self.counts)

    def plus(self, others: "LookupAnswers") -> "LookupAnswers":
        """These results, followed by others."""
        rows = pa.Table.from_batches([self.rows, others.rows], self.rows.schema)
        return LookupAnswers(
            one_batch(rows),
            np.concatenate((self.starts, others.starts + self.rows.num_rows)),
            np.concatenate((self.counts, others.counts)),
        )


def owners_of(found: pa.Array, keys: pa.Array) -> Longs:
    """For each row found, the position of its key."""
    if len(found) == len(keys) and found.equals(keys):
        return np.arange(len(keys))
    return np.asarray(pc.index_in(found, value_set=keys), np.int64)


def spread(starts: Longs, counts: Longs) -> Longs:
    """All positions of ranges, one range after the other."""
    within = np.arange(counts.sum()) - np.repeat(_starts(counts), counts)
    return np.repeat(starts, counts) + within


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Combine a table into one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _starts(counts: Longs) -> Longs:
    return np.cumsum(counts) - counts


# Attaching results to rows.

ROWS_OUT_MAX = 65_536


class JoinType(StrEnum):
    """What happens to a row for which nothing is found."""

    LEFT = "left"
    INNER = "inner"


def joined(
    batch: pa.RecordBatch,
    key_of_row: Longs,
    answers: LookupAnswers,
    *,
    how: JoinType,
    names: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns found for them, in the order of the rows."""
    has_key = key_of_row != NO_KEY
    counts = np.zeros(len(key_of_row), np.int64)
    counts[has_key] = answers.counts[key_of_row[has_key]]
    starts = np.zeros(len(key_of_row), np.int64)
    starts[has_key] = answers.starts[key_of_row[has_key]]
    for first, end in _pieces(counts):
        piece = batch if end - first == batch.num_rows else batch.slice(first, end - first)
        yield _piece(
            piece,
            LookupAnswers(answers.rows, starts[first:end], counts[first:end]),
            how=how,
            names=names,
        )


def _pieces(counts: Longs) -> Iterator[tuple[int, int]]:
    """Split rows so that no result batch gets too large."""
    ends = np.cumsum(np.maximum(counts, 1))
    first, before = 0, 0
    while first < len(counts):
        end = int(np.searchsorted(ends, before + ROWS_OUT_MAX, side="right"))
        end = max(end, first + 1)
        yield first, end
        first, before = end, int(ends[end - 1])


def _piece(
    batch: pa.RecordBatch, answers: LookupAnswers, *, how: JoinType, names: tuple[str, ...]
) -> pa.RecordBatch:
    counts = answers.counts
    times = np.maximum(counts, 1) if how is JoinType.LEFT else counts
    found = spread(answers.starts, times)
    rows = batch
    if (times != 1).any():
        rows = batch.take(pa.array(np.repeat(np.arange(len(times)), times)))
    has_found = np.repeat(counts > 0, times)
    places = pa.array(found) if has_found.all() else pa.array(found, mask=~has_found)
    columns = [column.take(places) for column in answers.rows.columns]
    fields = [field.with_name(name) for field, name in zip(answers.rows.schema, names, strict=True)]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *columns], schema=pa.schema([*rows.schema, *fields])
    )


# Caching results, so that frequent keys are looked up rarely.

_NOWHERE = -1
Ask = Callable[[DistinctKeys, Longs], LookupAnswers]
"""Look up the keys at these positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """How much is cached: keys and rows, bytes, and for how long."""

    rows_max: int
    bytes_max: int
    age_max_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Keys with their results and when they were looked up."""

    ids: pa.Array
    answers: LookupAnswers
    fetched_at: npt.NDArray[np.float64]

    def fits(self, room: "CacheRoom") -> bool:
        # A key without a row takes space too.
        count = len(self.ids) + self.answers.rows.num_rows
        return count <= room.rows_max and self.answers.rows.nbytes <= room.bytes_max

    def select(self, positions: Longs) -> "_Held":
        answers = self.answers.select(positions).compact()
        return _Held(self.ids.take(pa.array(positions)), answers, self.fetched_at[positions])

    def plus(self, others: "_Held") -> "_Held":
        return _Held(
            pa.concat_arrays([self.ids, others.ids]),
            self.answers.plus(others.answers),
            np.concatenate((self.fetched_at, others.fetched_at)),
        )


class Cache:
    """Keeps as many results as there is space for."""

    def __init__(self, clock: Clock, room: CacheRoom) -> None:
        self._clock = clock
        self._room = room
        self._held: _Held | None = None

    def answer(self, keys: DistinctKeys, ask: Ask) -> LookupAnswers:
        """Answer keys from the cache, and look up the others."""
        now = self._clock.monotonic()
        held = self._fresh(now)
        positions = _positions(keys.ids, held)
        missing = np.flatnonzero(positions == _NOWHERE)
        if held is None or len(missing):
            fetched = _Held(keys.ids.take(pa.array(missing)), ask(keys, missing), _at(now, missing))
            positions[missing] = np.arange(len(missing)) + (0 if held is None else len(held.ids))
            held = fetched if held is None else held.plus(fetched)
        if not held.fits(self._room):
            # Full: results not needed this time make room for those that were.
            held = held.select(positions)
            positions = np.arange(len(positions))
        self._held = held if held.fits(self._room) else None
        return held.answers.select(positions)

    def _fresh(self, now: float) -> _Held | None:
        held = self._held
        if held is None:
            return None
        is_fresh = held.fetched_at > now - self._room.age_max_s
        return held if is_fresh.all() else held.select(np.flatnonzero(is_fresh))


def _positions(ids: pa.Array, held: _Held | None) -> Longs:
    if held is None:
        return np.full(len(ids), _NOWHERE, np.int64)
    found = pc.index_in(ids, value_set=held.ids).fill_null(_NOWHERE)
    return np.asarray(found).astype(np.int64)


def _at(now: float, keys: Longs) -> npt.NDArray[np.float64]:
    return np.full(len(keys), now)


# The task.

# Rows whose keys are looked up together: enough to make up for the round trip.
ROWS_AT_ONCE = 65_536
CACHES_MAX = 16
CACHE_BYTES_MAX = 1 << 30
# What a task caches for itself, so that frequent keys are not looked up each time.
OF_TASK = CacheRoom(rows_max=1 << 18, bytes_max=1 << 26, age_max_s=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTask:
    """What is looked up, and how; travels to every task."""

    connection: SparkConnection
    table: str
    keys: KeyReader
    is_whole_key: bool
    columns: tuple[str, ...]
    """The columns of the table that are added."""
    names: tuple[str, ...]
    """Their names in the result."""
    schema: StructType
    how: JoinType
    truncates_nanoseconds: bool
    cache_rows: int
    cache_age_s: float

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the enriched rows of a task."""
        search = _Search(self)
        gathered: list[pa.RecordBatch] = []
        for batch in batches:
            gathered.append(batch)
            if sum(each.num_rows for each in gathered) >= ROWS_AT_ONCE:
                yield from self._enriched(gathered, search)
                gathered = []
        yield from self._enriched(gathered, search)

    def _enriched(
        self, batches: Sequence[pa.RecordBatch], search: "_Search"
    ) -> Iterator[pa.RecordBatch]:
        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return
        keys = self.keys.distinct(batches)
        answers = search.answer(keys)
        first = 0
        for batch in batches:
            key_of_row = keys.key_of_row[first : first + batch.num_rows]
            yield from joined(batch, key_of_row, answers, how=self.how, names=self.names)
            first += batch.num_rows


class _Search:
    """Looks up keys in the table or in the cache."""

    def __init__(self, task: LookupTask) -> None:
        self._task = task
        self._table: Table = task.connection.client().table(task.table)
        self._cast = SparkBatches(task.schema, truncates_nanoseconds=task.truncates_nanoseconds)
        self._cache = (
            _cache(_key_of(task), os.getpid()) if task.cache_rows else Cache(SystemClock(), OF_TASK)
        )

    def answer(self, keys: DistinctKeys) -> LookupAnswers:
        return self._cache.answer(keys, self._ask)

    def _ask(self, keys: DistinctKeys, positions: Longs) -> LookupAnswers:
        wanted, ids = keys.keys, keys.ids
        if len(positions) < len(ids):
            places = pa.array(positions)
            wanted, ids = wanted.take(places), ids.take(places)
        found = self._found(wanted)
        names = wanted.schema.names
        key = one_batch(found.select(names)).cast(wanted.schema)
        rows = self._cast.cast(one_batch(found.select(self._task.columns)))
        return LookupAnswers.of(rows, owners_of(self._task.keys.ids(key), ids), keys=len(ids))

    def _found(self, wanted: pa.RecordBatch) -> pa.Table:
        columns = tuple(dict.fromkeys((*wanted.schema.names, *self._task.columns)))
        if self._task.is_whole_key:
            return self._table.lookup(wanted, columns=columns)
        return self._table.prefix_lookup(wanted, columns=columns)


@dataclass(frozen=True, slots=True)
class _CacheKey:
    """Separates caches that must not share results."""

    connection: SparkConnection
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int
    age_s: float


def _key_of(task: LookupTask) -> _CacheKey:
    return _CacheKey(
        task.connection,
        task.table,
        tuple(task.keys.schema.names),
        task.columns,
        task.cache_rows,
        task.cache_age_s,
    )


@lru_cache(maxsize=CACHES_MAX)
def _cache(key: _CacheKey, _process: int) -> Cache:
    room = CacheRoom(rows_max=key.rows, bytes_max=CACHE_BYTES_MAX, age_max_s=key.age_s)
    return Cache(SystemClock(), room)
