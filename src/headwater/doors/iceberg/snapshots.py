"""The snapshot that a load serves: that of the lake and the tail, in metadata of its own.

Its file lists and its metadata are files in the folder of the door. No catalog is told of them: a
door that is killed leaves files behind, and nothing that a table leads to.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

from headwater.doors.iceberg.origins import TableOrigin
from headwater.lake.iceberg.catalog import reached
from headwater.lake.iceberg.commit import summary_of
from headwater.lake.iceberg.files import new_id
from headwater.lake.iceberg.manifests import IcebergManifests, properties_of

POSITION = "headwater.token"
"""In the summary of a served snapshot: the position, which every other reader takes as well."""
TAIL_ROWS = "headwater.tail-rows"
AGE_MS = 60_000
"""How old a snapshot says that it is when it is made, if the lake has none that is younger."""
_ID_BYTES = 8
_ID_MASK = 2**63 - 1


def snapshot_id_of(token: str) -> int:
    """Return the number of the snapshot at a position: the same in every door, at any time."""
    digest = hashlib.sha256(token.encode()).digest()[:_ID_BYTES]
    return int.from_bytes(digest, "big") & _ID_MASK or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSnapshot:
    """A snapshot that was written for a load, and is not committed."""

    snapshot: Snapshot
    metadata: str
    """The metadata of the table as JSON."""
    location: str
    """The file that holds it."""
    files: frozenset[str]
    """All files that it needs beside those of the lake."""
    byte_count: int
    """Bytes of its metadata and file lists."""


@dataclass(slots=True, kw_only=True)
class SnapshotWriter:
    """Writes one snapshot into the folder of a door. Used by one thread, once."""

    origin: TableOrigin
    location: str
    """The folder into which it writes."""
    token: str
    now_ms: int
    earlier: Sequence[Snapshot] = ()
    """Snapshots that were served before and are still lent: some engines load a table twice for
    one query, and look in the second answer for the snapshot of the first."""
    written: list[str] = field(default_factory=list)

    def write(self, files: Sequence[DataFile]) -> ServedSnapshot:
        """Write file lists and metadata; what was written is removed if that fails."""
        try:
            with reached(f"Writing the metadata of {self.origin.spec.path}"):
                return self._written(files)
        except BaseException:
            io = self.origin.io()
            for each in self.written:
                if io.new_input(each).exists():
                    io.delete(each)
            raise

    def _written(self, files: Sequence[DataFile]) -> ServedSnapshot:
        held = self.origin.metadata
        folder = f"{self.location}/metadata"
        manifests = IcebergManifests(
            io=self.origin.io(),
            metadata=held.model_copy(update={"properties": {"write.metadata.path": folder}}),
            snapshot_id=_free(snapshot_id_of(self.token), held),
            sequence_number=held.next_sequence_number(),
            written=self.written,
        )
        listed = [*manifests.added(files), *self.origin.manifests]
        before = self.origin.snapshot
        parent_id = None if before is None else before.snapshot_id
        place = manifests.write_list(listed, parent_id=parent_id)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": manifests.snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": manifests.sequence_number,
                "timestamp-ms": self._time_ms(held),
                "manifest-list": place,
                "summary": self._summary(files, before),
                "schema-id": held.current_schema_id,
            }
        )
        text = _with_snapshots(held, self.earlier, snapshot).model_dump_json()
        location = f"{folder}/{new_id()}.metadata.json"
        self.written.append(location)
        with manifests.io.new_output(location).create(overwrite=True) as stream:
            stream.write(text.encode())
        return ServedSnapshot(
            snapshot=snapshot,
            metadata=text,
            location=location,
            files=frozenset((*self.written, *(file.file_path for file in files))),
            byte_count=sum(len(manifests.io.new_input(each)) for each in self.written),
        )

    def _time_ms(self, held: TableMetadata) -> int:
        """Return when the snapshot was made, as it says: after all others, and a while ago.

        Engines that keep to one moment in a transaction leave out what is younger than that.
        """
        others = [each.timestamp_ms for each in (*held.snapshots, *self.earlier)]
        return max(self.now_ms - AGE_MS, *(each + 1 for each in others), held.last_updated_ms)

    def _summary(self, files: Sequence[DataFile], before: Snapshot | None) -> Summary:
        counts = summary_of(
            added=files, removed=(), before=None if before is None else properties_of(before)
        )
        rows = sum(each.record_count for each in files if each.content == DataFileContent.DATA)
        own: Mapping[str, str] = {POSITION: self.token, TAIL_ROWS: str(rows)}
        has_deletes = any(each.content != DataFileContent.DATA for each in files)
        operation = Operation.OVERWRITE if has_deletes else Operation.APPEND
        return Summary(operation, **{**counts, **own})


def _free(number: int, metadata: TableMetadata) -> int:
    """Return a number that no snapshot of the lake has."""
    while metadata.snapshot_by_id(number) is not None:
        number = (number + 1) & _ID_MASK
    return number


def _with_snapshots(
    metadata: TableMetadata, earlier: Sequence[Snapshot], newest: Snapshot
) -> TableMetadata:
    """Return metadata with more snapshots; all that it has stay as they are."""
    entry = SnapshotLogEntry.model_validate(
        {"snapshot-id": newest.snapshot_id, "timestamp-ms": newest.timestamp_ms}
    )
    main = SnapshotRef.model_validate(
        {"snapshot-id": newest.snapshot_id, "type": SnapshotRefType.BRANCH}
    )
    schemas = {schema.schema_id for schema in metadata.schemas}
    taken = {newest.snapshot_id, *(each.snapshot_id for each in metadata.snapshots)}
    known = [
        each
        for each in earlier
        if each.snapshot_id not in taken
        and each.schema_id in schemas
        and (each.sequence_number or 0) <= (newest.sequence_number or 0)
    ]
    return metadata.model_copy(
        update={
            "snapshots": [*metadata.snapshots, *known, newest],
            "current_snapshot_id": newest.snapshot_id,
            "last_sequence_number": newest.sequence_number,
            "last_updated_ms": newest.timestamp_ms,
            "snapshot_log": [*metadata.snapshot_log, entry],
            "refs": {**metadata.refs, MAIN_BRANCH: main},
        }
    )
