"""Access files of an Iceberg table under guard, and describe them to workers as plain values."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from urllib.parse import urlsplit
from uuid import UUID

from pyarrow import fs
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.io import FileIO, InputFile, OutputFile, load_file_io
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties, Record

from headwater import errors
from headwater.lake.iceberg.layout import COLUMN_IDS, ColumnIds, column_ids_of
from headwater.lake.iceberg.options import CODE, PLACES
from headwater.lake.iceberg.options import PLACES as PLACE_PROPERTIES
from headwater.lake.options import AllowedPlaces, names_code
from headwater.lake.spi import PartitionValues, WriteTask
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of
from headwater.runtime.clock import random_bytes
from headwater.runtime.events import Events
from headwater.store.local import sync_path

# A guard between pyiceberg and a lake table that anybody may have written to.
#
# pyiceberg opens files with the table's properties on top of the catalog's, and names new files by
# a class that a property may name. Here files are opened only with the options of this process and
# what a REST catalog lends; a table that names code, or places that are not allowed, is rejected
# when it is loaded, before anything of it is used.

Answered = Callable[[Identifier, TableResponse], Table]


def guarded(catalog: Catalog, config: Mapping[str, str]) -> Catalog:
    """Make a catalog check what it loads, also where pyiceberg loads a table by itself."""
    places = AllowedPlaces.of(config)
    is_lending = isinstance(catalog, RestCatalog)
    own = {
        name: value
        for name, value in catalog.properties.items()
        if name in config or not names_code(name)
    }
    # An attribute of the catalog object comes before the method of its class.
    load_table, load_io = catalog.load_table, catalog._load_file_io  # noqa: SLF001
    catalog.properties = own

    def checked_table(identifier: str | Identifier) -> Table:
        return _checked(load_table(identifier), config)

    def checked_io(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        lent = without_code(properties) if is_lending else {}
        inner = load_io(lent, location)
        return GuardedIO(inner, places) if places.roots else inner

    members = vars(catalog)
    members["load_table"] = checked_table
    members["_load_file_io"] = checked_io
    if isinstance(catalog, RestCatalog):
        for name in ("_response_to_table", "_response_to_staged_table"):
            members[name] = _lending_only(cast("Answered", getattr(catalog, name)))
    return catalog


def _lending_only(answered: Answered) -> Answered:
    """Open files with what a REST catalog lends, not with the table's properties."""

    def table_of(identifier: Identifier, response: TableResponse) -> Table:
        bare = response.metadata.model_copy(update={"properties": {}})
        table = answered(identifier, response.model_copy(update={"metadata": bare}))
        table.metadata = response.metadata
        return table

    return table_of


def _checked(table: Table, config: Mapping[str, str]) -> Table:
    """Reject a table that names code to run, or places that are not allowed."""
    name = ".".join(table.name())
    for each in CODE:
        if each in table.properties:
            raise errors.LakeNotAllowedError(
                f"The Iceberg table {name} has the property '{each}', which names code to run:"
                f" {str(table.properties[each])[:200]!r}.",
                hint=(
                    f"Remove it: ALTER TABLE … UNSET TBLPROPERTIES ('{each}'), or in "
                    f"pyiceberg transaction.remove_properties('{each}'). Only the lake "
                    "options of this process decide which code it runs."
                ),
            )
    places = AllowedPlaces.of(config, location=table.location())
    places.check(table.location(), what=f"The location of the Iceberg table {name}")
    for each in PLACE_PROPERTIES:
        if each in table.properties:
            what = f"The property '{each}' of the Iceberg table {name}"
            places.check(table.properties[each], what=what)
    return table


def without_code(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties for reaching files, without those that name code."""
    return {name: value for name, value in properties.items() if not names_code(name)}


def opened_io(location: str, config: Mapping[str, str], lent: Mapping[str, str]) -> FileIO:
    """Open the table's file system, limited to allowed places."""
    inner = load_file_io({**config, **without_code(lent)}, location)
    return GuardedIO(inner, AllowedPlaces.of(config, location=location))


class GuardedIO(FileIO):
    """Reads, writes and deletes files at allowed places only."""

    def __init__(self, inner: FileIO, places: AllowedPlaces) -> None:
        super().__init__(inner.properties)
        self.inner = inner
        self._places = places

    def new_input(self, location: str) -> InputFile:
        """Open a file to be read."""
        return self.inner.new_input(self.check(location))

    def new_output(self, location: str) -> OutputFile:
        """Open a file to be written."""
        return self.inner.new_output(self.check(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        self.check(location if isinstance(location, str) else location.location)
        self.inner.delete(location)

    def check(self, location: str) -> str:
        """Return a location if it is allowed, otherwise raise."""
        self._places.check(location, what="A file of the Iceberg table")
        return location


# Files of a lake by location: synced, listed and removed.

_events = Events("lake.iceberg")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file in a listing."""

    location: str
    byte_count: int
    modified_ms: int


def new_id() -> str:
    """Make a name that no other file has."""
    return str(UUID(bytes=random_bytes(16), version=4))


def local_path(location: str) -> str | None:
    """The local path of a location; None if it is remote."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return parts.path
    return None if parts.scheme else location


def settle(locations: Iterable[str]) -> None:
    """Wait until files and the directories that name them are on disk.

    Object stores and network file systems answer when a file is safe.
    """
    paths = [path for path in map(local_path, locations) if path is not None]
    for path in [*paths, *sorted({os.path.dirname(path) for path in paths})]:  # noqa: PTH120
        sync_path(path)


def remove(io: FileIO, locations: Iterable[str]) -> int:
    """Remove files and return how many existed; one that cannot be removed is left."""
    removed = 0
    for location in locations:
        try:
            io.delete(location)
            removed += 1
        except FileNotFoundError:
            continue
        except OSError as fault:
            _events.warning("file left behind", location=location, fault=str(fault))
    return removed


def listed(io: FileIO, location: str) -> Iterator[ListedFile]:
    """Yield every file below a location."""
    prefix, system, path = _opened(io, location)
    with suppress(FileNotFoundError):
        for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
            if info.is_file:
                yield ListedFile(
                    location=f"{prefix}{info.path}",
                    byte_count=info.size,
                    modified_ms=(info.mtime_ns or 0) // 1_000_000,
                )


def remove_all(io: FileIO, location: str) -> None:
    """Remove everything below a location."""
    _, system, path = _opened(io, location)
    with suppress(FileNotFoundError):
        system.delete_dir(path)


def _opened(io: FileIO, location: str) -> tuple[str, fs.FileSystem, str]:
    """Split a location into its prefix, the file system, and the path in it."""
    if isinstance(io, GuardedIO):
        io.check(location)
        return _opened(io.inner, location)
    if isinstance(io, FsspecFileIO):
        scheme, _, path = location.partition("://")
        return f"{scheme}://", fs.PyFileSystem(fs.FSSpecHandler(io.get_fs(scheme))), path
    assert isinstance(io, PyArrowFileIO), io
    scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
    return location.removesuffix(path), io.fs_by_scheme(scheme, netloc), path


# Changes of a table's metadata, sent to its catalog in one attempt.

_REMOVES_METADATA = "write.metadata.delete-after-commit.enabled"


def commit_updates(
    table: Table,
    *,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> TableMetadata:
    """Apply updates if the requirements hold; tries once, and raises what pyiceberg raises."""
    answer = table.catalog.commit_table(table, requirements, updates)
    settle([answer.metadata_location])
    if answer.metadata.properties.get(_REMOVES_METADATA) == "true":
        kept = {entry.metadata_file for entry in answer.metadata.metadata_log}
        held = {entry.metadata_file for entry in table.metadata.metadata_log}
        remove(table.io, held - kept)
    return answer.metadata


# Values that travel between the driver and its workers as JSON.

PartitionField = bool | int | float | str | bytes | None
_COUNTS = ("column_sizes", "value_counts", "null_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergPlace:
    """Describes a table to workers, which cannot ask its catalog."""

    location: str
    schema: Schema
    spec: PartitionSpec
    ids: ColumnIds
    properties: Mapping[str, str]
    io_properties: Mapping[str, str] = field(repr=False)
    """What reaching its files needs beyond the lake's configuration, e.g. lent credentials."""

    @classmethod
    def of(cls, table: Table, config: Mapping[str, str]) -> "IcebergPlace":
        """Describe a table as it is now."""
        ids = column_ids_of(table.properties)
        if ids is None:
            raise errors.LakeTableDiffersError(
                f"The Iceberg table {'.'.join(table.name())} was created by others, and "
                "its columns are not matched with those of the table yet."
            )
        return cls(
            location=table.location(),
            schema=table.schema(),
            spec=table.spec(),
            ids=ids,
            properties=table.properties,
            io_properties=lent(table, config),
        )

    def io(self, config: Mapping[str, str]) -> FileIO:
        """Open the table's file system."""
        return opened_io(self.location, config, self.io_properties)

    @property
    def naming(self) -> dict[str, str]:
        """The properties that decide how new files are named, without those that name code."""
        return {
            name: value
            for name, value in self.properties.items()
            if name in PLACES or name.startswith("write.object-storage.")
        }

    def to_json(self) -> Json:
        """Encode the place as JSON."""
        return {
            "location": self.location,
            "schema": self.schema.model_dump_json(),
            "spec": self.spec.model_dump_json(),
            "properties": dict(self.properties),
            "io": dict(self.io_properties),
        }


def lent(table: Table, config: Mapping[str, str]) -> dict[str, str]:
    """What reaching a table's files needs beyond the lake's configuration."""
    # REST catalogs put their request signer there, an object that no worker can make.
    texts = {name: value for name, value in table.io.properties.items() if isinstance(value, str)}
    return {name: value for name, value in texts.items() if config.get(name) != value}


def place_from_json(node: Json) -> IcebergPlace:
    """Decode a place from JSON."""
    held = object_of(node, what="place")
    properties = texts_of(held, "properties")
    ids = column_ids_of(properties)
    if ids is None:
        raise errors.CorruptFileError(f"The description of an Iceberg table lacks '{COLUMN_IDS}'.")
    return IcebergPlace(
        location=text_of(held, "location"),
        schema=Schema.model_validate_json(text_of(held, "schema")),
        spec=PartitionSpec.model_validate_json(text_of(held, "spec")),
        ids=ids,
        properties=properties,
        io_properties=texts_of(held, "io"),
    )


def packed(node: Mapping[str, Json]) -> bytes:
    """Encode a node as the payload of a task, result or split."""
    return json.dumps(node, separators=(",", ":")).encode()


def unpacked(payload: bytes) -> Mapping[str, Json]:
    """Decode the payload of a task, result or split."""
    try:
        return object_of(json.loads(payload), what="payload")
    except (ValueError, errors.InvalidTableError) as fault:
        raise errors.CorruptFileError(f"A payload for Iceberg cannot be read: {fault}") from fault


def texts_of(node: Mapping[str, Json], name: str) -> dict[str, str]:
    """Decode a map of texts."""
    found = object_of(node.get(name), what=name)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def file_to_json(file: DataFile, *, bounded: frozenset[int] | None = None) -> Json:
    """Encode a file's metadata entry, with the bounds of all fields or only of some."""
    counts = _COUNTS if bounded is None else ()
    return {
        "content": int(file.content),
        "path": file.file_path,
        "format": file.file_format.value,
        "spec_id": file.spec_id,
        "partition": [_value_to_json(file.partition[at]) for at in range(len(file.partition))],
        "rows": file.record_count,
        "bytes": file.file_size_in_bytes,
        "counts": [_counts_to_json(getattr(file, name)) for name in counts],
        "bounds": [_bounds_to_json(getattr(file, name), bounded) for name in _BOUNDS],
        "offsets": list(file.split_offsets or ()) if bounded is None else [],
    }


def file_from_json(node: Json) -> DataFile:
    """Decode a file's metadata entry."""
    held = object_of(node, what="file")
    counts = [_counts_from_json(each) for each in list_of(held, "counts")]
    sizes, values, nulls = counts or ({}, {}, {})
    lower, upper = (_bounds_from_json(each) for each in list_of(held, "bounds"))
    file = DataFile.from_args(
        content=DataFileContent(int_of(held, "content")),
        file_path=text_of(held, "path"),
        file_format=FileFormat(text_of(held, "format")),
        partition=Record(*map(_value_from_json, list_of(held, "partition"))),
        record_count=int_of(held, "rows"),
        file_size_in_bytes=int_of(held, "bytes"),
        column_sizes=sizes,
        value_counts=values,
        null_value_counts=nulls,
        nan_value_counts=None,
        lower_bounds=lower,
        upper_bounds=upper,
        key_metadata=None,
        split_offsets=list_of(held, "offsets"),
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = int_of(held, "spec_id")
    return file


def _value_to_json(value: PartitionField) -> Json:
    return {"bytes": b64encode(value).decode()} if isinstance(value, bytes) else value


def _value_from_json(node: Json) -> PartitionField:
    match node:
        case {"bytes": str(text)}:
            return b64decode(text)
        case bool() | int() | float() | str() | None:
            return node
        case _:
            raise errors.CorruptFileError(f"{node} is not a partition value.")


def _counts_to_json(counts: Mapping[int, int] | None) -> Json:
    return {str(field): count for field, count in (counts or {}).items()}


def _counts_from_json(node: Json) -> dict[int, int]:
    held = object_of(node, what="counts")
    return {int(field): int_of(held, field) for field in held}


def _bounds_to_json(bounds: Mapping[int, bytes] | None, only: frozenset[int] | None) -> Json:
    return {
        str(field): b64encode(bound).decode()
        for field, bound in (bounds or {}).items()
        if only is None or field in only
    }


def _bounds_from_json(node: Json) -> dict[int, bytes]:
    held = object_of(node, what="bounds")
    return {int(field): b64decode(text_of(held, field)) for field in held}


# What a writer gets: the table, and the files that may hold older rows of its bucket.

PATH_FIELD_ID = 2147483546
"""Id of the column in a delete file that names data files."""


class HeldFile(NamedTuple):
    """A live data file with the delete files that apply to it."""

    file: DataFile
    deletes: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """The table, and what the lake holds of the bucket."""

    place: IcebergPlace
    held: tuple[HeldFile, ...] = ()
    on: int | None = None
    """The snapshot that these files belong to."""

    def to_task(self, *, partition: PartitionValues, bucket: int) -> WriteTask:
        """Encode it as a task."""
        return WriteTask(
            partition=partition,
            bucket=bucket,
            payload=packed(
                {
                    "place": self.place.to_json(),
                    "on": self.on,
                    "held": held_to_json(self.held, keys=self.place.schema.identifier_field_ids),
                }
            ),
        )


def task_of(task: WriteTask) -> BucketTask:
    """Decode a task."""
    node = unpacked(task.payload)
    on = node.get("on")
    return BucketTask(
        place_from_json(node.get("place")),
        held_from_json(node),
        on if isinstance(on, int) else None,
    )


def held_to_json(held: Sequence[HeldFile], *, keys: Collection[int] = ()) -> Json:
    """Encode live files, with the bounds of some fields."""
    bounded = frozenset((PATH_FIELD_ID, *keys))
    return [
        {
            "file": file_to_json(file, bounded=bounded),
            "deletes": [file_to_json(each, bounded=bounded) for each in deletes],
        }
        for file, deletes in held
    ]


def held_from_json(node: Mapping[str, Json]) -> tuple[HeldFile, ...]:
    """Decode live files from the entry `held` of a node."""
    found = [object_of(each, what="held file") for each in list_of(node, "held")]
    return tuple(
        HeldFile(
            file_from_json(each.get("file")),
            tuple(file_from_json(delete) for delete in list_of(each, "deletes")),
        )
        for each in found
    )


def scoped_path(file: DataFile) -> str | None:
    """The only data file that a delete file applies to; None if there may be several."""
    lower = (file.lower_bounds or {}).get(PATH_FIELD_ID)
    upper = (file.upper_bounds or {}).get(PATH_FIELD_ID)
    is_one = lower is not None and lower == upper
    is_positions = file.content == DataFileContent.POSITION_DELETES
    return lower.decode() if is_one and is_positions and lower is not None else None
