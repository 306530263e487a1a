"""Manifests: the lists of data files that snapshots are made of, in Avro."""

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

from headwater.errors import CorruptFileError
from headwater.lake.damage import decoded
from headwater.lake.paimon.files import Files
from headwater.lake.paimon.snapshot import ListFile
from headwater.runtime.ids import random_bytes

ADD, DELETE = 0, 1
_VERSION = 2
_CODEC = "zstandard"
_CACHED_ENTRIES_MAX = 500_000
_ENTRIES_MAX = 10_000

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | Mapping[str, Value] | None"
Record: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class DataFile:
    """Describe a data file; what is not named here stays in the record as it came."""

    record: Record

    @property
    def name(self) -> str:
        """Return the name of the file within its bucket."""
        return _text(self.record, "_FILE_NAME")

    @property
    def row_count(self) -> int:
        """Return the rows of the file."""
        return _int(self.record, "_ROW_COUNT")

    @property
    def byte_count(self) -> int:
        """Return the size of the file."""
        return _int(self.record, "_FILE_SIZE")

    @property
    def delete_count(self) -> int:
        """Return how many rows say that a key is gone; all of them if nobody knows."""
        known = self.record.get("_DELETE_ROW_COUNT")
        return known if isinstance(known, int) else self.row_count

    @property
    def known_delete_count(self) -> int:
        """Return how many rows say that a key is gone; none if nobody knows."""
        known = self.record.get("_DELETE_ROW_COUNT")
        return known if isinstance(known, int) else 0

    @property
    def level(self) -> int:
        """Return the level: 0 is what was written last and may overlap."""
        return _int(self.record, "_LEVEL")

    @property
    def schema_id(self) -> int:
        """Return the schema that the file was written under."""
        return _int(self.record, "_SCHEMA_ID")

    @property
    def sequence_min(self) -> int:
        """Return the smallest sequence number of its rows."""
        return _int(self.record, "_MIN_SEQUENCE_NUMBER")

    @property
    def sequence_max(self) -> int:
        """Return the largest sequence number of its rows."""
        return _int(self.record, "_MAX_SEQUENCE_NUMBER")

    @property
    def external_path(self) -> str | None:
        """Return where the file lies if that is not below the table."""
        path = self.record.get("_EXTERNAL_PATH")
        return path if isinstance(path, str) else None

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Return the names of files that belong to this one."""
        names = self.record.get("_EXTRA_FILES")
        return tuple(str(name) for name in names) if isinstance(names, list) else ()

    def bounds_record(self, which: str) -> Record:
        """Return the bounds of keys or values as they stand in the record."""
        found = self.record[which]
        assert isinstance(found, Mapping)
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """Say that a data file joins or leaves the table."""

    kind: int
    partition: bytes
    bucket: int
    bucket_count: int
    file: DataFile

    @property
    def identity(self) -> tuple[bytes, int, int, str]:
        """Return what is the same where a file joins and where it leaves."""
        return (self.partition, self.bucket, self.file.level, self.file.name)

    def leaving(self) -> "Entry":
        """Return the entry by which the file leaves."""
        return Entry(DELETE, self.partition, self.bucket, self.bucket_count, self.file)

    def to_record(self) -> dict[str, Value]:
        """Write the entry as it stands in a manifest."""
        return {
            "_VERSION": _VERSION,
            "_KIND": self.kind,
            "_PARTITION": self.partition,
            "_BUCKET": self.bucket,
            "_TOTAL_BUCKETS": self.bucket_count,
            "_FILE": self.file.record,
        }


@dataclass(frozen=True, slots=True)
class Manifest:
    """Name a manifest file, with what a list of manifests tells of it."""

    record: Record

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return _text(self.record, "_FILE_NAME")

    @property
    def byte_count(self) -> int:
        """Return the size of the file."""
        return _int(self.record, "_FILE_SIZE")

    @property
    def deleted_count(self) -> int:
        """Return how many files leave the table by it."""
        return _int(self.record, "_NUM_DELETED_FILES")


def live_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return what is left when files that leave are taken from those that join."""
    live: dict[tuple[bytes, int, int, str], Entry] = {}
    for entry in entries:
        if entry.kind == ADD or live.pop(entry.identity, None) is None:
            live[entry.identity] = entry
    return list(live.values())


def entries_to_bytes(entries: Sequence[Entry]) -> bytes:
    """Write entries as a manifest file holds them."""
    return _to_avro(MANIFEST_ENTRY_SCHEMA, [entry.to_record() for entry in entries])


def entries_from_bytes(data: bytes) -> list[Entry]:
    """Read entries of a manifest file."""
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
class Manifests:
    """Read and write the manifests of one table; they never change, so they are kept."""

    files: Files
    directory: str
    partition_bounds: PartitionBounds
    cached: dict[str, list[Entry]] = field(default_factory=dict)
    cached_count: int = 0

    def path(self, name: str) -> str:
        """Return the path of a manifest or of a list of them."""
        return f"{self.directory}/{name}"

    def read_list(self, listed: ListFile) -> list[Manifest]:
        """Return the manifests that a list names."""
        data = self._read(listed.name, listed.byte_count)
        return [Manifest(record) for record in _from_avro(data)]

    def read(self, manifest: Manifest) -> list[Entry]:
        """Return the entries of a manifest."""
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
                "_VERSION": _VERSION,
                "_FILE_NAME": name,
                "_FILE_SIZE": len(content),
                "_SCHEMA_ID": max(schema_id, *(each.file.schema_id for each in entries)),
                **_counts(entries),
                "_PARTITION_STATS": self.partition_bounds(entries),
            }
        )

    def write_all(self, entries: Sequence[Entry], *, schema_id: int) -> list[Manifest]:
        """Write entries into as many manifests as keep each one small enough."""
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
                f"The manifest {self.path(name)} is gone.",
                hint="The snapshot was expired while it was read: read a newer one.",
            ) from fault
        # Avro does not tell: a file that is cut behind a block is a whole one with less in it.
        if byte_count not in (None, len(data)):
            raise CorruptFileError(
                f"The manifest {self.path(name)} is damaged: it has {len(data)} bytes of"
                f" {byte_count}.",
                hint="Restore it from a copy; `headwater audit` names all files that are damaged.",
            )
        return data


def _counts(entries: Sequence[Entry]) -> dict[str, Value]:
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    totals = {entry.bucket_count for entry in entries}
    # One count of buckets, if it is a fixed one, lets readers find the bucket of a key.
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
        hint="Restore the files of its metadata from a copy; `headwater audit` names them.",
    )
