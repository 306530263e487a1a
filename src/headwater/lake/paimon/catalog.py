"""Reach a Paimon catalog; create, update, list and drop its tables, and open them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from pypaimon import Schema
from pypaimon.catalog import catalog_exception as paimon_faults
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import DataField, DataTypeParser
from pypaimon.schema.schema_change import Move, SchemaChange
from pypaimon.utils.file_store_path_factory import canonical_data_file_path

from headwater.errors import LakeSnapshotMissingError, LakeTableDiffersError, LakeUnreachableError
from headwater.lake.files import decoded, read_whole
from headwater.lake.paimon import layout
from headwater.lake.paimon.data_files import PaimonPartitions, check_partition_types, deleting_rows
from headwater.lake.paimon.files import (
    Catalog,
    FileIO,
    Files,
    Handle,
    database_faults,
    identifier,
    opened_catalog,
    reaching,
    table_handle,
)
from headwater.lake.paimon.manifests import (
    ADD,
    BYTES_PROPERTY,
    COMPACT,
    FILES_PROPERTY,
    Entry,
    Manifest,
    PaimonManifests,
    SnapshotFile,
    live_entries,
    snapshot_from_json,
)
from headwater.lake.paimon.options import INNER_PLACES, PLACES
from headwater.lake.paimon.types import check_names, check_types
from headwater.lake.spi import LakeSnapshot, LakeTableSpec, is_checked, is_tierers
from headwater.model import Boundary, Column, TablePath

# One open lake table: its files, schemas, snapshots and manifests.

_SOME_NAME = "data"
_PARQUET = ".parquet"
_SNAPSHOT_NAME = re.compile(r"snapshot-(\d+)\Z")


def check_places(path: TablePath, schema: layout.LakeSchema, files: Files, *, root: str) -> None:
    """Raise if a lake table's options point to places that are not allowed."""
    files.places.check(root, what=f"The location of the Paimon table {path}")
    for name in (*PLACES, *INNER_PLACES):
        for place in filter(None, schema.options.get(name, "").split(",")):
            what = f"The option '{name}' of the Paimon table {path}"
            full = f"{root.rstrip('/')}/{place.strip()}" if name in INNER_PLACES else place.strip()
            files.places.check(full, what=what)


@dataclass(slots=True)
class PaimonTable:
    """One lake table; schemas and manifests are cached, since they never change."""

    spec: LakeTableSpec
    handle: Handle = field(repr=False)
    files: Files
    schema: layout.LakeSchema
    partitions: PaimonPartitions
    manifests: PaimonManifests
    schemas: dict[int, layout.LakeSchema] = field(default_factory=dict)
    directories: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Directories of partitions and buckets, which are slow to find out."""

    @classmethod
    def open(cls, config: Mapping[str, str], spec: LakeTableSpec) -> "PaimonTable":
        """Open a lake table; raises if there is none."""
        with opened_catalog(config) as catalog:
            handle = table_handle(catalog, spec.path)
        if handle is None:
            raise LakeSnapshotMissingError(
                f"The lake has no table {spec.path}.",
                hint="It is created when the table is tiered for the first time.",
            )
        schema = layout.schema_from_json(JSON.to_json(handle.table_schema))
        files = Files.of(handle.file_io, config, location=handle.table_path)
        check_places(spec.path, schema, files, root=handle.table_path)
        partitions = PaimonPartitions.of(spec, partial(canonical_data_file_path, handle))
        root = handle.table_path.rstrip("/")
        manifests = PaimonManifests(files, f"{root}/manifest", partitions.bounds)
        return cls(spec, handle, files, schema, partitions, manifests, {schema.schema_id: schema})

    @property
    def root(self) -> str:
        """Directory of the table."""
        return self.handle.table_path.rstrip("/")

    def schema_of(self, schema_id: int) -> layout.LakeSchema:
        """The schema that a file was written under."""
        held = self.schemas.get(schema_id)
        if held is None:
            with reaching(f"schema {schema_id} of {self.spec.path}"):
                found = self.handle.schema_manager.get_schema(schema_id)
            if found is None:
                raise LakeTableDiffersError(
                    f"The lake table {self.spec.path} has no schema {schema_id}, but a file "
                    "was written under it."
                )
            held = self.schemas[schema_id] = layout.schema_from_json(JSON.to_json(found))
        return held

    def field_id_of(self, column: Column) -> int | None:
        """Id of the field that holds or held a column; None if none ever did."""
        found = self.schema.field_id_of(column)
        if found is not None or self.schema.column_ids is not None:
            return found
        # A table that others created: older schemas may know the reader's name for the column.
        for schema_id in range(self.schema.schema_id - 1, -1, -1):
            if (found := self.schema_of(schema_id).field_id_of(column)) is not None:
                return found
        return None

    def is_lost(self, column: Column, written: layout.LakeSchema) -> bool:
        """Tell whether files of a schema lack a column because it was dropped before."""
        field_id = self.field_id_of(column)
        if field_id is None:
            known = self.schema.column_ids or {}
            return column.column_id < max(known, default=0)
        # Field ids ascend, so a field with a lower id existed before.
        return written.field(field_id) is None and field_id <= written.highest_field_id

    def snapshot_path(self, snapshot_id: int) -> str:
        """Path of a snapshot file."""
        return f"{self.root}/snapshot/snapshot-{snapshot_id}"

    def snapshot_ids(self) -> list[int]:
        """Ids of the snapshots that exist, ascending."""
        found = (
            _SNAPSHOT_NAME.match(each.name) for each in self.files.list(f"{self.root}/snapshot")
        )
        return sorted(int(match[1]) for match in found if match)

    def head(self) -> SnapshotFile | None:
        """The newest snapshot."""
        loader = self.handle.catalog_environment
        if loader.supports_version_management:
            return self._head_of_catalog()
        ids = self.snapshot_ids()
        return self.snapshot(ids[-1]) if ids else None

    def _head_of_catalog(self) -> SnapshotFile | None:
        loader = self.handle.catalog_environment.snapshot_loader()
        with reaching(f"the newest snapshot of {self.spec.path}"):
            found = None if loader is None else loader.load()
        return None if found is None else snapshot_from_json(JSON.to_json(found))

    def snapshot(self, snapshot_id: int) -> SnapshotFile | None:
        """A snapshot; None if it does not exist (any more)."""
        content = self.files.read_or_none(self.snapshot_path(snapshot_id))
        return None if content is None else snapshot_from_json(content)

    def back_from(self, newest: SnapshotFile | None) -> Iterator[SnapshotFile]:
        """Yield a snapshot and those before it, as far as they exist."""
        found = newest
        while found is not None:
            yield found
            found = self.snapshot(found.snapshot_id - 1)

    def boundary(self, snapshot: SnapshotFile) -> Boundary | None:
        """Boundary of a snapshot: its own, or that of the nearest one before."""
        last = snapshot
        for each in self.back_from(snapshot):
            if (boundary := each.own_boundary) is not None:
                return boundary
            last = each
        if last.snapshot_id > 1 and layout.COLUMN_IDS_OPTION in self.schema.options:
            raise LakeTableDiffersError(
                f"No snapshot of the lake table {self.spec.path} still says how far it "
                f"holds the log: those before {last.snapshot_id} have expired, and all "
                "later ones were committed by others.",
                hint=(
                    "Restore an older snapshot, or drop the lake table so that it is tiered again."
                ),
            )
        return None

    def all_manifests(self, snapshot: SnapshotFile) -> list[Manifest]:
        """The manifests of a snapshot, older ones first."""
        return [each for listed in snapshot.lists for each in self.manifests.read_list(listed)]

    def live(self, snapshot: SnapshotFile | None) -> list[Entry]:
        """The data files of a snapshot."""
        if snapshot is None:
            return []
        return live_entries(
            entry
            for manifest in self.all_manifests(snapshot)
            for entry in self.manifests.read(manifest)
        )

    def file_path(self, entry: Entry) -> str:
        """Path of a data file."""
        path = self._file_path(entry)
        # Engines read files by name, without asking anybody.
        self.files.check(path)
        return path

    def _file_path(self, entry: Entry) -> str:
        if (external := entry.file.external_path) is not None:
            return external
        place = (entry.partition, entry.bucket)
        if place not in self.directories:
            partition = self.partitions.from_row(entry.partition)
            with decoded(f"the Paimon table {self.spec.path}"):
                path = self.partitions.file_path(partition, entry.bucket, _SOME_NAME)
            self.directories[place] = path.removesuffix(_SOME_NAME)
        return f"{self.directories[place]}{entry.file.name}"

    def counts(self, snapshot: SnapshotFile) -> tuple[int, int]:
        """Number of data files in a snapshot, and their bytes."""
        properties = snapshot.properties
        if FILES_PROPERTY in properties and BYTES_PROPERTY in properties:
            return int(properties[FILES_PROPERTY]), int(properties[BYTES_PROPERTY])
        entries = self.live(snapshot)
        return len(entries), sum(entry.file.byte_count for entry in entries)

    def to_lake_snapshot(self, snapshot: SnapshotFile) -> LakeSnapshot:
        """Describe a snapshot."""
        file_count, byte_count = self.counts(snapshot)
        return LakeSnapshot(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.snapshot_id - 1 or None,
            committed_ms=snapshot.committed_ms,
            boundary=self.boundary(snapshot),
            row_count=snapshot.row_count,
            file_count=file_count,
            byte_count=byte_count,
            properties=snapshot.properties,
            taken=self.taken(snapshot),
        )

    def taken(self, snapshot: SnapshotFile) -> str:
        """Say what others removed of our rows up to a snapshot; empty if nothing.

        Others may append and compact. What another snapshot of theirs removes was ours, unless they
        brought it themselves. A snapshot of ours says that everything before it was checked.
        """
        suspects: list[SnapshotFile] = []
        found = ""
        for each in self.back_from(snapshot):
            properties = each.properties
            if is_tierers(properties):
                found = found or self._taken_by(suspects)
                suspects = []
                if is_checked(properties):
                    break
            else:
                suspects.append(each)
        return found

    def _taken_by(self, line: Sequence[SnapshotFile]) -> str:
        """Say what snapshots of others, newest first, removed."""
        theirs: set[str] = set()
        for each in reversed(line):
            if each.kind == COMPACT:
                continue
            entries = [
                entry
                for manifest in self.manifests.read_list(each.lists[1])
                for entry in self.manifests.read(manifest)
            ]
            gone = [one.file for one in entries if one.kind != ADD and one.file.name not in theirs]
            joined = [one for one in entries if one.kind == ADD]
            added = [one.file for one in joined]
            deletes = sum(map(self._delete_count, joined))
            before = self.snapshot(each.snapshot_id - 1)
            vectors = each.index_manifest not in (None, before and before.index_manifest)
            rows = sum(one.row_count for one in gone)
            is_less = rows > sum(one.row_count for one in added)
            if is_less or deletes or vectors:
                return (
                    f"snapshot {each.snapshot_id} by others removed or rewrote "
                    f"{len(gone)} files of {rows} rows, and deleted {deletes} rows by "
                    f"key{' and some by deletion vectors' if vectors else ''}"
                )
            theirs |= {one.name for one in added}
        return ""

    def _delete_count(self, entry: Entry) -> int:
        """Count the rows of a file that delete by key.

        Paimon's Python library always reports zero, so the rows themselves are read.
        """
        recorded = entry.file.known_delete_count
        if recorded or not self.schema.primary_key or not entry.file.name.endswith(_PARQUET):
            return recorded
        path = self.file_path(entry)
        try:
            with reaching(path), read_whole(path), self.files.open_input(path) as opened:
                return deleting_rows(opened)
        except FileNotFoundError:
            return 0


# The tables of a lake.

_ATTEMPTS_MAX = 20
_OVERTAKEN = (
    paimon_faults.TableAlreadyExistException,
    paimon_faults.ColumnAlreadyExistException,
    paimon_faults.ColumnNotExistException,
)
_WRITTEN = "another process has written"
_MAKING = ("Schema in filesystem exists", _WRITTEN)
"""What pypaimon says about a table that has files but no name in the database yet."""


@dataclass(frozen=True, slots=True)
class PaimonCatalog:
    """Manages the lake tables of one lake."""

    config: Mapping[str, str] = field(repr=False)

    def exists(self, path: TablePath) -> bool:
        """Tell whether the lake has such a table."""
        with opened_catalog(self.config) as catalog:
            return table_handle(catalog, path) is not None

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Column names of a lake table; empty if there is no such table."""
        with opened_catalog(self.config) as catalog:
            held = _held(table_handle(catalog, path))
        return () if held is None else tuple(field.name for field in held.fields)

    def ensure(self, spec: LakeTableSpec) -> None:
        """Create the lake table, or update its columns."""
        check_names(spec.schema)
        check_types(spec.schema)
        check_partition_types(spec)
        for _ in range(_ATTEMPTS_MAX):
            with opened_catalog(self.config) as catalog:
                if self._is_done(catalog, spec, _held(table_handle(catalog, spec.path))):
                    return
        if not self.exists(spec.path):
            raise LakeTableDiffersError(
                f"The lake has the name of the table {spec.path} but no files, or files "
                "but no name in its catalog.",
                hint=(
                    "Make the catalog forget the name with headwater lake drop, or "
                    "remove the files: a process died while it created the table."
                ),
            )
        raise LakeUnreachableError(
            f"The schema of the lake table {spec.path} was changed by others "
            f"{_ATTEMPTS_MAX} times in a row."
        )

    def list_tables(self) -> list[TablePath]:
        """List the tables of the lake."""
        with opened_catalog(self.config) as catalog, reaching("the catalog of the lake"):
            return [
                TablePath(database, table)
                for database in catalog.list_databases()
                for table in catalog.list_tables(database)
            ]

    def drop(self, path: TablePath) -> None:
        """Drop a lake table and its files; does nothing if there is none."""
        with (
            opened_catalog(self.config) as catalog,
            reaching(f"the table {path} in the lake"),
            suppress(paimon_faults.TableNotExistException, paimon_faults.DatabaseNotExistException),
        ):
            # Not checked first: a database may still name it when its files are gone.
            catalog.drop_table(identifier(path), ignore_if_not_exists=True)

    def _is_done(
        self, catalog: Catalog, spec: LakeTableSpec, held: layout.LakeSchema | None
    ) -> bool:
        """Create or change the table; return whether it is as it should be."""
        changes = () if held is None else layout.plan_changes(spec, held)
        if held is not None and not changes:
            return True
        _guard_schemas(catalog, self.config, next_id=0 if held is None else held.schema_id + 1)
        try:
            with reaching(f"the table {spec.path} in the lake"):
                _apply(catalog, spec, changes)
        except _OVERTAKEN:
            return False
        except (LakeUnreachableError, FileExistsError, FileNotFoundError) as fault:
            # After losing a race, look at what the other one made.
            is_making = held is None and any(each in str(fault) for each in _MAKING)
            is_taken = isinstance(fault.__cause__, database_faults("IntegrityError"))
            if not (is_making or is_taken) and _held(table_handle(catalog, spec.path)) == held:
                raise LakeUnreachableError(
                    f"The table {spec.path} in the lake cannot be created or changed: {fault}."
                ) from fault
            return False
        return True


def _held(handle: Handle | None) -> layout.LakeSchema | None:
    return None if handle is None else layout.schema_from_json(JSON.to_json(handle.table_schema))


def _apply(catalog: Catalog, spec: LakeTableSpec, changes: tuple[layout.Change, ...]) -> None:
    if changes:
        translated = [_translated(change) for change in changes]
        catalog.alter_table(identifier(spec.path), translated)
        return
    catalog.create_database(spec.path.database, ignore_if_exists=True)
    catalog.create_table(identifier(spec.path), _new_schema(spec), ignore_if_exists=False)


def _new_schema(spec: LakeTableSpec) -> Schema:
    fields, options = layout.new_fields(spec)
    comments = [column.comment for column in spec.schema.columns]
    return Schema(
        fields=[
            DataField(each.field_id, each.name, DataTypeParser.parse_data_type(each.type), comment)
            for each, comment in zip(fields, comments, strict=True)
        ],
        partition_keys=list(spec.partition_keys),
        primary_keys=list(spec.schema.primary_key),
        options=options,
        comment=spec.comment,
    )


def _translated(change: layout.Change) -> object:
    match change:
        case layout.AddField(name=name, type=data_type, comment=comment, before=before):
            parsed = DataTypeParser.parse_data_type(data_type)
            move = None if before is None else Move.before(name, before)
            return SchemaChange.add_column(name, parsed, comment, move)
        case layout.RenameField(name=name, new_name=new_name):
            return SchemaChange.rename_column(name, new_name)
        case layout.DropField(name=name):
            return SchemaChange.drop_column(name)
        case layout.SetOption(key=key, value=value):
            return SchemaChange.set_option(key, value)
        case _:
            assert_never(change)


def _guard_schemas(catalog: Catalog, config: Mapping[str, str], *, next_id: int) -> None:
    """Let a catalog that keeps schemas in files write only the next one, and only once.

    Without this, pypaimon overwrites the schema of another process, or applies changes to it that
    were planned for the schema before.
    """
    if hasattr(catalog, "file_io"):
        files = Files.of(catalog.file_io, config)
        catalog.file_io = _GuardedFileIO(catalog.file_io, files, next_id)


class _GuardedFileIO:
    """A file system that creates one schema file, and only if it does not exist."""

    def __init__(self, inner: FileIO, files: Files, next_id: int) -> None:
        self._inner = inner
        self._files = files
        self._next_id = next_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Create the file, or raise an error that makes the catalog give up."""
        is_next = path.endswith(f"/schema-{self._next_id}")
        if not is_next or not self._files.create(path, content.encode()):
            raise RuntimeError(f"{_WRITTEN} {path}")
        return True
