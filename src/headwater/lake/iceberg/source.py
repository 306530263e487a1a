"""Splits of a snapshot of an Iceberg table, and their rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from headwater.errors import LakeSnapshotMissingError, UnsupportedError
from headwater.lake.columns import picked, picked_schema
from headwater.lake.dropped import values_gone
from headwater.lake.iceberg.fields import field_ids
from headwater.lake.iceberg.filters import NamedColumn, all_of, iceberg_filter
from headwater.lake.iceberg.guard import opened_io
from headwater.lake.iceberg.lake_files import LakeFiles
from headwater.lake.iceberg.opening import load_table, open_catalog, reached
from headwater.lake.iceberg.planning import Planned, check_places, planned_files
from headwater.lake.iceberg.reading import held_fields, read_rows
from headwater.lake.iceberg.taken import head_of, looked_at
from headwater.lake.iceberg.tasks import HeldFile, held_from_json
from headwater.lake.iceberg.values import lent, packed, texts_of, unpacked
from headwater.lake.spi import ColumnPath, FilterAnswer, LakeSnapshot
from headwater.lake.split import LakeSplit
from headwater.lake.table import LakeTableSpec
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Predicate
from headwater.model.type_json import Json, list_of, object_of, text_of

FORMAT = "iceberg"
_SPLIT_BYTES_MAX = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IcebergSource:
    """Read one Iceberg table. A value that travels; asks the catalog whenever it plans."""

    spec: LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    columns: tuple[ColumnPath, ...] | None = None
    limit: int | None = None
    filters: tuple[Predicate, ...] = ()

    def with_projection(self, columns: Sequence[ColumnPath]) -> "IcebergSource":
        """Read these columns only, in this order."""
        return replace(self, columns=tuple(columns))

    def with_limit(self, rows: int) -> "IcebergSource":
        """Plan no more splits than give so many rows."""
        return replace(self, limit=rows)

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[IcebergSource, FilterAnswer]":
        """Leave out files that cannot hold a row which passes; rows are for the reader."""
        named = {
            column.column_id: NamedColumn(column.name, column.type)
            for column in self.spec.schema.columns
        }
        used = tuple(each for each in filters if iceberg_filter(each, named) is not None)
        source = replace(self, filters=(*self.filters, *used))
        return source, FilterAnswer(accepted=used, remaining=tuple(filters))

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """Return a snapshot, by default the newest."""
        table = self._table()
        if snapshot_id is None:
            return head_of(table)
        found = table.metadata.snapshot_by_id(snapshot_id)
        return None if found is None else looked_at(found, table)

    def snapshots(self) -> list[LakeSnapshot]:
        """Return the snapshots that the table still has, oldest first."""
        table = self._table()
        ordered = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
        return [looked_at(each, table) for each in ordered]

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Return what to read of a snapshot."""
        table = self._table()
        if table.snapshot_by_id(snapshot_id) is None:
            raise LakeSnapshotMissingError(
                f"The Iceberg table of {self.spec.path} has no snapshot {snapshot_id}."
            )
        with reached(f"Planning to read {self.spec.path}"):
            files = planned_files(table, self.spec, snapshot_id, only=self._filter(table))
            # Engines read files by their names, without asking anybody.
            check_places(table, files, self.config)
        groups = _groups(files, whole_buckets=self.spec.is_keyed)
        if self.limit is not None and not self.filters:
            groups = _enough(groups, self.limit)
        splits = _Splits(table, self.spec, self.config, snapshot_id)
        return [splits.of(group) for group in groups]

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a split, under the schema of the spec."""
        if in_key_order:
            raise UnsupportedError("Iceberg tables cannot be read in the order of their keys.")
        node = unpacked(split.payload)
        ids = object_of(node.get("fields"), what="fields")
        io = opened_io(text_of(node, "location"), self.config, texts_of(node, "io"))
        whole = arrow_schema(self.spec.schema)
        schema = whole if self.columns is None else picked_schema(whole, self.columns)
        columns = [self.spec.schema.column(field.name) for field in schema]
        found = [ids.get(str(column.column_id)) for column in columns]
        fields = [field if isinstance(field, int) else None for field in found]
        read = pa.schema([whole.field(column.name) for column in columns])
        for file in split.files:
            told = unpacked(file.payload)
            lost = {*list_of(told, "lost")}
            needed = [column for column in columns if column.column_id in lost]
            (held,) = held_from_json(told)
            with reached(f"Reading {self.spec.path}"):
                self._check_held(
                    io, held, {each.name: ids.get(str(each.column_id)) for each in needed}
                )
                for rows in read_rows(io, held, schema=read, fields=fields):
                    yield picked(rows, schema)

    @property
    def is_key_ordered(self) -> bool:
        """Tell that rows do not come in the order of the primary key."""
        return False

    def _check_held(self, io: FileIO, held: HeldFile, fields: Mapping[str, Json]) -> None:
        """Refuse a file that has no values of a column which was dropped before it was written."""
        present = held_fields(io, held.file) if fields else frozenset()
        for name, field_id in fields.items():
            if field_id not in present:
                raise values_gone(self.spec.path, name, held.file.file_path)

    def _table(self) -> Table:
        return load_table(open_catalog(self.config), self.spec.path)

    def _filter(self, table: Table) -> BooleanExpression | None:
        """Return the filters under the names that columns have in the Iceberg table now."""
        ids = field_ids(table.metadata, self.spec)
        names = {field.field_id: field.name for field in table.schema().fields}
        named = {
            column.column_id: NamedColumn(names[ids[column.column_id]], column.type)
            for column in self.spec.schema.columns
            if ids.get(column.column_id) in names
        }
        found = [iceberg_filter(each, named) for each in self.filters]
        parts = [part for part in found if part is not None]
        return all_of(parts) if parts else None


def _groups(files: Sequence[Planned], *, whole_buckets: bool) -> list[list[Planned]]:
    """Put files of one bucket together: all of them, or as many as make a task."""
    groups: list[list[Planned]] = []
    for _, alike in groupby(files, key=lambda each: (each.partition, each.bucket)):
        size = 0
        groups.append([])
        for each in alike:
            size += each.held.file.file_size_in_bytes
            if groups[-1] and size > _SPLIT_BYTES_MAX and not whole_buckets:
                groups.append([])
                size = each.held.file.file_size_in_bytes
            groups[-1].append(each)
    return groups


def _enough(groups: Sequence[list[Planned]], limit: int) -> list[list[Planned]]:
    found: list[list[Planned]] = []
    rows = 0
    for group in groups:
        if rows >= limit:
            break
        found.append(group)
        rows += sum(_rows_at_least(each) for each in group)
    return found


def _rows_at_least(planned: Planned) -> int:
    file, deletes = planned.held
    return max(0, file.record_count - sum(each.record_count for each in deletes))


class _Splits:
    """Make splits of one snapshot."""

    def __init__(
        self, table: Table, spec: LakeTableSpec, config: Mapping[str, str], snapshot_id: int
    ) -> None:
        self._files = LakeFiles(table.metadata, spec)
        self._snapshot_id = snapshot_id
        self._payload = packed(
            {
                "location": table.location(),
                "io": dict(lent(table, config)),
                "fields": {str(column): field for column, field in self._files.fields.items()},
            }
        )

    def of(self, files: Sequence[Planned]) -> LakeSplit:
        return LakeSplit(
            format=FORMAT,
            snapshot_id=self._snapshot_id,
            bucket=files[0].bucket,
            partition=files[0].partition,
            files=tuple(map(self._files.of, files)),
            payload=self._payload,
        )
