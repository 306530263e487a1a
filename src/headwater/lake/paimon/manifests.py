"""Snapshots and their manifests: read, verified, written, merged and compared."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import TypeAlias

import fastavro
from backports.zstd import ZstdError
from fastavro.schema import SchemaParseException
from pypaimon.manifest.schema.manifest_entry import MANIFEST_ENTRY_SCHEMA
from pypaimon.manifest.schema.manifest_file_meta import MANIFEST_FILE_META_SCHEMA

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.lake.files import decoded
from headwater.lake.paimon.files import Files
from headwater.model import Boundary
from headwater.model.boundary import BOUNDARY_PROPERTY, boundary_from_json
from headwater.model.type_json import Json, int_of, object_of, text_of
from headwater.runtime.clock import random_bytes

# Snapshots of a lake table as their files describe them.

TIERING_USER = "__fluss_lake_tiering"
"""The committer that readers of Apache Fluss look for."""
KEEPER_USER = "headwater-maintenance"
APPEND, COMPACT = "APPEND", "COMPACT"
FILES_PROPERTY = "headwater.files"
BYTES_PROPERTY = "headwater.bytes"
PARENT_PROPERTY = "headwater.parent"
_SNAPSHOT_VERSION = 3
_CARRIED = ("indexManifest", "watermark", "statistics", "nextRowId")


@dataclass(frozen=True, slots=True)
class ListFile:
    """A list of manifests, with its size if the snapshot records it."""

    name: str
    byte_count: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot as in its file."""

    node: Mapping[str, Json]

    @property
    def snapshot_id(self) -> int:
        """Id; each snapshot has the next one."""
        return int_of(self.node, "id")

    @property
    def schema_id(self) -> int:
        """The newest schema when it was committed."""
        return int_of(self.node, "schemaId")

    @property
    def lists(self) -> tuple[ListFile, ListFile]:
        """Its lists of manifests: the earlier ones, and its own."""
        return self._list("baseManifestList"), self._list("deltaManifestList")

    @property
    def changelog_list(self) -> ListFile | None:
        """Its list of changelog manifests, if any."""
        key = "changelogManifestList"
        return self._list(key) if isinstance(self.node.get(key), str) else None

    def _list(self, key: str) -> ListFile:
        byte_count = self.node.get(f"{key}Size")
        return ListFile(
            text_of(self.node, key), byte_count if isinstance(byte_count, int) else None
        )

    @property
    def index_manifest(self) -> str | None:
        """Name of its list of index files, if any."""
        name = self.node.get("indexManifest")
        return name if isinstance(name, str) else None

    @property
    def statistics(self) -> str | None:
        """Name of its statistics file, if any."""
        name = self.node.get("statistics")
        return name if isinstance(name, str) else None

    @property
    def committed_ms(self) -> int:
        """When it was committed."""
        return int_of(self.node, "timeMillis")

    @property
    def row_count(self) -> int:
        """Rows in its files."""
        return int_of(self.node, "totalRecordCount", default=0)

    @property
    def user(self) -> str:
        """Who committed it."""
        return text_of(self.node, "commitUser")

    @property
    def kind(self) -> str:
        """What it did: APPEND, COMPACT or OVERWRITE; empty if it does not say."""
        found = self.node.get("commitKind")
        return found if isinstance(found, str) else ""

    @property
    def uuid(self) -> str | None:
        """Distinguishes it from another snapshot with the same id."""
        found = self.node.get("uuid")
        return found if isinstance(found, str) else None

    @property
    def properties(self) -> Mapping[str, str]:
        """What its committer attached."""
        node = self.node.get("properties")
        return {key: str(value) for key, value in node.items()} if isinstance(node, dict) else {}

    @property
    def own_boundary(self) -> Boundary | None:
        """The boundary that it carries itself."""
        text = self.properties.get(BOUNDARY_PROPERTY)
        return None if text is None else boundary_from_json(text)

    def to_json(self) -> bytes:
        """Encode the snapshot file."""
        return json.dumps(self.node, indent=2, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the next snapshot consists of."""

    schema_id: int
    base_list: tuple[str, int]
    delta_list: tuple[str, int]
    row_count_added: int
    user: str
    kind: str
    committed_ms: int
    properties: Mapping[str, str]
    uuid: str


def next_snapshot(on: SnapshotFile | None, draft: Draft) -> SnapshotFile:
    """Make the snapshot that directly follows another one, or the first."""
    snapshot_id = 1 if on is None else on.snapshot_id + 1
    carried = {} if on is None else {key: on.node[key] for key in _CARRIED if key in on.node}
    node: dict[str, Json] = {
        "version": _SNAPSHOT_VERSION,
        "uuid": draft.uuid,
        "id": snapshot_id,
        "schemaId": draft.schema_id,
        "baseManifestList": draft.base_list[0],
        "baseManifestListSize": draft.base_list[1],
        "deltaManifestList": draft.delta_list[0],
        "deltaManifestListSize": draft.delta_list[1],
        "commitUser": draft.user,
        # Grows with every snapshot, so that each one has its own.
        "commitIdentifier": snapshot_id,
        "commitKind": draft.kind,
        "timeMillis": draft.committed_ms,
        "totalRecordCount": (0 if on is None else on.row_count) + draft.row_count_added,
        "deltaRecordCount": draft.row_count_added,
        **carried,
        "properties": dict(draft.properties),
    }
    return SnapshotFile(node)


def snapshot_from_json(text: str | bytes) -> SnapshotFile:
    """Decode a snapshot file, or raise CorruptFileError."""
    try:
        snapshot = SnapshotFile(object_of(json.loads(text), what="snapshot"))
        assert snapshot.snapshot_id > 0
        assert all(each.name for each in snapshot.lists)
    except (ValueError, InvalidTableError, AssertionError) as fault:
        raise CorruptFileError(f"A snapshot of a lake table cannot be read: {fault}.") from fault
    return snapshot


# Manifests: the lists of data files that snapshots consist of, in Avro.

ADD, DELETE = 0, 1
_LIST_VERSION = 2
_CODEC = "zstandard"
_CACHED_ENTRIES_MAX = 500_000
_ENTRIES_MAX = 10_000

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | Mapping[str, Value] | None"
Record: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file; record fields that are not named here are kept as they came."""

    record: Record

    @property
    def name(self) -> str:
        """Name of the file within its bucket."""
        return _text(self.record, "_FILE_NAME")

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return _int(self.record, "_ROW_COUNT")

    @property
    def byte_count(self) -> int:
        """Size of the file."""
        return _int(self.record, "_FILE_SIZE")

    @property
    def delete_count(self) -> int:
        """Number of rows that delete a key; all of them if unknown."""
        known = self.record.get("_DELETE_ROW_COUNT")
        return known if isinstance(known, int) else self.row_count

    @property
    def known_delete_count(self) -> int:
        """Number of rows that delete a key; zero if unknown."""
        known = self.record.get("_DELETE_ROW_COUNT")
        return known if isinstance(known, int) else 0

    @property
    def level(self) -> int:
        """Level: 0 was written last and may overlap."""
        return _int(self.record, "_LEVEL")

    @property
    def schema_id(self) -> int:
        """The schema that the file was written under."""
        return _int(self.record, "_SCHEMA_ID")

    @property
    def sequence_min(self) -> int:
        """The smallest sequence number of its rows."""
        return _int(self.record, "_MIN_SEQUENCE_NUMBER")

    @property
    def sequence_max(self) -> int:
        """The largest sequence number of its rows."""
        return _int(self.record, "_MAX_SEQUENCE_NUMBER")

    @property
    def external_path(self) -> str | None:
        """Where the file lies, if not below the table."""
        path = self.record.get("_EXTERNAL_PATH")
        return path if isinstance(path, str) else None

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names of files that belong to this one."""
        names = self.record.get("_EXTRA_FILES")
        return tuple(str(name) for name in names) if isinstance(names, list) else ()

    def bounds_record(self, which: str) -> Record:
        """The bounds of keys or values as in the record."""
        found = self.record[which]
        assert isinstance(found, Mapping)
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """A data file that is added to or removed from the table."""

    kind: int
    partition: bytes
    bucket: int
    bucket_count: int
    file: DataFile

    @property
    def identity(self) -> tuple[bytes, int, int, str]:
        """Identifies the file, both where it is added and where it is removed."""
        return (self.partition, self.bucket, self.file.level, self.file.name)

    def leaving(self) -> "Entry":
        """The entry that removes the file."""
        return Entry(DELETE, self.partition, self.bucket, self.bucket_count, self.file)

    def to_record(self) -> dict[str, Value]:
        """Encode the entry of a manifest."""
        return {
            "_VERSION": _LIST_VERSION,
            "_KIND": self.kind,
            "_PARTITION": self.partition,
            "_BUCKET": self.bucket,
            "_TOTAL_BUCKETS": self.bucket_count,
            "_FILE": self.file.record,
        }


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest file, with what a manifest list says about it."""

    record: Record

    @property
    def name(self) -> str:
        """Name of the file."""
        return _text(self.record, "_FILE_NAME")

    @property
    def byte_count(self) -> int:
        """Size of the file."""
        return _int(self.record, "_FILE_SIZE")

    @property
    def deleted_count(self) -> int:
        """Number of files that it removes from the table."""
        return _int(self.record, "_NUM_DELETED_FILES")


def live_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Subtract removed files from added ones."""
    live: dict[tuple[bytes, int, int, str], Entry] = {}
    for entry in entries:
        if entry.kind == ADD or live.pop(entry.identity, None) is None:
            live[entry.identity] = entry
    return list(live.values())


def entries_to_bytes(entries: Sequence[Entry]) -> bytes:
    """Encode entries as a manifest file."""
    return _to_avro(MANIFEST_ENTRY_SCHEMA, [entry.to_record() for entry in entries])


def entries_from_bytes(data: bytes) -> list[Entry]:
    """Decode the entries of a manifest file."""
    with decoded("a Paimon table"):
        return [
            Entry(
                _int(record, "_KIND"),
                _bytes(record, "_PARTITION"),
                _int(record, "_BUCKET"),
                _int(record, "_TOTAL_BUCKETS"),
                DataFile(_file_record(record)),
            )
            for record in _from_avro(data)
        ]


PartitionBounds: TypeAlias = Callable[[Sequence[Entry]], Record]


@dataclass(slots=True)
class PaimonManifests:
    """Reads and writes the manifests of one table; cached, since they never change."""

    files: Files
    directory: str
    partition_bounds: PartitionBounds
    cached: dict[str, list[Entry]] = field(default_factory=dict)
    cached_count: int = 0

    def path(self, name: str) -> str:
        """Path of a manifest or of a list of them."""
        return f"{self.directory}/{name}"

    def read_list(self, listed: ListFile) -> list[Manifest]:
        """Read the manifests that a list names."""
        data = self._read(listed.name, listed.byte_count)
        return [Manifest(record) for record in _from_avro(data)]

    def read(self, manifest: Manifest) -> list[Entry]:
        """Read the entries of a manifest."""
        name = manifest.name
        if (held := self.cached.get(name)) is not None:
            return held
        entries = entries_from_bytes(self._read(name, manifest.byte_count))
        if self.cached_count + len(entries) > _CACHED_ENTRIES_MAX:
            self.cached, self.cached_count = {}, 0
        self.cached[name] = entries
        self.cached_count += len(entries)
        return entries

    def write(self, entries: Sequence[Entry], *, schema_id: int) -> Manifest:
        """Write entries, at least one, into a manifest."""
        name = f"manifest-{random_bytes(16).hex()}-0"
        content = entries_to_bytes(entries)
        self.files.write(self.path(name), content)
        self.cached[name] = list(entries)
        self.cached_count += len(entries)
        return Manifest(
            {
                "_VERSION": _LIST_VERSION,
                "_FILE_NAME": name,
                "_FILE_SIZE": len(content),
                "_SCHEMA_ID": max(schema_id, *(each.file.schema_id for each in entries)),
                **_counts(entries),
                "_PARTITION_STATS": self.partition_bounds(entries),
            }
        )

    def write_all(self, entries: Sequence[Entry], *, schema_id: int) -> list[Manifest]:
        """Write entries into as many manifests as needed to keep each small."""
        return [
            self.write(entries[start : start + _ENTRIES_MAX], schema_id=schema_id)
            for start in range(0, len(entries), _ENTRIES_MAX)
        ]

    def write_list(self, manifests: Sequence[Manifest]) -> tuple[str, int]:
        """Write a list of manifests; return its name and size."""
        name = f"manifest-list-{random_bytes(16).hex()}-0"
        content = _to_avro(MANIFEST_FILE_META_SCHEMA, [each.record for each in manifests])
        self.files.write(self.path(name), content)
        return name, len(content)

    def _read(self, name: str, byte_count: int | None) -> bytes:
        try:
            data = self.files.read(self.path(name))
        except FileNotFoundError as fault:
            raise CorruptFileError(
                f"The manifest {self.path(name)} is missing.",
                hint="The snapshot expired while it was read: read a newer one.",
            ) from fault
        # Avro does not notice: a file that is cut after a block is a valid one with less in it.
        if byte_count not in (None, len(data)):
            raise CorruptFileError(
                f"The manifest {self.path(name)} is damaged: it has {len(data)} bytes "
                f"instead of {byte_count}.",
                hint="Restore it from a copy; `headwater audit` names all damaged files.",
            )
        return data


def _counts(entries: Sequence[Entry]) -> dict[str, Value]:
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    totals = {entry.bucket_count for entry in entries}
    # A single fixed bucket count lets readers find the bucket of a key.
    total = totals.pop() if len(totals) == 1 else -1
    deleted = sum(entry.kind == DELETE for entry in entries)
    return {
        "_NUM_ADDED_FILES": len(entries) - deleted,
        "_NUM_DELETED_FILES": deleted,
        "_MIN_BUCKET": min(buckets),
        "_MAX_BUCKET": max(buckets),
        "_MIN_LEVEL": min(levels),
        "_MAX_LEVEL": max(levels),
        "_TOTAL_BUCKETS": total if total > 0 else None,
    }


def _to_avro(schema: dict[str, object], records: Sequence[Record]) -> bytes:
    buffer = BytesIO()
    fastavro.writer(buffer, schema, records, codec=_CODEC)
    return buffer.getvalue()


def _from_avro(data: bytes) -> Iterator[Record]:
    with decoded("a Paimon table", SchemaParseException, ZstdError):
        records = list(fastavro.reader(BytesIO(data)))
    for record in records:
        assert isinstance(record, dict)
        yield record


def _file_record(record: Record) -> Record:
    node = record["_FILE"]
    assert isinstance(node, dict)
    made = node.get("_CREATION_TIME")
    if isinstance(made, datetime):
        node["_CREATION_TIME"] = round(made.timestamp() * 1000)
    return node


def _int(record: Record, key: str) -> int:
    value = record.get(key)
    if not isinstance(value, int):
        raise _misses(key)
    return value


def _bytes(record: Record, key: str) -> bytes:
    value = record.get(key)
    if not isinstance(value, bytes):
        raise _misses(key)
    return value


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise _misses(key)
    return value


def _misses(key: str) -> CorruptFileError:
    return CorruptFileError(
        f"A manifest is damaged: an entry has no {key}.",
        hint="Restore its metadata files from a copy; `headwater audit` names them.",
    )
