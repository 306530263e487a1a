"""Reading the plain lake: splits of a snapshot, and their rows merged by key."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import pyarrow as pa

from headwater.errors import LakeSnapshotMissingError
from headwater.lake.columns import picked, picked_schema
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot
from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit
from headwater.lake.table import LakeTableSpec
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Leaf, LeafFunction, Predicate
from tests.lake.plain_table import DataFile, PlainTable


@dataclass(frozen=True, slots=True)
class PlainSource:
    table: PlainTable
    spec: LakeTableSpec
    columns: tuple[ColumnPath, ...] | None = None
    limit: int | None = None
    partition: frozenset[tuple[str, str]] = frozenset()

    def with_projection(self, columns: Sequence[ColumnPath]) -> "PlainSource":
        return replace(self, columns=tuple(columns))

    def with_limit(self, rows: int) -> "PlainSource":
        return replace(self, limit=rows)

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[PlainSource, FilterAnswer]":
        """Use texts that a partition key has to equal; rows are for the reader to look at."""
        keys = {self.spec.schema.column(name).column_id: name for name in self.spec.partition_keys}
        used: dict[Predicate, tuple[str, str]] = {}
        for each in filters:
            match each:
                case Leaf(LeafFunction.EQUAL, column, (str(text),)) if column in keys:
                    used[each] = (keys[column], text)
        source = replace(self, partition=self.partition | set(used.values()))
        return source, FilterAnswer(accepted=tuple(used), remaining=tuple(filters))

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        stored = self.table.stored(snapshot_id)
        return None if stored is None else stored.told()

    def snapshots(self) -> list[LakeSnapshot]:
        found = map(self.snapshot, self.table.snapshot_ids())
        return [snapshot for snapshot in found if snapshot is not None]

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        stored = self.table.stored(snapshot_id)
        if stored is None:
            raise LakeSnapshotMissingError(f"Snapshot {snapshot_id} of {self.spec.path} is gone.")
        files = [file for file in stored.files if self.partition <= set(file.partition)]
        groups = self._by_bucket(files) if self.spec.is_keyed else [[file] for file in files]
        return self._enough([self._split(group, snapshot_id) for group in groups])

    def _by_bucket(self, files: Sequence[DataFile]) -> list[list[DataFile]]:
        ordered = sorted(files, key=_place)  # stable: later files stay later
        return [list(group) for _, group in groupby(ordered, key=_place)]

    def _enough(self, splits: list[LakeSplit]) -> list[LakeSplit]:
        planned: list[LakeSplit] = []
        rows = 0
        for split in splits:
            if self.limit is not None and rows >= self.limit:
                break
            planned.append(split)
            # Rows that others replace do not count.
            rows += sum(file.row_count for file in split.files if file.is_plain)
        return planned

    def _split(self, files: Sequence[DataFile], snapshot_id: int) -> LakeSplit:
        columns = tuple((each.column_id, each.name) for each in self.spec.schema.columns)
        is_bucketed = bool(self.spec.bucket_keys)
        return LakeSplit(
            format="plain",
            snapshot_id=snapshot_id,
            bucket=files[0].bucket if is_bucketed else UNKNOWN_BUCKET,
            partition=files[0].partition,
            files=tuple(
                LakeFile(
                    path=file.path,
                    row_count=file.row_count,
                    byte_count=file.byte_count,
                    is_plain=not self.spec.is_keyed and file.columns == columns,
                )
                for file in files
            ),
            payload=json.dumps([asdict(file) for file in files]).encode(),
        )

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        files = [DataFile.of(node) for node in json.loads(split.payload)]
        rows = self.table.current_rows(files, self.spec.schema)
        if in_key_order:
            rows = rows.sort_by([(name, "ascending") for name in self.spec.schema.primary_key])
        schema = arrow_schema(self.spec.schema)
        if self.columns is not None:
            schema = picked_schema(schema, self.columns)
        for batch in rows.combine_chunks().to_batches():
            yield picked(batch, schema)

    @property
    def is_key_ordered(self) -> bool:
        return self.spec.is_keyed


def _place(file: DataFile) -> tuple[object, int]:
    return file.partition, file.bucket
