"""What a Spark task does to enrich rows: gather, look up, put beside."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.client.sync.table import Table
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.lookups.answers import Answers, one_batch, owners_of
from headwater.engines.spark.lookups.cache import Cache, Room
from headwater.engines.spark.lookups.joining import How, joined
from headwater.engines.spark.lookups.keys import DistinctKeys, KeyReader
from headwater.engines.spark.types import SparkBatches
from headwater.rows.row_bytes import Longs
from headwater.runtime.clock import SystemClock

# Rows whose keys are asked for at once: enough to make up for the way to the server.
ROWS_AT_ONCE = 65_536
CACHES_MAX = 16
CACHE_BYTES_MAX = 1 << 30
# What a task keeps for itself, so that a key that comes often is not asked for each time.
OF_TASK = Room(rows_max=1 << 18, bytes_max=1 << 26, age_max_s=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTask:
    """Hold what is to be looked up, and how; it travels to every task."""

    connection: Connection
    table: str
    keys: KeyReader
    is_whole_key: bool
    columns: tuple[str, ...]
    """The columns of the table that are added."""
    names: tuple[str, ...]
    """What they are called in the result."""
    schema: StructType
    how: How
    truncates_nanoseconds: bool
    cache_rows: int
    cache_age_s: float

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, enriched."""
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
            asked = keys.asked[first : first + batch.num_rows]
            yield from joined(batch, asked, answers, how=self.how, names=self.names)
            first += batch.num_rows


class _Search:
    """Look up keys in the table, or in what was found a while ago."""

    def __init__(self, task: LookupTask) -> None:
        self._task = task
        self._table: Table = task.connection.client().table(task.table)
        self._cast = SparkBatches(task.schema, truncates_nanoseconds=task.truncates_nanoseconds)
        self._cache = (
            _cache(_key_of(task), os.getpid()) if task.cache_rows else Cache(SystemClock(), OF_TASK)
        )

    def answer(self, keys: DistinctKeys) -> Answers:
        return self._cache.answer(keys, self._ask)

    def _ask(self, keys: DistinctKeys, positions: Longs) -> Answers:
        wanted, ids = keys.keys, keys.ids
        if len(positions) < len(ids):
            places = pa.array(positions)
            wanted, ids = wanted.take(places), ids.take(places)
        found = self._found(wanted)
        names = wanted.schema.names
        key = one_batch(found.select(names)).cast(wanted.schema)
        rows = self._cast.cast(one_batch(found.select(self._task.columns)))
        return Answers.of(rows, owners_of(self._task.keys.ids(key), ids), keys=len(ids))

    def _found(self, wanted: pa.RecordBatch) -> pa.Table:
        columns = tuple(dict.fromkeys((*wanted.schema.names, *self._task.columns)))
        if self._task.is_whole_key:
            return self._table.lookup(wanted, columns=columns)
        return self._table.prefix_lookup(wanted, columns=columns)


@dataclass(frozen=True, slots=True)
class _CacheKey:
    """Tell apart what must not share answers."""

    connection: Connection
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
    room = Room(rows_max=key.rows, bytes_max=CACHE_BYTES_MAX, age_max_s=key.age_s)
    return Cache(SystemClock(), room)
