"""The lists of files behind a snapshot: written, and written anew with entries taken out."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.metadata import TableMetadata

from headwater.lake.iceberg.listing import entries_of
from headwater.lake.iceberg.places import new_id, remove, settle

_CODEC: AvroCompressionCodec = "deflate"
_LIVE_PATHS_MAX = 1024
_live_paths: dict[str, frozenset[str]] = {}


class DeletesWriter(ManifestWriterV2):
    """Write a manifest of delete files, which pyiceberg itself does not."""

    def content(self) -> ManifestContent:
        """Return that it lists deletes."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(slots=True, kw_only=True)
class Manifests:
    """Write the manifests of one snapshot that is to be. Used by one thread, once."""

    io: FileIO
    metadata: TableMetadata
    snapshot_id: int
    sequence_number: int
    written: list[str] = field(default_factory=list)

    def added(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        """List files that are new, by their content and how they are parted."""
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = defaultdict(list)
        for file in files:
            groups[content_of(file), file.spec_id].append(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
                )
            )
        return [self._write(content, spec, group) for (content, spec), group in groups.items()]

    def without(
        self, manifest: ManifestFile, gone: Collection[str]
    ) -> tuple[ManifestFile, list[DataFile]]:
        """List the entries of a manifest anew, and tell of some that they are gone."""
        entries = entries_of(self.io, manifest)
        kept = [
            _entry(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)
            for entry in entries
            if entry.data_file.file_path not in gone
        ]
        removed = [
            _entry(entry, ManifestEntryStatus.DELETED, self.snapshot_id)
            for entry in entries
            if entry.data_file.file_path in gone
        ]
        listed = self._write(manifest.content, manifest.partition_spec_id, [*kept, *removed])
        return listed, [entry.data_file for entry in removed]

    def merged(self, manifests: Sequence[ManifestFile]) -> ManifestFile:
        """List what several manifests of one content and partition spec list, in one."""
        entries = [
            _entry(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)
            for manifest in manifests
            for entry in entries_of(self.io, manifest)
        ]
        first = manifests[0]
        return self._write(first.content, first.partition_spec_id, entries)

    def write_list(self, manifests: Iterable[ManifestFile], *, parent_id: int | None) -> str:
        """Write the list of manifests, and return where; everything is on disk then."""
        location = self._new_location(f"snap-{self.snapshot_id}-0-{new_id()}.avro")
        with write_manifest_list(
            format_version=2,
            output_file=self.io.new_output(location),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=self.sequence_number,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        settle(self.written)
        return location

    def abort(self) -> None:
        """Remove what was written."""
        remove(self.io, self.written)

    def _write(
        self, content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry]
    ) -> ManifestFile:
        kind = DeletesWriter if content == ManifestContent.DELETES else ManifestWriterV2
        location = self._new_location(f"{new_id()}-m{len(self.written)}.avro")
        writer: ManifestWriter = kind(
            self.metadata.specs()[spec_id],
            self.metadata.schema(),
            self.io.new_output(location),
            self.snapshot_id,
            _CODEC,
        )
        with writer:
            for entry in entries:
                writer.add_entry(entry)
        _remembered(location, entries)
        return writer.to_manifest_file()

    def _new_location(self, name: str) -> str:
        folder = self.metadata.properties.get(
            "write.metadata.path", f"{self.metadata.location.rstrip('/')}/metadata"
        )
        location = f"{folder.rstrip('/')}/{name}"
        self.written.append(location)
        return location


def live_paths(io: FileIO, manifest: ManifestFile) -> frozenset[str]:
    """Return the files that a manifest lists as live; it never changes, so they are kept."""
    found = _live_paths.get(manifest.manifest_path)
    if found is None:
        found = _remembered(manifest.manifest_path, entries_of(io, manifest))
    return found


def _remembered(path: str, entries: Iterable[ManifestEntry]) -> frozenset[str]:
    if len(_live_paths) >= _LIVE_PATHS_MAX:
        _live_paths.pop(next(iter(_live_paths)), None)
    found = frozenset(
        entry.data_file.file_path
        for entry in entries
        if entry.status != ManifestEntryStatus.DELETED
    )
    _live_paths[path] = found
    return found


def content_of(file: DataFile) -> ManifestContent:
    """Return the kind of manifest that lists a file."""
    is_data = file.content == DataFileContent.DATA
    return ManifestContent.DATA if is_data else ManifestContent.DELETES


def _entry(
    entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
