"""A part of a lake snapshot that one task reads; a plain value with a versioned form."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.lake.literal_json import literal_from_json, literal_to_json
from headwater.model.predicate import Literal
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of

UNKNOWN_BUCKET = -1
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Say between which values a column of a file lies; None: not known, or all are null.

    They hold for all rows of the file, deleted ones included. Text and bytes may be shortened: a
    bound need not be a value of the column. Floats have bounds only where it is known that none
    of them is NaN, and zeros in bounds are so signed that both zeros lie between them. Times of
    the day are in milliseconds: finer ones lie between bounds that are rounded away from them.
    Columns of nested types have no bounds.
    """

    column_id: int
    lower: Literal
    """Not above the lowest value, in the form in which filters write literals."""
    upper: Literal
    """Not below the highest value."""
    null_count: int | None = None
    """How many rows are null; None: not known. All rows of a column that the file lacks are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """Name a data file, for engines that read files themselves."""

    path: str
    """A path on this machine, or a location with its scheme (`file://`, `s3://`); not quoted."""
    row_count: int
    byte_count: int
    is_plain: bool
    """Whether its rows are those of the table as they are: no deletes, no older schema."""
    format: str = "parquet"
    names: tuple[tuple[int, str], ...] | None = None
    """What the columns are called in the file, by their ids: any other is null there. None where
    only the format's own reader can tell, or can make of them what the table holds."""
    stands_alone: bool = False
    """Whether no other file than those of `deletes` tells which of its rows are current."""
    deletes: tuple[str, ...] = ()
    """Parquet files of positions that are deleted: columns `file_path` and `pos`. They may name
    positions of other files too."""
    bounds: tuple[ColumnBounds, ...] = ()
    """What is known of its columns; those that are not here may hold anything. A file that does
    not stand alone may be left out only by bounds of the primary key: without its newer rows,
    older ones would come back."""
    payload: bytes = b""
    """What the format's own reader needs to know of this file."""

    @property
    def is_native(self) -> bool:
        """Tell whether an engine can read the file by itself, by `names` and `deletes`."""
        return self.stands_alone and self.names is not None and self.format == "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSplit:
    """Name the files of a snapshot that one task reads, all of one partition and bucket."""

    format: str
    snapshot_id: int
    bucket: int
    """The bucket, or `UNKNOWN_BUCKET` where the format does not keep rows by bucket."""
    partition: tuple[tuple[str, str], ...]
    """Every partition key with its value, as text in the form of partition names."""
    files: tuple[LakeFile, ...]
    payload: bytes
    """What the format's own reader needs beside; nothing in it depends on which files there are,
    so that files that stand alone can be left out of a split."""

    @property
    def row_count(self) -> int:
        """Return the rows of the files, deleted ones included."""
        return sum(file.row_count for file in self.files)

    def to_bytes(self) -> bytes:
        """Write the split in a form that later versions can read."""
        node: dict[str, Json] = {
            "version": _VERSION,
            "format": self.format,
            "snapshot_id": self.snapshot_id,
            "bucket": self.bucket,
            "partition": [[key, value] for key, value in self.partition],
            "files": [_file_to_json(file) for file in self.files],
            "payload": b64encode(self.payload).decode(),
        }
        return json.dumps(node, separators=(",", ":")).encode()


def split_from_bytes(data: bytes) -> LakeSplit:
    """Read a split, or say that it cannot be read."""
    try:
        node = object_of(json.loads(data), what="split")
        if int_of(node, "version") != _VERSION:
            raise CorruptFileError(
                f"A lake split has version {node['version']}, not {_VERSION}.",
                hint="Use the same version of Headwater where splits are planned and read.",
            )
        return LakeSplit(
            format=text_of(node, "format"),
            snapshot_id=int_of(node, "snapshot_id"),
            bucket=int_of(node, "bucket"),
            partition=tuple(_pair(each) for each in list_of(node, "partition")),
            files=tuple(_file(each) for each in list_of(node, "files")),
            payload=b64decode(text_of(node, "payload"), validate=True),
        )
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A lake split cannot be read: {fault}.") from fault


def _pair(node: Json) -> tuple[str, str]:
    match node:
        case [str(key), str(value)]:
            return key, value
        case _:
            raise ValueError(f"{node} is no partition value")


def _file_to_json(file: LakeFile) -> Json:
    return {
        "path": file.path,
        "row_count": file.row_count,
        "byte_count": file.byte_count,
        "is_plain": file.is_plain,
        "format": file.format,
        "names": None if file.names is None else [[each, name] for each, name in file.names],
        "stands_alone": file.stands_alone,
        "deletes": list(file.deletes),
        "bounds": [_bounds_to_json(each) for each in file.bounds],
        "payload": b64encode(file.payload).decode(),
    }


def _file(node: Json) -> LakeFile:
    held = object_of(node, what="file")
    names = None if held.get("names") is None else list_of(held, "names")
    return LakeFile(
        path=text_of(held, "path"),
        row_count=int_of(held, "row_count"),
        byte_count=int_of(held, "byte_count"),
        is_plain=_flag_of(held, "is_plain"),
        format=text_of(held, "format"),
        names=None if names is None else tuple(_name(each) for each in names),
        stands_alone=_flag_of(held, "stands_alone"),
        deletes=tuple(_text(each) for each in list_of(held, "deletes")),
        bounds=tuple(_bounds(each) for each in list_of(held, "bounds")),
        payload=b64decode(text_of(held, "payload"), validate=True),
    )


def _bounds_to_json(bounds: ColumnBounds) -> Json:
    lower, upper = literal_to_json(bounds.lower), literal_to_json(bounds.upper)
    return [bounds.column_id, lower, upper, bounds.null_count]


def _bounds(node: Json) -> ColumnBounds:
    match node:
        case [int(column), lower, upper, int() | None as nulls]:
            return ColumnBounds(
                column_id=column,
                lower=literal_from_json(lower),
                upper=literal_from_json(upper),
                null_count=nulls,
            )
        case _:
            raise ValueError(f"{node} bounds no column")


def _name(node: Json) -> tuple[int, str]:
    match node:
        case [int(column), str(name)]:
            return column, name
        case _:
            raise ValueError(f"{node} names no column")


def _flag_of(node: Mapping[str, Json], key: str) -> bool:
    match node.get(key):
        case bool(flag):
            return flag
        case other:
            raise ValueError(f"{other} is no flag")


def _text(node: Json) -> str:
    match node:
        case str():
            return node
        case _:
            raise ValueError(f"{node} is no text")
