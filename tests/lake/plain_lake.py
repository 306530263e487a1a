"""A third lake format, small and real: Parquet files, and snapshots that only one can create.

It shows that a format can be added from outside, and is quick, so that tests of what lies above
the formats use it. Register it with `register_plain_lake(monkeypatch)`, then
`open_lake("plain", {"warehouse": directory})`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pyarrow as pa

from headwater.errors import (
    HeadwaterError,
    LakeCommitUnknownError,
    LakeMovedError,
    LakeRewrittenError,
    LakeSnapshotMissingError,
    LakeTableDiffersError,
)
from headwater.lake import lakes as registry
from headwater.lake.spi import LakeSnapshot, LakeTableSpec, PartitionValues, WriteResult, WriteTask
from headwater.model.boundary import Boundary
from headwater.model.path import TablePath
from headwater.model.schema import Schema, schema_from_json, schema_to_json
from tests.lake.plain_keeper import PlainKeeper
from tests.lake.plain_source import PlainSource
from tests.lake.plain_table import (
    DELETED,
    HOOKS,
    DataFile,
    Hooks,
    PlainTable,
    create,
    folded,
    reaching,
    replaced,
)

NAME = "plain"


def register_plain_lake(monkeypatch) -> None:
    """Let `open_lake` find the format until the test ends."""
    entry = EntryPoint(NAME, "tests.lake.plain_lake:open_lake", registry.GROUP)

    def with_plain(*, group: str) -> list[EntryPoint]:
        return [*entry_points(group=group), *([entry] if group == registry.GROUP else [])]

    monkeypatch.setattr(registry, "entry_points", with_plain)


def hooks(warehouse: object) -> Hooks:
    """Return the hooks of a lake in this process; set them to step into commits."""
    return HOOKS.setdefault(str(warehouse), Hooks())


def outcome_unknown() -> None:
    """Be a hook after which nobody knows whether the commit took effect."""
    raise LakeCommitUnknownError("The connection broke while the snapshot was committed.")


def open_lake(config: Mapping[str, str]) -> "PlainLake":
    """Open the lake below the directory `warehouse`."""
    return PlainLake(str(config["warehouse"]))


@dataclass(frozen=True, slots=True)
class PlainLake:
    warehouse: str

    @property
    def format(self) -> str:
        return NAME

    def catalog(self) -> "PlainCatalog":
        return PlainCatalog(self.warehouse)

    def committer(self, spec: LakeTableSpec) -> "PlainCommitter":
        return PlainCommitter(self._table(spec), spec)

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> "PlainWriter":
        return PlainWriter(self._table(spec), spec, task)

    def source(self, spec: LakeTableSpec) -> PlainSource:
        return PlainSource(self._table(spec), spec)

    def keeper(self, spec: LakeTableSpec) -> PlainKeeper:
        return PlainKeeper(self._table(spec), spec)

    def _table(self, spec: LakeTableSpec) -> PlainTable:
        table = PlainTable(self.warehouse, spec.path)
        with reaching(table.place):
            if table.description.exists():
                return table
        raise LakeSnapshotMissingError(f"The plain lake has no table {spec.path}.")


@dataclass(frozen=True, slots=True)
class PlainCatalog:
    warehouse: str

    def exists(self, path: TablePath) -> bool:
        description = PlainTable(self.warehouse, path).description
        with reaching(description):
            return description.exists()

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        if not self.exists(path):
            return ()
        held = json.loads(PlainTable(self.warehouse, path).description.read_bytes())
        return schema_from_json(held["schema"]).names

    def ensure(self, spec: LakeTableSpec) -> None:
        target = PlainTable(self.warehouse, spec.path).description
        if create(target, _description(spec, retired=[])):
            return
        held = json.loads(target.read_bytes())
        schema = schema_from_json(held["schema"])
        _check_same(spec, held, schema)
        ids = {column.column_id for column in schema.columns}
        wanted = {column.column_id for column in spec.schema.columns}
        is_older = max(ids) > spec.schema.highest_field_id or wanted & set(held["retired"])
        if is_older or schema.columns == spec.schema.columns:
            return
        replaced(target, _description(spec, retired=[*held["retired"], *(ids - wanted)]))

    def list_tables(self) -> list[TablePath]:
        with reaching(Path(self.warehouse)):
            found = sorted(Path(self.warehouse).glob("*/*/table.json"))
        return [TablePath(each.parts[-3], each.parts[-2]) for each in found]

    def drop(self, path: TablePath) -> None:
        PlainTable(self.warehouse, path).drop()


def _description(spec: LakeTableSpec, *, retired: list[int]) -> dict[str, object]:
    return {"schema": schema_to_json(spec.schema), "retired": retired, **_layout(spec, spec.schema)}


def _layout(spec: LakeTableSpec, schema: Schema) -> dict[str, object]:
    def ids(names: Sequence[str]) -> list[int]:
        return [schema.column(name).column_id for name in names]

    return {
        "partition_keys": ids(spec.partition_keys),
        "bucket_keys": ids(spec.bucket_keys),
        "primary_key": ids(spec.schema.primary_key),
        "bucket_count": spec.bucket_count,
    }


def _check_same(spec: LakeTableSpec, held: Mapping[str, object], schema: Schema) -> None:
    types = {column.column_id: column.type for column in schema.columns}
    faults = [
        f"column '{column.name}' is {types[column.column_id]}, not {column.type}"
        for column in spec.schema.columns
        if types.get(column.column_id, column.type) != column.type
    ]
    wanted = _layout(spec, spec.schema)
    faults += [f"its {name} differ" for name in wanted if held[name] != wanted[name]]
    if faults:
        raise LakeTableDiffersError(f"The lake table {spec.path} is another: {'; '.join(faults)}.")


@dataclass(slots=True)
class PlainWriter:
    table: PlainTable
    spec: LakeTableSpec
    task: WriteTask
    batches: list[pa.RecordBatch] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        if self.spec.is_keyed:
            flags = pa.array([False] * rows.num_rows) if deleted is None else deleted
            rows = rows.append_column(DELETED, flags)
        self.batches.append(rows)

    def finish(self) -> WriteResult:
        place = {"partition": self.task.partition, "bucket": self.task.bucket}
        rows = pa.Table.from_batches(self.batches) if self.batches else None
        if rows is not None and rows.num_rows:
            if self.spec.is_keyed:
                rows = folded(rows, self.spec.schema.primary_key)
            self.files.append(self.table.file_of(rows, self.spec, **place))
        return WriteResult(
            **place,
            row_count=sum(file.row_count for file in self.files),
            file_count=len(self.files),
            byte_count=sum(file.byte_count for file in self.files),
            payload=json.dumps([asdict(file) for file in self.files]).encode(),
        )

    def abort(self) -> None:
        for file in self.files:
            Path(file.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class PlainCommitter:
    table: PlainTable
    spec: LakeTableSpec

    def head(self) -> LakeSnapshot | None:
        stored = self.table.stored()
        return None if stored is None else stored.told()

    def find_round(self, round_id: str) -> LakeSnapshot | None:
        found = None
        for snapshot_id in reversed(self.table.snapshot_ids()):
            snapshot = PlainSource(self.table, self.spec).snapshot(snapshot_id)
            if snapshot and snapshot.boundary and snapshot.boundary.round_id == round_id:
                # Snapshots of upkeep carry the round on: the first one is that of the round.
                found = snapshot
            elif found is not None:
                break
        return found

    def write_tasks(
        self, buckets: Sequence[tuple[PartitionValues, int]], *, on: LakeSnapshot | None
    ) -> list[WriteTask]:
        return [WriteTask(partition=where, bucket=bucket, payload=b"") for where, bucket in buckets]

    def commit(
        self,
        results: Sequence[WriteResult],
        *,
        boundary: Boundary,
        on: LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> LakeSnapshot:
        held = () if on is None else _held(self.table, on).files
        added = [file for result in results for file in files_of(result)]
        paths = [file.path for file in (*held, *added)]
        if len(set(paths)) < len(paths) or not all(Path(file.path).exists() for file in added):
            raise LakeRewrittenError(f"A file for {self.spec.path} is committed already, or gone.")
        return self.table.put_snapshot(
            [*held, *added], on=on, boundary=boundary.to_json(), properties=properties
        )

    def abort(self, results: Sequence[WriteResult]) -> None:
        with suppress(HeadwaterError, OSError):
            stored = [self.table.stored(each) for each in self.table.snapshot_ids()]
            held = {file.path for each in stored if each is not None for file in each.files}
            written = {file.path for result in results for file in files_of(result)}
            for path in written - held:
                Path(path).unlink(missing_ok=True)


def files_of(result: WriteResult) -> list[DataFile]:
    """Return the files that a result names."""
    return [DataFile.of(node) for node in json.loads(result.payload)]


def _held(table: PlainTable, on: LakeSnapshot):
    stored = table.stored(on.snapshot_id)
    if stored is None:
        raise LakeMovedError(f"Snapshot {on.snapshot_id} of {table.path} is gone.")
    return stored
