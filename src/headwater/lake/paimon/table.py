"""One lake table, opened: its files, schemas, snapshots and manifests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pypaimon.common.json_util import JSON
from pypaimon.utils.file_store_path_factory import canonical_data_file_path

from headwater.errors import LakeSnapshotMissingError, LakeTableDiffersError
from headwater.lake.damage import decoded, read_whole
from headwater.lake.paimon.data_files import deleting_rows
from headwater.lake.paimon.files import Files, reaching
from headwater.lake.paimon.handle import Handle, opened_catalog, table_handle
from headwater.lake.paimon.manifests import ADD, Entry, Manifest, Manifests, live_entries
from headwater.lake.paimon.options import INNER_PLACES, PLACES
from headwater.lake.paimon.partitions import Partitions
from headwater.lake.paimon.schema import COLUMN_IDS_OPTION, LakeSchema, schema_from_json
from headwater.lake.paimon.snapshot import (
    BYTES_PROPERTY,
    COMPACT,
    FILES_PROPERTY,
    SnapshotFile,
    snapshot_from_json,
)
from headwater.lake.spi import LakeSnapshot
from headwater.lake.table import LakeTableSpec
from headwater.lake.taken import is_looked_at, is_tierers
from headwater.model.boundary import Boundary
from headwater.model.path import TablePath
from headwater.model.schema import Column

_SOME_NAME = "data"
_PARQUET = ".parquet"
_SNAPSHOT_NAME = re.compile(r"snapshot-(\d+)\Z")


def check_places(path: TablePath, schema: LakeSchema, files: Files, *, root: str) -> None:
    """Refuse a lake table whose options lead to places that are not allowed."""
    files.places.check(root, what=f"The location of the Paimon table {path}")
    for name in (*PLACES, *INNER_PLACES):
        for place in filter(None, schema.options.get(name, "").split(",")):
            what = f"The option '{name}' of the Paimon table {path}"
            full = f"{root.rstrip('/')}/{place.strip()}" if name in INNER_PLACES else place.strip()
            files.places.check(full, what=what)


@dataclass(slots=True)
class PaimonTable:
    """Be one lake table; schemas and manifests never change, so they are kept."""

    spec: LakeTableSpec
    handle: Handle = field(repr=False)
    files: Files
    schema: LakeSchema
    partitions: Partitions
    manifests: Manifests
    schemas: dict[int, LakeSchema] = field(default_factory=dict)
    directories: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Where the files of partitions and buckets lie, which takes long to find out."""

    @classmethod
    def open(cls, config: Mapping[str, str], spec: LakeTableSpec) -> "PaimonTable":
        """Open a lake table, or say that there is none."""
        with opened_catalog(config) as catalog:
            handle = table_handle(catalog, spec.path)
        if handle is None:
            raise LakeSnapshotMissingError(
                f"There is no table {spec.path} in the lake.",
                hint="Wait until the table was tiered once, or make it by LakeCatalog.ensure.",
            )
        schema = schema_from_json(JSON.to_json(handle.table_schema))
        files = Files.of(handle.file_io, config, location=handle.table_path)
        check_places(spec.path, schema, files, root=handle.table_path)
        partitions = Partitions.of(spec, partial(canonical_data_file_path, handle))
        root = handle.table_path.rstrip("/")
        manifests = Manifests(files, f"{root}/manifest", partitions.bounds)
        return cls(spec, handle, files, schema, partitions, manifests, {schema.schema_id: schema})

    @property
    def root(self) -> str:
        """Return the directory of the table."""
        return self.handle.table_path.rstrip("/")

    def schema_of(self, schema_id: int) -> LakeSchema:
        """Return the schema that a file was written under."""
        held = self.schemas.get(schema_id)
        if held is None:
            with reaching(f"schema {schema_id} of {self.spec.path}"):
                found = self.handle.schema_manager.get_schema(schema_id)
            if found is None:
                raise LakeTableDiffersError(
                    f"The lake table {self.spec.path} has no schema {schema_id},"
                    " under which a file of it was written."
                )
            held = self.schemas[schema_id] = schema_from_json(JSON.to_json(found))
        return held

    def field_id_of(self, column: Column) -> int | None:
        """Return the id of the field that holds a column, or held it; None if none ever did."""
        found = self.schema.field_id_of(column)
        if found is not None or self.schema.column_ids is not None:
            return found
        # A table that others made: the reader may know a name that older schemas have.
        for schema_id in range(self.schema.schema_id - 1, -1, -1):
            if (found := self.schema_of(schema_id).field_id_of(column)) is not None:
                return found
        return None

    def is_lost(self, column: Column, written: LakeSchema) -> bool:
        """Tell whether files of a schema lack a column because it was dropped before."""
        field_id = self.field_id_of(column)
        if field_id is None:
            known = self.schema.column_ids or {}
            return column.column_id < max(known, default=0)
        # Ids of fields ascend, so that a field with a lower one was there before.
        return written.field(field_id) is None and field_id <= written.highest_field_id

    def snapshot_path(self, snapshot_id: int) -> str:
        """Return the path of a snapshot's file."""
        return f"{self.root}/snapshot/snapshot-{snapshot_id}"

    def snapshot_ids(self) -> list[int]:
        """Return the ids of snapshots that are there, ascending."""
        found = (
            _SNAPSHOT_NAME.match(each.name) for each in self.files.list(f"{self.root}/snapshot")
        )
        return sorted(int(match[1]) for match in found if match)

    def head(self) -> SnapshotFile | None:
        """Return the newest snapshot."""
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
        """Return a snapshot, None if it is not there (any more)."""
        content = self.files.read_or_none(self.snapshot_path(snapshot_id))
        return None if content is None else snapshot_from_json(content)

    def back_from(self, newest: SnapshotFile | None) -> Iterator[SnapshotFile]:
        """Yield a snapshot and those before it, as far as they are there."""
        found = newest
        while found is not None:
            yield found
            found = self.snapshot(found.snapshot_id - 1)

    def boundary(self, snapshot: SnapshotFile) -> Boundary | None:
        """Return the boundary of a snapshot: its own, else that of the nearest one before."""
        last = snapshot
        for each in self.back_from(snapshot):
            if (boundary := each.own_boundary) is not None:
                return boundary
            last = each
        if last.snapshot_id > 1 and COLUMN_IDS_OPTION in self.schema.options:
            raise LakeTableDiffersError(
                f"No snapshot of the lake table {self.spec.path} tells any more how far it holds"
                f" the log: those before {last.snapshot_id} were expired, and all later ones were"
                " committed by others.",
                hint="Restore an older snapshot, or drop the lake table so that it is tiered anew.",
            )
        return None

    def all_manifests(self, snapshot: SnapshotFile) -> list[Manifest]:
        """Return the manifests of a snapshot, older ones first."""
        return [each for listed in snapshot.lists for each in self.manifests.read_list(listed)]

    def live(self, snapshot: SnapshotFile | None) -> list[Entry]:
        """Return the data files of a snapshot."""
        if snapshot is None:
            return []
        return live_entries(
            entry
            for manifest in self.all_manifests(snapshot)
            for entry in self.manifests.read(manifest)
        )

    def file_path(self, entry: Entry) -> str:
        """Return where a data file lies."""
        path = self._file_path(entry)
        # Engines read files by their names, without asking anybody.
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
        """Return how many data files a snapshot has, and their bytes."""
        properties = snapshot.properties
        if FILES_PROPERTY in properties and BYTES_PROPERTY in properties:
            return int(properties[FILES_PROPERTY]), int(properties[BYTES_PROPERTY])
        entries = self.live(snapshot)
        return len(entries), sum(entry.file.byte_count for entry in entries)

    def to_lake_snapshot(self, snapshot: SnapshotFile) -> LakeSnapshot:
        """Tell of a snapshot what the interface of lakes asks for."""
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
        """Say what others took of our rows up to a snapshot; nothing if they took nothing.

        Others may append, and compact. What leaves by another snapshot of theirs was ours, unless
        they brought it themselves. A snapshot of ours says that all before it was looked at.
        """
        suspects: list[SnapshotFile] = []
        found = ""
        for each in self.back_from(snapshot):
            properties = each.properties
            if is_tierers(properties):
                found = found or self._taken_by(suspects)
                suspects = []
                if is_looked_at(properties):
                    break
            else:
                suspects.append(each)
        return found

    def _taken_by(self, line: Sequence[SnapshotFile]) -> str:
        """Say what snapshots of others, newest first, took of those before them."""
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
                    f"snapshot {each.snapshot_id} of others removed or rewrote {len(gone)} files"
                    f" of {rows} rows, and deleted {deletes} rows by key"
                    f"{' and some by deletion vectors' if vectors else ''}"
                )
            theirs |= {one.name for one in added}
        return ""

    def _delete_count(self, entry: Entry) -> int:
        """Return how many rows of a file delete by key.

        Paimon's Python library always tells that there are none, so that the rows are asked.
        """
        told = entry.file.known_delete_count
        if told or not self.schema.primary_key or not entry.file.name.endswith(_PARQUET):
            return told
        path = self.file_path(entry)
        try:
            with reaching(path), read_whole(path), self.files.open_input(path) as opened:
                return deleting_rows(opened)
        except FileNotFoundError:
            return 0
