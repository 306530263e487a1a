"""What travels between the driver and its workers: plain values with a form in JSON."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from headwater.errors import CorruptFileError, InvalidTableError, LakeTableDiffersError
from headwater.lake.iceberg.guard import opened_io
from headwater.lake.iceberg.layout import COLUMN_IDS, ColumnIds, column_ids_of
from headwater.lake.iceberg.options import PLACES
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of

PartitionField = bool | int | float | str | bytes | None
_COUNTS = ("column_sizes", "value_counts", "null_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Describe a table to those who write its files and cannot ask its catalog."""

    location: str
    schema: Schema
    spec: PartitionSpec
    ids: ColumnIds
    properties: Mapping[str, str]
    io_properties: Mapping[str, str] = field(repr=False)
    """What reaching its files takes beside the configuration of the lake, e.g. lent credentials."""

    @classmethod
    def of(cls, table: Table, config: Mapping[str, str]) -> "Place":
        """Describe a table as it is now."""
        ids = column_ids_of(table.properties)
        if ids is None:
            raise LakeTableDiffersError(
                f"The Iceberg table {'.'.join(table.name())} was made by others, and its columns"
                " are not matched with those of the table yet."
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
        """Return what reads and writes files of the table."""
        return opened_io(self.location, config, self.io_properties)

    @property
    def naming(self) -> dict[str, str]:
        """Return the properties that decide how new files are called, none of which is code."""
        return {
            name: value
            for name, value in self.properties.items()
            if name in PLACES or name.startswith("write.object-storage.")
        }

    def to_json(self) -> Json:
        """Write the place in a form that travels."""
        return {
            "location": self.location,
            "schema": self.schema.model_dump_json(),
            "spec": self.spec.model_dump_json(),
            "properties": dict(self.properties),
            "io": dict(self.io_properties),
        }


def lent(table: Table, config: Mapping[str, str]) -> dict[str, str]:
    """Return what reaching the files of a table takes beside the configuration of the lake."""
    # REST catalogs put the very object there that signs their requests, which no worker makes.
    texts = {name: value for name, value in table.io.properties.items() if isinstance(value, str)}
    return {name: value for name, value in texts.items() if config.get(name) != value}


def place_from_json(node: Json) -> Place:
    """Read a place from its form in JSON."""
    held = object_of(node, what="place")
    properties = texts_of(held, "properties")
    ids = column_ids_of(properties)
    if ids is None:
        raise CorruptFileError(f"The description of an Iceberg table lacks '{COLUMN_IDS}'.")
    return Place(
        location=text_of(held, "location"),
        schema=Schema.model_validate_json(text_of(held, "schema")),
        spec=PartitionSpec.model_validate_json(text_of(held, "spec")),
        ids=ids,
        properties=properties,
        io_properties=texts_of(held, "io"),
    )


def packed(node: Mapping[str, Json]) -> bytes:
    """Write a node as the payload of a task, result or split."""
    return json.dumps(node, separators=(",", ":")).encode()


def unpacked(payload: bytes) -> Mapping[str, Json]:
    """Read the payload of a task, result or split."""
    try:
        return object_of(json.loads(payload), what="payload")
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A payload for Iceberg cannot be read: {fault}") from fault


def texts_of(node: Mapping[str, Json], name: str) -> dict[str, str]:
    """Return a map of texts."""
    found = object_of(node.get(name), what=name)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def file_to_json(file: DataFile, *, bounded: frozenset[int] | None = None) -> Json:
    """Write what the metadata says of a file; of fields, all or only the bounds of some."""
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
    """Read what the metadata is to say of a file."""
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
            raise CorruptFileError(f"{node} is no value of a partition.")


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
