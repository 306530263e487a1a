"""A part of a lake snapshot that one task reads: a plain value, and its versioned JSON form."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model.predicate import Literal
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of, text_of

UNKNOWN_BUCKET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """The range of a column's values in a file; None: unknown, or all are null.

    Bounds hold for all rows of the file, including deleted ones. Text and bytes may be shortened: a
    bound need not be a value of the column. Floats have bounds only if none is NaN, and zero bounds
    are signed so that both zeros lie between them. Times of day are in milliseconds: finer ones lie
    between bounds that are rounded away from them. Columns of nested types have no bounds.
    """

    column_id: int
    lower: Literal
    """Not above the lowest value, in the form in which filters write literals."""
    upper: Literal
    """Not below the highest value."""
    null_count: int | None = None
    """Number of nulls; None: unknown. If the file lacks the column, all rows are null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """A data file, described for engines that read files themselves."""

    path: str
    """A local path, or a location with its scheme (`file://`, `s3://`); not percent-encoded."""
    row_count: int
    byte_count: int
    is_plain: bool
    """Whether its rows are those of the table as they are: no deletes, no older schema."""
    format: str = "parquet"
    names: tuple[tuple[int, str], ...] | None = None
    """Column names in the file by column id; any other column is null. None if only the format's
    own reader can read or convert them."""
    stands_alone: bool = False
    """Whether its current rows are known from it and from `deletes` alone."""
    deletes: tuple[str, ...] = ()
    """Parquet files of deleted positions: columns `file_path` and `pos`. They may also name
    positions of other files."""
    bounds: tuple[ColumnBounds, ...] = ()
    """Known column ranges; a column not listed may hold anything. A file that does not stand
    alone may be skipped only by bounds of the primary key: without its newer rows, older ones
    would come back."""
    payload: bytes = field(default=b"", repr=False)
    """What the format's own reader needs to know about this file."""

    @property
    def is_native(self) -> bool:
        """Tell whether an engine can read the file by itself, using `names` and `deletes`."""
        return self.stands_alone and self.names is not None and self.format == "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSplit:
    """The files of a snapshot that one task reads, all of one partition and bucket."""

    format: str
    snapshot_id: int
    bucket: int
    """The bucket, or `UNKNOWN_BUCKET` if the format does not keep rows by bucket."""
    partition: tuple[tuple[str, str], ...]
    """Every partition key with its value, as text in the form of partition names."""
    files: tuple[LakeFile, ...]
    payload: bytes = field(repr=False)
    """What the format's own reader also needs; it does not depend on which files there are, so
    files that stand alone can be left out of a split."""

    @property
    def row_count(self) -> int:
        """Rows in the files, including deleted ones."""
        return sum(file.row_count for file in self.files)


# The JSON form of literals: plain where JSON has the type, otherwise tagged with its type.


def literal_to_json(value: Literal) -> Json:
    """Encode a literal; floats as hexadecimal text, which is exact."""
    match value:
        case float():
            return {"float": value.hex()}
        case bytes():
            return {"bytes": b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case _:
            return value


def literal_from_json(node: Json) -> Literal:
    """Decode a literal, or raise `ValueError`."""
    match node:
        case bool() | int() | str() | None:
            return node
        case {"float": str(text)}:
            return _float(text)
        case {"bytes": str(text)}:
            return b64decode(text, validate=True)
        case {"decimal": str(text)}:
            return _decimal(text)
        case _:
            raise ValueError(f"{node} is not a literal")


def _float(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        raise ValueError(f"{text} is not a float") from None


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text} is not a decimal") from None
    # Not a bound: NaN compares with nothing, and comparing a signalling NaN fails.
    if value.is_nan():
        raise ValueError(f"{text} is not a decimal")
    return value


# The JSON form of lake splits: part of union-read documents, with a version of its own.

Node = Mapping[str, Json]
_VERSION = 2


def split_to_bytes(split: LakeSplit) -> bytes:
    """Encode a split in a form that later versions can read."""
    node = {"version": _VERSION, **lake_document(split)}
    return json.dumps(node, separators=(",", ":")).encode()


def split_from_bytes(data: bytes) -> LakeSplit:
    """Decode a split, or raise CorruptFileError."""
    try:
        node = object_of(document_of(data), what="split")
        if int_of(node, "version") != _VERSION:
            raise CorruptFileError(
                f"A lake split has version {node['version']}, but this program reads "
                f"version {_VERSION}.",
                hint="Use the same version of Headwater for planning and reading splits.",
            )
        return lake_of_document(node)
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A lake split cannot be read: {fault}.") from fault


def lake_document(lake: LakeSplit) -> dict[str, Json]:
    """Encode the files that a split reads."""
    return {
        "format": lake.format,
        "snapshot_id": lake.snapshot_id,
        "bucket": lake.bucket,
        "partition": [[key, value] for key, value in lake.partition],
        "files": [_file_document(file) for file in lake.files],
        "payload": b64encode(lake.payload).decode(),
    }


def _file_document(file: LakeFile) -> Json:
    return {
        "path": file.path,
        "format": file.format,
        "rows": file.row_count,
        "bytes": file.byte_count,
        "is_plain": file.is_plain,
        "stands_alone": file.stands_alone,
        "names": None if file.names is None else [[number, name] for number, name in file.names],
        "deletes": list(file.deletes),
        "bounds": [_bounds_document(each) for each in file.bounds],
        "payload": b64encode(file.payload).decode(),
    }


def _bounds_document(bounds: ColumnBounds) -> Json:
    return {
        "column_id": bounds.column_id,
        "lower": literal_to_json(bounds.lower),
        "upper": literal_to_json(bounds.upper),
        "nulls": bounds.null_count,
    }


def lake_of_document(node: Node) -> LakeSplit:
    """Decode the files that a split reads; raises `ValueError` or `InvalidTableError`."""
    return LakeSplit(
        format=text_of(node, "format"),
        snapshot_id=int_of(node, "snapshot_id"),
        bucket=int_of(node, "bucket"),
        partition=tuple(map(_pair, list_of(node, "partition"))),
        files=tuple(_file(object_of(each, what="file")) for each in list_of(node, "files")),
        payload=_bytes_of(node, "payload"),
    )


def _file(node: Node) -> LakeFile:
    names = None if node.get("names") is None else tuple(map(_name, list_of(node, "names")))
    return LakeFile(
        path=text_of(node, "path"),
        format=text_of(node, "format"),
        row_count=int_of(node, "rows"),
        byte_count=int_of(node, "bytes"),
        is_plain=flag_of(node, "is_plain"),
        stands_alone=flag_of(node, "stands_alone"),
        names=names,
        deletes=tuple(map(_text, list_of(node, "deletes"))),
        bounds=tuple(_bounds(object_of(each, what="bound")) for each in list_of(node, "bounds")),
        payload=_bytes_of(node, "payload"),
    )


def _bounds(node: Node) -> ColumnBounds:
    return ColumnBounds(
        column_id=int_of(node, "column_id"),
        lower=literal_from_json(node.get("lower")),
        upper=literal_from_json(node.get("upper")),
        null_count=int_or_none(node, "nulls"),
    )


def _name(node: Json) -> tuple[int, str]:
    match node:
        case [int(number), str(name)]:
            return number, name
        case _:
            raise ValueError(f"{node} is not a column reference")


def _pair(node: Json) -> tuple[str, str]:
    match node:
        case [str(key), str(value)]:
            return key, value
        case _:
            raise ValueError(f"{node} is not a partition value")


def _text(node: Json) -> str:
    if not isinstance(node, str):
        raise ValueError(f"{node} is not text")  # noqa: TRY004 - told as all that is malformed
    return node


def int_or_none(node: Node, key: str) -> int | None:
    """A whole number, or None if absent."""
    return None if node.get(key) is None else int_of(node, key)


def flag_of(node: Node, key: str) -> bool:
    """A boolean."""
    match node.get(key):
        case bool(flag):
            return flag
        case other:
            raise ValueError(f"'{key}' is {other}, but should be true or false")


def _bytes_of(node: Node, key: str) -> bytes:
    return b64decode(text_of(node, key), validate=True)
