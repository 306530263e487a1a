"""A table of the plain lake on disk: its description, its snapshots and its data files."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import InvalidValueError, LakeMovedError, LakeUnreachableError
from headwater.lake.files import values_gone
from headwater.lake.spi import LakeSnapshot, LakeTableSpec, PartitionValues
from headwater.model.arrow import arrow_schema
from headwater.model.boundary import BOUNDARY_PROPERTY, boundary_from_json
from headwater.model.path import TablePath
from headwater.model.predicate import Literal
from headwater.model.schema import Column, Schema
from headwater.runtime.clock import SystemClock

DELETED = "_deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """Name one Parquet file; later files of a bucket hold later rows."""

    path: str
    partition: PartitionValues
    bucket: int
    row_count: int
    byte_count: int
    columns: tuple[tuple[int, str], ...]
    """Ids and names of its columns."""
    highest_id: int = 0
    """The highest id that a column had when it was written."""
    deleted_count: int = 0
    bounds: tuple[tuple[int, Literal, Literal, int], ...] = ()
    """Of columns of whole numbers and text: the id, the bounds, and how many values are null."""

    def lacks(self, column: Column) -> bool:
        """Tell whether a column was dropped when the file was written."""
        return column.column_id <= self.highest_id and column.column_id not in dict(self.columns)

    @classmethod
    def of(cls, node: Mapping[str, object]) -> "DataFile":
        names = ("partition", "columns", "bounds")
        pairs = {name: tuple(map(tuple, node[name])) for name in names}
        return cls(**{**node, **pairs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Hold a snapshot as its file has it."""

    snapshot_id: int
    parent_id: int | None
    committed_ms: int
    boundary: str | None
    properties: Mapping[str, str]
    files: tuple[DataFile, ...]

    def told(self) -> LakeSnapshot:
        held = {} if self.boundary is None else {BOUNDARY_PROPERTY: self.boundary}
        return LakeSnapshot(
            snapshot_id=self.snapshot_id,
            parent_id=self.parent_id,
            committed_ms=self.committed_ms,
            boundary=None if self.boundary is None else boundary_from_json(self.boundary),
            row_count=sum(file.row_count for file in self.files),
            file_count=len(self.files),
            byte_count=sum(file.byte_count for file in self.files),
            properties={**held, **self.properties},
        )


@dataclass(slots=True)
class Hooks:
    """Let a test step in: what these raise comes out of the commit."""

    before_commit: Callable[[], None] = lambda: None
    after_commit: Callable[[], None] = lambda: None


HOOKS: dict[str, Hooks] = {}


@contextmanager
def reaching(place: Path) -> Iterator[None]:
    """Turn what the file system says into an error of the lake."""
    try:
        yield
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(f"A value does not fit into the plain lake: {fault}.") from fault
    except OSError as fault:
        raise LakeUnreachableError(
            f"The plain lake at '{place}' cannot be used: {fault}."
        ) from fault


@dataclass(frozen=True, slots=True)
class PlainTable:
    """Find what belongs to one table below the warehouse."""

    warehouse: str
    path: TablePath

    @property
    def place(self) -> Path:
        return Path(self.warehouse) / self.path.database / self.path.table

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def description(self) -> Path:
        return self.place / "table.json"

    def _snapshot_file(self, snapshot_id: int) -> Path:
        return self.place / "snapshots" / f"{snapshot_id:010d}.json"

    def snapshot_ids(self) -> list[int]:
        with reaching(self.place):
            return sorted(int(each.stem) for each in (self.place / "snapshots").glob("*.json"))

    def stored(self, snapshot_id: int | None = None) -> Stored | None:
        """Return a snapshot, by default the newest."""
        if snapshot_id is None:
            snapshot_id = max(self.snapshot_ids(), default=0)
        with reaching(self.place):
            try:
                node = json.loads(self._snapshot_file(snapshot_id).read_bytes())
            except FileNotFoundError:
                return None
        return Stored(**{**node, "files": tuple(map(DataFile.of, node["files"]))})

    def put_snapshot(
        self,
        files: Sequence[DataFile],
        *,
        on: LakeSnapshot | None,
        boundary: str | None,
        properties: Mapping[str, str],
    ) -> LakeSnapshot:
        """Create the snapshot after `on`, unless somebody else did."""
        hooks = HOOKS.get(self.warehouse, Hooks())
        hooks.before_commit()
        parent = None if on is None else on.snapshot_id
        stored = Stored(
            snapshot_id=(parent or 0) + 1,
            parent_id=parent,
            committed_ms=SystemClock().now_ms(),
            boundary=boundary,
            properties=dict(properties),
            files=tuple(files),
        )
        target = self._snapshot_file(stored.snapshot_id)
        if max(self.snapshot_ids(), default=None) != parent or not create(target, asdict(stored)):
            raise LakeMovedError(f"Snapshot {parent} of {self.path} is not the newest any more.")
        hooks.after_commit()
        return stored.told()

    def drop_snapshot(self, snapshot_id: int) -> None:
        self._snapshot_file(snapshot_id).unlink(missing_ok=True)

    def drop(self) -> None:
        with reaching(self.place):
            shutil.rmtree(self.place, ignore_errors=True)

    def file_of(self, rows: pa.Table, spec: LakeTableSpec, **place: object) -> DataFile:
        """Write rows into a new file that nobody sees yet."""
        with reaching(self.place):
            self.data.mkdir(parents=True, exist_ok=True)
            path = self.data / f"{uuid4().hex}.parquet"
            pq.write_table(_storable(rows), path, compression="zstd")
            return DataFile(
                path=str(path),
                row_count=rows.num_rows,
                byte_count=path.stat().st_size,
                columns=tuple((each.column_id, each.name) for each in spec.schema.columns),
                highest_id=spec.schema.highest_field_id,
                deleted_count=pc.sum(rows[DELETED]).as_py() if DELETED in rows.schema.names else 0,
                bounds=tuple(_bounds(rows, spec.schema)),
                **place,
            )

    def current_rows(self, files: Sequence[DataFile], schema: Schema) -> pa.Table:
        """Return what files hold, later rows in the place of earlier ones with the same key."""
        for file, column in product(files, schema.columns):
            if file.lacks(column):
                raise values_gone(self.path, column.name, file.path)
        with reaching(self.place):
            parts = [_seen(pq.read_table(file.path), file, schema) for file in files]
        rows = pa.concat_tables(parts)
        if not schema.primary_key:
            return rows.drop_columns([DELETED])
        latest = folded(rows, schema.primary_key)
        return latest.filter(pc.invert(latest[DELETED])).drop_columns([DELETED])


def folded(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of every key, in the order of the rows."""
    numbered = rows.select(keys).append_column("_at", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(keys)).aggregate([("_at", "max")])
    return rows.take(last["_at_max"].combine_chunks().sort())


def _storable(rows: pa.Table) -> pa.Table:
    """Return rows with moments in units that Parquet has; its writer would wrap large ones."""
    columns = [
        column.cast(pa.timestamp("ms", column.type.tz))
        if pa.types.is_timestamp(column.type) and column.type.unit == "s"
        else column
        for column in rows.columns
    ]
    return pa.table(columns, names=rows.column_names)


def _bounds(rows: pa.Table, schema: Schema) -> Iterator[tuple[int, Literal, Literal, int]]:
    for column in schema.columns:
        values = rows[column.name]
        if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
            found = pc.min_max(values).as_py()
            yield column.column_id, found["min"], found["max"], values.null_count


def _seen(held: pa.Table, file: DataFile, schema: Schema) -> pa.Table:
    """Return the rows of a file under another schema, matched by id."""
    names = dict(file.columns)
    count = held.num_rows
    columns = [
        held[names[column.column_id]].cast(wanted.type)
        if column.column_id in names
        else pa.nulls(count, wanted.type)
        for column, wanted in zip(schema.columns, arrow_schema(schema), strict=True)
    ]
    deleted = held[DELETED] if DELETED in held.column_names else pa.array([False] * count)
    fields = [*arrow_schema(schema), pa.field(DELETED, pa.bool_())]
    return pa.table([*columns, deleted], schema=pa.schema(fields))


def create(target: Path, node: object) -> bool:
    """Write a file whole, only if there is none of its name; tell whether it was so."""
    with reaching(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{uuid4().hex}"
        with temporary.open("w") as file:
            json.dump(node, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
    return True


def replaced(target: Path, node: object) -> None:
    """Write a small file anew, whole or not at all."""
    with reaching(target.parent):
        temporary = target.parent / f".{uuid4().hex}"
        temporary.write_text(json.dumps(node))
        temporary.replace(target)
