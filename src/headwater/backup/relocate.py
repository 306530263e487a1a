"""Make an Iceberg warehouse that was moved or copied work at its new location.

Iceberg files refer to each other by full paths: metadata names lists, lists name manifests,
manifests name data files, and delete rows name the data files they apply to. After a move these
paths lead nowhere; after a copy they lead into the original. Every file that contains paths is
rewritten under a new name, and then the catalog is pointed at the new metadata in one transaction.
A crash before that changes nothing, and the original is neither read nor written. Data files stay
as they are.

Known limits: the catalog must be the file inside the warehouse, and tables must have format version
2. A table with files outside the warehouse is rejected. Statistics files are dropped.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg import manifest as ice_manifest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from headwater.errors import CorruptFileError, LakeTableDiffersError
from headwater.lake.files import decoded
from headwater.lake.iceberg.files import PATH_FIELD_ID, local_path, new_id, settle
from headwater.lake.iceberg.manifests import DeletesWriter, entries_of
from headwater.model import TablePath

CATALOG_NAME = "catalog.sqlite"
_FORMAT_VERSION = 2
_TABLES = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
_POINT = (
    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = NULL"
    " WHERE table_namespace = ? AND table_name = ? AND metadata_location = ?"
)
_PLACES = ("write.data.path", "write.metadata.path")
_DATA_FILE = [
    each.name for each in ice_manifest.DATA_FILE_TYPE[ice_manifest.DEFAULT_READ_VERSION].fields
]
_MANIFEST = [
    each.name
    for each in ice_manifest.MANIFEST_LIST_FILE_SCHEMAS[ice_manifest.DEFAULT_READ_VERSION].fields
]


@dataclass(frozen=True, slots=True)
class Move:
    """Where a warehouse was, and where it is now."""

    before: str
    now: str

    def __call__(self, location: str) -> str:
        """Translate a file's old path to its new one."""
        path = local_path(location)
        if path is None or not path.startswith(f"{self.before}/"):
            raise LakeTableDiffersError(
                f"The Iceberg lake refers to {location}, which is not below {self.before}.",
                hint=("Only tables that lie completely inside the warehouse can be relocated."),
            )
        scheme = "file://" if location.startswith("file:") else ""
        return f"{scheme}{self.now}{path.removeprefix(self.before)}"


def relocate_warehouse(home: Path) -> tuple[TablePath, ...]:
    """Rewrite the paths of all tables of a warehouse; return the tables that needed it.

    1. find where each table's metadata says it was
    2. rewrite every file that contains paths
    3. point the catalog at the new metadata, all tables at once
    """
    home = home.absolute()
    pointed: list[tuple[str, str, str, str]] = []
    with _catalog(home) as connection:
        for database, table, location in connection.execute(_TABLES).fetchall():
            move = _move_of(location, home)
            if move.before == move.now:
                continue
            with decoded(f"the Iceberg table {database}.{table}", KeyError, TypeError):
                moved = _Moving(move, str(location)).write()
            pointed.append((moved, database, table, location))
        with connection:
            connection.executemany(_POINT, pointed)
    return tuple(TablePath(database, table) for _, database, table, _ in pointed)


@contextmanager
def _catalog(home: Path) -> Iterator[sqlite3.Connection]:
    file = home / CATALOG_NAME
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
    except sqlite3.Error as error:
        raise CorruptFileError(f"The lake catalog {file} failed: {error}.") from error


def _move_of(location: str, home: Path) -> Move:
    """Find a file below its new home by the longest suffix of its old path that exists there."""
    parts = Path(local_path(location) or location).parts
    for count in range(len(parts) - 1, 0, -1):
        if home.joinpath(*parts[-count:]).is_file():
            return Move(str(Path(*parts[:-count])), str(home))
    raise LakeTableDiffersError(
        f"The metadata {location} is not below {home}.",
        hint=("Copy the whole warehouse with its catalog and all its folders, then try again."),
    )


@dataclass(slots=True)
class _Moving:
    """Rewrites the files of one table that contain paths. Used once."""

    move: Move
    location: str
    io: PyArrowFileIO = field(default_factory=PyArrowFileIO)
    _manifests: dict[str, ice_manifest.ManifestFile] = field(default_factory=dict)
    _deletes: dict[str, ice_manifest.DataFile] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)

    def write(self) -> str:
        """Write everything durably, and return the location of the new metadata."""
        place = Path(local_path(self.move(self.location)) or "")
        document = json.loads(place.read_bytes())
        metadata = TableMetadataUtil.parse_raw(json.dumps(document))
        if metadata.format_version != _FORMAT_VERSION:
            raise LakeTableDiffersError(
                f"The Iceberg table {metadata.location} has format version"
                f" {metadata.format_version}; only tables of version 2 can be relocated."
            )
        for snapshot in document.get("snapshots", ()):
            snapshot["manifest-list"] = self._list(snapshot, metadata)
        self._rename(document)
        version = int(place.name.partition("-")[0]) + 1
        target = place.with_name(f"{version:05d}-{new_id()}.metadata.json")
        target.write_text(json.dumps(document))
        location = self.move(self.location).removesuffix(place.name) + target.name
        settle([*self._written, location])
        return location

    def _rename(self, document: dict[str, object]) -> None:
        """Translate the paths in the metadata itself, except those inside snapshots."""
        document["location"] = self.move(str(document["location"]))
        document["metadata-log"] = []
        document["statistics"] = []
        document["partition-statistics"] = []
        properties = document.get("properties")
        if isinstance(properties, dict):
            for name in _PLACES:
                if name in properties:
                    properties[name] = self.move(properties[name])

    def _list(self, snapshot: Mapping[str, object], metadata: TableMetadata) -> str:
        """Rewrite a snapshot's manifest list, and return its new location."""
        before = self.move(str(snapshot["manifest-list"]))
        manifests = [
            self._manifest(each, metadata)
            for each in ice_manifest.read_manifest_list(self.io.new_input(before))
        ]
        location = self._beside(before, f"snap-{snapshot['snapshot-id']}-0-{new_id()}.avro")
        parent = snapshot.get("parent-snapshot-id")
        with ice_manifest.write_manifest_list(
            format_version=2,
            output_file=self.io.new_output(location),
            snapshot_id=_whole(snapshot["snapshot-id"]),
            parent_snapshot_id=None if parent is None else _whole(parent),
            sequence_number=_whole(snapshot["sequence-number"]),
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(manifests)
        return location

    def _manifest(
        self, manifest: ice_manifest.ManifestFile, metadata: TableMetadata
    ) -> ice_manifest.ManifestFile:
        """Rewrite a manifest, once for all snapshots that share it."""
        if (known := self._manifests.get(manifest.manifest_path)) is not None:
            return known
        old_path = manifest.manifest_path
        manifest[_MANIFEST.index("manifest_path")] = self.move(old_path)
        kind = (
            DeletesWriter
            if manifest.content == ice_manifest.ManifestContent.DELETES
            else ice_manifest.ManifestWriterV2
        )
        location = self._beside(manifest.manifest_path, f"{new_id()}-m0.avro")
        writer: ice_manifest.ManifestWriter = kind(
            metadata.specs()[manifest.partition_spec_id],
            metadata.schema(),
            self.io.new_output(location),
            manifest.added_snapshot_id or 0,
            "deflate",
        )
        with writer:
            for entry in entries_of(self.io, manifest, discard_deleted=False):
                is_live = entry.status != ice_manifest.ManifestEntryStatus.DELETED
                entry.data_file = self._file(entry.data_file, is_live=is_live)
                writer.add_entry(entry)
        manifest[_MANIFEST.index("manifest_path")] = location
        manifest[_MANIFEST.index("manifest_length")] = writer.to_manifest_file().manifest_length
        self._manifests[old_path] = manifest
        return manifest

    def _file(self, file: ice_manifest.DataFile, *, is_live: bool) -> ice_manifest.DataFile:
        """Translate a file's path; a file whose rows contain paths is rewritten."""
        location = self.move(file.file_path)
        if file.content != ice_manifest.DataFileContent.POSITION_DELETES:
            file[_DATA_FILE.index("file_path")] = location
            return file
        known = self._deletes.get(location)
        if known is None:
            known = self._deletes[location] = self._deletes_file(file, location, is_live=is_live)
        return known

    def _deletes_file(
        self, file: ice_manifest.DataFile, location: str, *, is_live: bool
    ) -> ice_manifest.DataFile:
        for bounds in (file.lower_bounds, file.upper_bounds):
            if bounds and PATH_FIELD_ID in bounds:
                bounds[PATH_FIELD_ID] = self.move(bounds[PATH_FIELD_ID].decode()).encode()
        source = Path(local_path(location) or "")
        if not is_live and not source.exists():
            file[_DATA_FILE.index("file_path")] = location
            return file
        target = source.with_name(f"{new_id()}-deletes.parquet")
        pq.write_table(
            self._moved_rows(pq.read_table(source, page_checksum_verification=True)),
            target,
            compression="zstd",
            write_page_checksum=True,
        )
        place = self._beside(location, target.name)
        file[_DATA_FILE.index("file_path")] = place
        file[_DATA_FILE.index("file_size_in_bytes")] = target.stat().st_size
        return file

    def _moved_rows(self, rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index("file_path")
        paths = rows.column(index).combine_chunks().cast(pa.string()).dictionary_encode()
        moved = pa.array([self.move(each.as_py()) for each in paths.dictionary], pa.string())
        # The same path occurs in millions of rows: translate it once.
        column = pc.take(moved, paths.indices).cast(rows.schema.field(index).type)
        return rows.set_column(index, rows.schema.field(index), column)

    def _beside(self, location: str, name: str) -> str:
        folder, _, _ = location.rpartition("/")
        self._written.append(f"{folder}/{name}")
        return f"{folder}/{name}"


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value
