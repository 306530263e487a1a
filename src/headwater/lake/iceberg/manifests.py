"""Snapshots and their manifests: read, verified, written, merged and compared."""

import io
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg import manifest as ice_manifest
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from headwater.errors import CorruptFileError, LakeTableDiffersError
from headwater.lake.iceberg.catalog import reached
from headwater.lake.iceberg.data_files import number
from headwater.lake.iceberg.files import new_id, remove, scoped_path, settle
from headwater.lake.iceberg.layout import column_ids_of
from headwater.lake.spi import LakeSnapshot, is_checked, is_tierers
from headwater.model import Boundary
from headwater.model.boundary import BOUNDARY_PROPERTY, boundary_from_json

# Verifying what snapshots list.
#
# An Avro file that is cut after a block, or after its header, is a valid file with less in it: a
# table whose manifest list lost its end would look empty, and the next commit would make it so.

_TOTAL = "total-data-files"
_HINT = "Restore it from a copy; `headwater audit` names all damaged files."


def listed_manifests(snapshot: Snapshot, files: FileIO) -> list[ice_manifest.ManifestFile]:
    """Read a snapshot's manifests, or raise if its list has lost them."""
    manifests = snapshot.manifests(files)
    if lost := lost_count(snapshot, manifests):
        raise CorruptFileError(
            f"The manifest list {snapshot.manifest_list} is damaged: it lists none of the "
            f"{lost} data files of the table.",
            hint=_HINT,
        )
    return manifests


def lost_count(snapshot: Snapshot, manifests: Iterable[ice_manifest.ManifestFile]) -> int:
    """Count the data files of a snapshot if its list says nothing about any of them.

    Counts written by others are not always right, so a few missing ones prove nothing: our lists
    have one block, and lose all of it or nothing.
    """
    if any(each.content == ice_manifest.ManifestContent.DATA for each in manifests):
        return 0
    counts = {} if snapshot.summary is None else snapshot.summary.additional_properties
    total = counts.get(_TOTAL, "")
    return int(total) if total.isdecimal() else 0


def entries_of(
    files: FileIO, manifest: ice_manifest.ManifestFile, *, discard_deleted: bool = True
) -> list[ice_manifest.ManifestEntry]:
    """Read what a manifest lists, or raise if its length is not the recorded one."""
    return manifest.fetch_manifest_entry(whole(files, [manifest]), discard_deleted)


def whole(files: FileIO, manifests: Sequence[ice_manifest.ManifestFile]) -> FileIO:
    """Wrap file access so that manifests are only read at their recorded length."""
    return _Whole(files, {each.manifest_path: each.manifest_length for each in manifests})


class _Whole(FileIO):
    """File access where some files must have a certain length."""

    def __init__(self, files: FileIO, lengths: Mapping[str, int]) -> None:
        super().__init__(files.properties)
        self._files = files
        self._lengths = lengths

    def new_input(self, location: str) -> InputFile:
        found = self._files.new_input(location)
        length = self._lengths.get(location)
        return found if length is None else _WholeInput(found, length)

    def new_output(self, location: str) -> OutputFile:
        return self._files.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._files.delete(location)


class _WholeInput(InputFile):
    """Opens a file that must have a certain length."""

    def __init__(self, found: InputFile, length: int) -> None:
        super().__init__(found.location)
        self._found = found
        self._length = length

    def __len__(self) -> int:
        return len(self._found)

    def exists(self) -> bool:
        return self._found.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - as it is there
        stream = self._found.open()
        stream.seek(0, io.SEEK_END)
        length = stream.tell()
        if length != self._length:
            stream.close()
            raise CorruptFileError(
                f"The manifest {self.location} is damaged: it has {length} bytes instead "
                f"of {self._length}.",
                hint=_HINT,
            )
        stream.seek(0)
        return stream


# Writing manifests, and rewriting them with entries removed.

_CODEC: AvroCompressionCodec = "deflate"
_LIVE_PATHS_MAX = 1024
_live_paths: dict[str, frozenset[str]] = {}


class DeletesWriter(ice_manifest.ManifestWriterV2):
    """Writes a manifest of delete files, which pyiceberg itself does not."""

    def content(self) -> ice_manifest.ManifestContent:
        """Content type of the manifest."""
        return ice_manifest.ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(slots=True, kw_only=True)
class IcebergManifests:
    """Writes the manifests of one new snapshot. Used by one thread, once."""

    io: FileIO
    metadata: TableMetadata
    snapshot_id: int
    sequence_number: int
    written: list[str] = field(default_factory=list)

    def added(self, files: Sequence[ice_manifest.DataFile]) -> list[ice_manifest.ManifestFile]:
        """List new files, by content and partition spec."""
        groups: dict[tuple[ice_manifest.ManifestContent, int], list[ice_manifest.ManifestEntry]] = (
            defaultdict(list)
        )
        for file in files:
            groups[content_of(file), file.spec_id].append(
                ice_manifest.ManifestEntry.from_args(
                    status=ice_manifest.ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot_id,
                    data_file=file,
                )
            )
        return [self._write(content, spec, group) for (content, spec), group in groups.items()]

    def without(
        self, manifest: ice_manifest.ManifestFile, gone: Collection[str]
    ) -> tuple[ice_manifest.ManifestFile, list[ice_manifest.DataFile]]:
        """Rewrite a manifest with some entries marked as removed."""
        entries = entries_of(self.io, manifest)
        kept = [
            _entry(entry, ice_manifest.ManifestEntryStatus.EXISTING, entry.snapshot_id)
            for entry in entries
            if entry.data_file.file_path not in gone
        ]
        removed = [
            _entry(entry, ice_manifest.ManifestEntryStatus.DELETED, self.snapshot_id)
            for entry in entries
            if entry.data_file.file_path in gone
        ]
        listed = self._write(manifest.content, manifest.partition_spec_id, [*kept, *removed])
        return listed, [entry.data_file for entry in removed]

    def merged(self, manifests: Sequence[ice_manifest.ManifestFile]) -> ice_manifest.ManifestFile:
        """Merge manifests of one content and partition spec."""
        entries = [
            _entry(entry, ice_manifest.ManifestEntryStatus.EXISTING, entry.snapshot_id)
            for manifest in manifests
            for entry in entries_of(self.io, manifest)
        ]
        first = manifests[0]
        return self._write(first.content, first.partition_spec_id, entries)

    def write_list(
        self, manifests: Iterable[ice_manifest.ManifestFile], *, parent_id: int | None
    ) -> str:
        """Write the manifest list durably, and return its location."""
        location = self._new_location(f"snap-{self.snapshot_id}-0-{new_id()}.avro")
        with ice_manifest.write_manifest_list(
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
        self,
        content: ice_manifest.ManifestContent,
        spec_id: int,
        entries: Sequence[ice_manifest.ManifestEntry],
    ) -> ice_manifest.ManifestFile:
        kind = (
            DeletesWriter
            if content == ice_manifest.ManifestContent.DELETES
            else ice_manifest.ManifestWriterV2
        )
        location = self._new_location(f"{new_id()}-m{len(self.written)}.avro")
        writer: ice_manifest.ManifestWriter = kind(
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


def live_paths(io: FileIO, manifest: ice_manifest.ManifestFile) -> frozenset[str]:
    """The live files of a manifest; cached, since a manifest never changes."""
    found = _live_paths.get(manifest.manifest_path)
    if found is None:
        found = _remembered(manifest.manifest_path, entries_of(io, manifest))
    return found


def _remembered(path: str, entries: Iterable[ice_manifest.ManifestEntry]) -> frozenset[str]:
    if len(_live_paths) >= _LIVE_PATHS_MAX:
        _live_paths.pop(next(iter(_live_paths)), None)
    found = frozenset(
        entry.data_file.file_path
        for entry in entries
        if entry.status != ice_manifest.ManifestEntryStatus.DELETED
    )
    _live_paths[path] = found
    return found


def content_of(file: ice_manifest.DataFile) -> ice_manifest.ManifestContent:
    """The kind of manifest that lists a file."""
    is_data = file.content == ice_manifest.DataFileContent.DATA
    return ice_manifest.ManifestContent.DATA if is_data else ice_manifest.ManifestContent.DELETES


def _entry(
    entry: ice_manifest.ManifestEntry,
    status: ice_manifest.ManifestEntryStatus,
    snapshot_id: int | None,
) -> ice_manifest.ManifestEntry:
    return ice_manifest.ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


# Merging manifests, so that planning and committing stay fast.

_COUNT_MIN = 30
_BYTES_MAX = 8 * 1024 * 1024


def merged_manifests(
    listed: Sequence[ice_manifest.ManifestFile],
    manifests: IcebergManifests,
    *,
    count_min: int | None,
) -> list[ice_manifest.ManifestFile]:
    """Merge small manifests if there are many.

    Those of the snapshot being written stay as they are: their entries are new.
    """
    properties = manifests.metadata.properties
    bytes_max = number(properties, "commit.manifest.target-size-bytes", _BYTES_MAX)
    if count_min is None:
        count_min = number(properties, "commit.manifest.min-count-to-merge", _COUNT_MIN)
    found: list[ice_manifest.ManifestFile] = []
    for alike in _alike(listed):
        if len(alike) < max(count_min, 2):
            found += alike
            continue
        for together in _packed(alike, bytes_max):
            found.append(together[0] if len(together) == 1 else manifests.merged(together))
    merged = [each for each in listed if each.sequence_number == ice_manifest.UNASSIGNED_SEQ]
    return [*merged, *found]


def is_worth_merging(
    listed: Sequence[ice_manifest.ManifestFile], properties: Mapping[str, str], *, count_min: int
) -> bool:
    """Tell whether merging would leave fewer manifests."""
    bytes_max = number(properties, "commit.manifest.target-size-bytes", _BYTES_MAX)
    return any(
        len(alike) >= count_min and len(_packed(alike, bytes_max)) < len(alike)
        for alike in _alike(listed)
    )


def _alike(listed: Iterable[ice_manifest.ManifestFile]) -> list[list[ice_manifest.ManifestFile]]:
    groups: dict[tuple[ice_manifest.ManifestContent, int], list[ice_manifest.ManifestFile]] = (
        defaultdict(list)
    )
    for manifest in listed:
        if manifest.sequence_number != ice_manifest.UNASSIGNED_SEQ:
            groups[manifest.content, manifest.partition_spec_id].append(manifest)
    return list(groups.values())


def _packed(
    listed: Sequence[ice_manifest.ManifestFile], bytes_max: int
) -> list[list[ice_manifest.ManifestFile]]:
    """Group manifests up to a size, small ones first."""
    packs: list[list[ice_manifest.ManifestFile]] = [[]]
    size = 0
    for manifest in sorted(listed, key=lambda each: each.manifest_length):
        if packs[-1] and size + manifest.manifest_length > bytes_max:
            packs.append([])
            size = 0
        packs[-1].append(manifest)
        size += manifest.manifest_length
    return packs


# Snapshots of a table as a committer or reader sees them.

_FIRST_SEQUENCE_NUMBER = 1


def described_snapshot(snapshot: Snapshot, metadata: TableMetadata) -> LakeSnapshot:
    """Describe a snapshot."""
    properties = properties_of(snapshot)
    return LakeSnapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        committed_ms=snapshot.timestamp_ms,
        boundary=_boundary(snapshot, metadata),
        row_count=int(properties.get("total-records", 0)),
        file_count=int(properties.get("total-data-files", 0)),
        byte_count=int(properties.get("total-files-size", 0)),
        properties=properties,
    )


def find_round(metadata: TableMetadata, round_id: str) -> LakeSnapshot | None:
    """Find the snapshot of a round, looking back from the newest one of the main branch."""
    found: Snapshot | None = None
    for snapshot, boundary in _bounded(metadata.current_snapshot(), metadata):
        if boundary.round_id == round_id:
            # Snapshots of upkeep carry the round on: the oldest one is that of the round.
            found = snapshot
        elif found is not None:
            break
    return None if found is None else described_snapshot(found, metadata)


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """The summary of a snapshot, without the operation."""
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def back_to_boundary(metadata: TableMetadata) -> list[Snapshot]:
    """The newest snapshot and those before it, back to the first that has a boundary."""
    line: list[Snapshot] = []
    for each in ancestors_of(metadata.current_snapshot(), metadata):
        line.append(each)
        if BOUNDARY_PROPERTY in properties_of(each):
            return line
    return []


def check_never_tiered(metadata: TableMetadata) -> None:
    """Reject a table of ours whose first snapshots, which had the boundary, are gone."""
    oldest = min((each.sequence_number or 0 for each in metadata.snapshots), default=0)
    if column_ids_of(metadata.properties) is not None and oldest > _FIRST_SEQUENCE_NUMBER:
        raise LakeTableDiffersError(
            f"No snapshot of the Iceberg table in {metadata.location} still says how "
            "far it holds the log: those that did have expired, and the rest were "
            "committed by others.",
            hint="Drop the lake table, so that it is tiered again.",
        )


def _boundary(snapshot: Snapshot, metadata: TableMetadata) -> Boundary | None:
    return next((boundary for _, boundary in _bounded(snapshot, metadata)), None)


def _bounded(
    snapshot: Snapshot | None, metadata: TableMetadata
) -> Iterator[tuple[Snapshot, Boundary]]:
    """Yield the snapshots with a boundary, from this one back.

    Usually the first one has it, so nothing slow is done before that is known.
    """
    oldest = 0
    for each in _line(snapshot, metadata):
        oldest = each.sequence_number or 0
        yield from _with_boundary(each)
    # Others that expire snapshots cut the chain; older ones come before what is left.
    before = [each for each in metadata.snapshots if (each.sequence_number or 0) < oldest]
    before.sort(key=lambda each: each.sequence_number or 0, reverse=True)
    for each in before:
        yield from _with_boundary(each)


def _line(snapshot: Snapshot | None, metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, like `ancestors_of` but without a search for each."""
    if snapshot is None:
        return
    yield snapshot
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    while (parent := snapshot.parent_snapshot_id) is not None and parent in by_id:
        snapshot = by_id[parent]
        yield snapshot


def _with_boundary(snapshot: Snapshot) -> Iterator[tuple[Snapshot, Boundary]]:
    text = properties_of(snapshot).get(BOUNDARY_PROPERTY)
    if text is not None:
        yield snapshot, boundary_from_json(text)


# Whether others removed tiered rows from an Iceberg table.
#
# Others may append and compact. A snapshot of theirs that deletes or overwrites is compared with
# the one before it: files of ours that are gone, and new deletes for files of ours. A snapshot of
# ours says that everything before it was checked, so usually nothing has to be.

_TAKING = (Operation.DELETE, Operation.OVERWRITE)
_COUNTS = ("deleted-records", "added-position-deletes", "added-equality-deletes")


def head_of(table: Table) -> LakeSnapshot | None:
    """The newest snapshot of the main branch; None if there is none.

    Raises `LakeTableDiffersError` if rows were tiered but no snapshot records which.
    """
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return None
    head = checked_snapshot(snapshot, table)
    if head.boundary is None:
        check_never_tiered(table.metadata)
    return head


def checked_snapshot(snapshot: Snapshot, table: Table) -> LakeSnapshot:
    """Describe a snapshot, including what others removed."""
    with reached(f"Checking the Iceberg table {'.'.join(table.name())}"):
        return replace(
            described_snapshot(snapshot, table.metadata), taken=removed_up_to(table, snapshot)
        )


def removed_up_to(table: Table, snapshot: Snapshot) -> str:
    """Say what others removed up to a snapshot; empty if they removed nothing of ours."""
    found = ""
    above: list[Snapshot] = []
    for each in _snapshots_since(snapshot, table.metadata):
        properties = properties_of(each)
        if not is_tierers(properties):
            above.append(each)
            continue
        # Snapshots of others after it removed rows of it, if they removed any.
        found = found or _taken_in(above, table)
        above = []
        if is_checked(properties):
            break
    return found


def _taken_in(run: Sequence[Snapshot], table: Table) -> str:
    """Say what consecutive snapshots of others, newest first, removed."""
    for place, each in enumerate(run):
        if each.summary is None or each.summary.operation not in _TAKING:
            continue
        after = run[place - 1] if place else None
        if found := _taken_by(each, table, after=after):
            return found
    return ""


def _snapshots_since(snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Snapshot]:
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    found: Snapshot | None = snapshot
    while found is not None:
        yield found
        parent = found.parent_snapshot_id
        found = None if parent is None else by_id.get(parent)


def _taken_by(snapshot: Snapshot, table: Table, *, after: Snapshot | None) -> str:
    """Say what one snapshot of others removed and neither it nor the next one brought back.

    An overwrite may be two snapshots: one that removes everything, and one that brings it back.
    """
    counts, metadata = properties_of(snapshot), table.metadata
    before = metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
    if before is None:
        rows = sum(int(counts.get(name, "0") or 0) for name in _COUNTS)
        return f"snapshot {snapshot.snapshot_id} by others removed {rows} rows" if rows else ""
    held, now = _live(before, table.io), _live(snapshot, table.io)
    ours = {
        path
        for path, entry in held.items()
        if _is_data(entry) and not _is_of_others(entry.snapshot_id, metadata)
    }
    gone = [entry for path, entry in held.items() if path in ours - now.keys()]
    lifted = [entry for path, entry in held.items() if not _is_data(entry) and path not in now]
    new = [entry for path, entry in now.items() if path not in held]
    deletes = [each for each in new if not _is_data(each) and _holds_for(each, ours)]
    brought = _rows([each for each in new if _is_data(each)])
    if after is not None:
        brought += int(properties_of(after).get("added-records", "0") or 0)
    if not deletes and _rows(gone) - _rows(lifted) <= brought:
        return ""
    return (
        f"snapshot {snapshot.snapshot_id} by others removed or rewrote {len(gone)} files "
        f"of {_rows(gone)} rows, and deleted {_rows(deletes)} rows in files"
    )


def _is_data(entry: ice_manifest.ManifestEntry) -> bool:
    return entry.data_file.content == ice_manifest.DataFileContent.DATA


def _holds_for(entry: ice_manifest.ManifestEntry, paths: set[str]) -> bool:
    path = scoped_path(entry.data_file)
    return bool(paths) if path is None else path in paths


def _rows(entries: Iterable[ice_manifest.ManifestEntry]) -> int:
    return sum(each.data_file.record_count for each in entries)


def _is_of_others(snapshot_id: int | None, metadata: TableMetadata) -> bool:
    """Tell whether others appended what a snapshot added, as far as that is known."""
    found = metadata.snapshot_by_id(snapshot_id or -1)
    if found is None or found.summary is None or is_tierers(properties_of(found)):
        return False
    return found.summary.operation is Operation.APPEND


def _live(snapshot: Snapshot, io: FileIO) -> dict[str, ice_manifest.ManifestEntry]:
    return {
        entry.data_file.file_path: entry
        for manifest in listed_manifests(snapshot, io)
        for entry in entries_of(io, manifest)
    }
