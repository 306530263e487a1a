"""A lake table in a test: rows go in by rounds as a tierer writes them, and come out again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.lake.spi import (
    LakeCommitter,
    LakeKeeper,
    LakeSnapshot,
    LakeSource,
    LakeStorage,
    LakeTableSpec,
    PartitionValues,
    WriteResult,
)
from headwater.model.arrow import arrow_schema
from headwater.model.boundary import Boundary, LakeBucket, TableIdentity, TieringEpoch, extended
from headwater.model.bucket import OffsetRange
from headwater.model.partition_values import partition_texts
from headwater.rows.buckets import BucketFunction, buckets_of
from headwater.rows.compacted.coders import KeyEncoder
from headwater.rows.keys import IcebergKeys, PaimonKeys

IDENTITY = TableIdentity("storage", 7)
EPOCH = TieringEpoch(1, 1)
_BUCKETS = {
    "plain": (KeyEncoder, BucketFunction.FLUSS),
    "iceberg": (IcebergKeys, BucketFunction.ICEBERG),
    "paimon": (PaimonKeys, BucketFunction.PAIMON),
}


@dataclass(slots=True)
class LakeTable:
    """Drive one lake table through its roles."""

    lake: LakeStorage
    spec: LakeTableSpec
    rounds: int = 0
    opened: LakeCommitter | None = field(default=None, repr=False)

    @property
    def committer(self) -> LakeCommitter:
        if self.opened is None:
            self.opened = self.lake.committer(self.spec)
        return self.opened

    @property
    def source(self) -> LakeSource:
        return self.lake.source(self.spec)

    @property
    def keeper(self) -> LakeKeeper:
        return self.lake.keeper(self.spec)

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.spec.schema)

    def head(self) -> LakeSnapshot:
        """Return the newest snapshot, which has to be there."""
        head = self.committer.head()
        assert head is not None
        return head

    def batch(self, rows: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
        """Return rows as the columns of the table."""
        return pa.RecordBatch.from_pylist(list(rows), schema=self.schema)

    def tier(self, rows, *, deleted: Sequence[bool] | None = None, **options) -> LakeSnapshot:
        """Write rows and commit them after the newest snapshot, as one round."""
        head = self.committer.head()
        return self.commit(self.write(rows, deleted=deleted, on=head), on=head, **options)

    def write(
        self, rows, *, deleted: Sequence[bool] | None = None, on: LakeSnapshot | None
    ) -> list[WriteResult]:
        """Write rows, each bucket by a writer of its own; nobody sees them yet."""
        batch = rows if isinstance(rows, pa.RecordBatch) else self.batch(rows)
        flags = pa.array(deleted, pa.bool_()) if deleted is not None else None
        groups = list(self.groups(batch))
        tasks = self.committer.write_tasks([place for place, _ in groups], on=on)
        results = []
        for task, (_, at) in zip(tasks, groups, strict=True):
            writer = self.lake.writer(self.spec, task)
            writer.write(batch.take(at), deleted=None if flags is None else flags.take(at))
            results.append(writer.finish())
        return results

    def commit(
        self,
        results: Sequence[WriteResult],
        *,
        on: LakeSnapshot | None,
        round_id: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> LakeSnapshot:
        """Commit results directly after a snapshot."""
        self.rounds += 1
        return self.committer.commit(
            results,
            boundary=boundary_after(on, results, round_id=round_id or f"round-{self.rounds}"),
            on=on,
            properties=properties or {},
        )

    def groups(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[PartitionValues, int], object]]:
        """Yield where rows belong: partition and bucket, with the positions of their rows."""
        texts = [
            partition_texts(batch.column(name), self.spec.schema.column(name).type)
            for name in self.spec.partition_keys
        ]
        places = list(zip(*texts, self.buckets(batch), strict=True))
        for place in dict.fromkeys(places):
            at = np.flatnonzero([each == place for each in places])
            partition = tuple(zip(self.spec.partition_keys, place[:-1], strict=True))
            yield (partition, place[-1]), pa.array(at)

    def buckets(self, batch: pa.RecordBatch) -> list[int]:
        """Return the bucket of every row, by the function of the format."""
        keys = self.spec.bucket_keys
        if not keys or self.spec.bucket_count == 1:
            return [0] * batch.num_rows
        encoder, function = _BUCKETS[self.lake.format]
        types = [self.spec.schema.column(name).type for name in keys]
        encoded = encoder.of(types).encode([batch.column(name) for name in keys])
        return buckets_of(encoded, self.spec.bucket_count, function=function).tolist()

    def rows(self, snapshot_id: int | None = None, *, source: LakeSource | None = None) -> pa.Table:
        """Return the rows of a snapshot, by default the newest."""
        source = self.source if source is None else source
        found = source.snapshot(snapshot_id)
        assert found is not None
        splits = source.plan(found.snapshot_id)
        batches = [batch for split in splits for batch in source.read(split)]
        return pa.Table.from_batches(batches, schema=batches[0].schema if batches else self.schema)

    def values(self, snapshot_id: int | None = None) -> list[dict[str, object]]:
        """Return the rows of a snapshot as Python has them, ordered by their first columns."""
        rows = self.rows(snapshot_id)
        return sorted(rows.to_pylist(), key=lambda row: [str(value) for value in row.values()])

    def compact(self) -> LakeSnapshot:
        """Rewrite whatever is worth it, and commit that."""
        head, keeper = self.head(), self.keeper
        works = keeper.plan_rewrites(on=head)
        assert works
        return keeper.commit_rewrites([keeper.rewrite(work) for work in works], on=head)

    def evolved(self, spec: LakeTableSpec) -> "LakeTable":
        """Bring the lake table to other columns, and return it under them."""
        self.lake.catalog().ensure(spec)
        return LakeTable(self.lake, spec, self.rounds)


def boundary_after(
    on: LakeSnapshot | None, results: Sequence[WriteResult], *, round_id: str
) -> Boundary:
    """Return the boundary that holds as many more offsets of each bucket as rows were written."""
    held = None if on is None else on.boundary
    if held is None:
        held = Boundary(table=IDENTITY, epoch=EPOCH, round_id=round_id)
    ids = {name: each for each, name in held.partitions.items()}
    ranges = {}
    for result in results:
        name = "$".join(value for _, value in result.partition)
        partition_id = ids.setdefault(name, len(ids)) if result.partition else None
        bucket = LakeBucket(partition_id, result.bucket)
        start = held.end(bucket) or 0
        ranges[bucket] = OffsetRange(start, start + max(result.row_count, 1))
    names = {each: name for name, each in ids.items()}
    return extended(replace(held), ranges, epoch=EPOCH, round_id=round_id, partitions=names)
