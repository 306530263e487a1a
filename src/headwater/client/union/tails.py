"""The part of logs that the lake does not hold, read and folded."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.state_at import StateAt
from headwater.client.reading.view import View
from headwater.client.union.merge.fold import TailFold
from headwater.client.union.merge.folded import Folded
from headwater.client.union.merge.spill import SpillPlace
from headwater.client.union.split import UnionSplit
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo
from headwater.rows.log_batch import ChangeType
from headwater.runtime.aside import aside


@dataclass(frozen=True, slots=True)
class FoldedTail:
    """Hold what the changes of one bucket leave between two offsets, and which columns of it."""

    folded: Folded
    offsets: OffsetRange
    columns: frozenset[str]

    def holds(self, columns: Collection[str], split: UnionSplit) -> bool:
        """Tell whether these columns of a split are here."""
        return self.offsets == split.log and self.columns.issuperset(columns)


class Tails:
    """Read the log part of splits."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @classmethod
    def of(cls, cluster: Cluster) -> "Tails":
        """Return those of a client, shared by all of its reads."""
        return cluster.own(cls, lambda: cls(cluster))

    async def logged(
        self, view: View, splits: Sequence[UnionSplit]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of LOG_ONLY splits of a log table, all of them together."""
        async with aclosing(self._fetched(view, splits)) as batches:
            async for batch in batches:
                yield batch.rows

    async def folded(
        self, table: TableInfo, columns: Sequence[str], split: UnionSplit
    ) -> FoldedTail:
        """Return what the changes of a split leave, with these columns and the key."""
        assert split.log is not None
        needed = {*columns, *table.schema.primary_key}
        view = View.of(table, columns=[name for name in table.schema.names if name in needed])
        fold = TailFold(
            table,
            view.schema,
            memory_bytes_max=self._cluster.settings.union_memory_bytes_max,
            spill=SpillPlace(Path(gettempdir())),
        )
        changes = self._inserted(view, split) if split.reads_state else self._fetched(view, [split])
        async with aclosing(changes) as batches:
            async for batch in batches:
                await aside(fold.add, batch)
        folded = await aside(fold.folded)
        return FoldedTail(folded, split.log, frozenset(view.names))

    async def state(self, view: View, split: UnionSplit) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the wanted rows of a bucket by key, as its servers tell them."""
        assert split.log is not None
        place, bucket = _named(view.table, split)
        state = StateAt(
            self._cluster, view, place=place, bucket=bucket, at=split.log.end, keeps_unknown=True
        )
        async with aclosing(aiter(state)) as batches:
            async for rows in batches:
                yield rows

    async def _inserted(self, view: View, split: UnionSplit) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows of a state as changes, for those who have to merge them."""
        assert split.log is not None
        _, bucket = _named(view.table, split)
        async with aclosing(self.state(view, split)) as batches:
            async for rows in batches:
                yield LogBatch(
                    rows=rows,
                    changes=np.full(rows.num_rows, ChangeType.INSERT, np.uint8),
                    offsets=np.full(rows.num_rows, split.log.end - 1, np.int64),
                    timestamp_ms=0,
                    bucket=bucket,
                    partition=split.partition,
                )

    async def _fetched(
        self, view: View, splits: Sequence[UnionSplit]
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield what the logs hold between the offsets of splits."""
        for round_ in _rounds(splits):
            fetcher = Fetcher(self._cluster, view)
            try:
                for split in round_:
                    assert split.log is not None
                    place, bucket = _named(view.table, split)
                    fetcher.follow(place, bucket, offset=split.log.start, end=split.log.end)
                async for batch in drained(fetcher, self._cluster, table=view.table.path):
                    yield batch
            finally:
                await fetcher.close()


def _named(table: TableInfo, split: UnionSplit) -> tuple[Place, TableBucket]:
    """Return a bucket by the names that people use, and by the ids that servers use."""
    bucket = split.log_bucket
    assert bucket is not None
    place = Place(split.partition, bucket.bucket)
    return place, TableBucket(table.table_id, bucket.bucket, bucket.partition_id)


def _rounds(splits: Sequence[UnionSplit]) -> list[list[UnionSplit]]:
    """Put splits together of which no two are of one bucket."""
    rounds: list[list[UnionSplit]] = []
    counts: dict[object, int] = {}
    for split in splits:
        number = counts.get(split.log_bucket, 0)
        counts[split.log_bucket] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(split)
    return rounds
