"""Reading the plain lake: splits of a snapshot, and their rows merged by key."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import pyarrow as pa

from headwater.errors import LakeSnapshotMissingError
from headwater.lake.files import is_castable, picked, picked_schema
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot, LakeTableSpec
from headwater.lake.split import UNKNOWN_BUCKET, ColumnBounds, LakeFile, LakeSplit
from headwater.model.arrow import arrow_schema, arrow_type
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
                    names=self._names(file),
                    stands_alone=self._stands_alone(files),
                    bounds=tuple(self._bounds(file)),
                    payload=json.dumps(asdict(file)).encode(),
                )
                for file in files
            ),
            payload=b"",
        )

    def _names(self, file: DataFile) -> tuple[tuple[int, str], ...] | None:
        columns = self.spec.schema.columns
        types = [arrow_type(column.type) for column in columns]
        if any(map(file.lacks, columns)) or not all(is_castable(each, each) for each in types):
            return None
        known = {column.column_id for column in columns}
        return tuple((column, name) for column, name in file.columns if column in known)

    def _stands_alone(self, files: Sequence[DataFile]) -> bool:
        return not self.spec.is_keyed or (len(files) == 1 and not files[0].deleted_count)

    def _bounds(self, file: DataFile) -> Iterator[ColumnBounds]:
        known = {column.column_id for column in self.spec.schema.columns}
        for column_id, lower, upper, nulls in file.bounds:
            if column_id in known:
                yield ColumnBounds(column_id=column_id, lower=lower, upper=upper, null_count=nulls)

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        files = [DataFile.of(json.loads(file.payload)) for file in split.files]
        schema = arrow_schema(self.spec.schema)
        if self.columns is not None:
            schema = picked_schema(schema, self.columns)
        held = self.spec.schema
        needed = {*schema.names, *held.primary_key, held.names[0]}
        wanted = tuple(column for column in held.columns if column.name in needed)
        rows = self.table.current_rows(files, replace(held, columns=wanted))
        if in_key_order:
            rows = rows.sort_by([(name, "ascending") for name in held.primary_key])
        for batch in rows.combine_chunks().to_batches():
            yield picked(batch, schema)

    @property
    def is_key_ordered(self) -> bool:
        return self.spec.is_keyed


def _place(file: DataFile) -> tuple[object, int]:
    return file.partition, file.bucket
