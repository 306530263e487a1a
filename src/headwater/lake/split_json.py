"""The JSON form of lake splits: part of the documents of union reads, and versioned by itself."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.lake.literal_json import literal_from_json, literal_to_json
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of, text_of

Node = Mapping[str, Json]
_VERSION = 2


def split_to_bytes(split: LakeSplit) -> bytes:
    """Write a split in a form that later versions can read."""
    node = {"version": _VERSION, **lake_document(split)}
    return json.dumps(node, separators=(",", ":")).encode()


def split_from_bytes(data: bytes) -> LakeSplit:
    """Read a split, or say that it cannot be read."""
    try:
        node = object_of(document_of(data), what="split")
        if int_of(node, "version") != _VERSION:
            raise CorruptFileError(
                f"A lake split has version {node['version']}, not {_VERSION}.",
                hint="Use the same version of Headwater where splits are planned and read.",
            )
        return lake_of_document(node)
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A lake split cannot be read: {fault}.") from fault


def lake_document(lake: LakeSplit) -> dict[str, Json]:
    """Write the files that a split reads."""
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
    """Read the files that a split reads; raises `ValueError` or `InvalidTableError`."""
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
            raise ValueError(f"{node} names no column")


def _pair(node: Json) -> tuple[str, str]:
    match node:
        case [str(key), str(value)]:
            return key, value
        case _:
            raise ValueError(f"{node} is no partition value")


def _text(node: Json) -> str:
    if not isinstance(node, str):
        raise ValueError(f"{node} is no text")  # noqa: TRY004 - told as all that is malformed
    return node


def int_or_none(node: Node, key: str) -> int | None:
    """Return a whole number, or None where there is none."""
    return None if node.get(key) is None else int_of(node, key)


def flag_of(node: Node, key: str) -> bool:
    """Return what is true or false."""
    match node.get(key):
        case bool(flag):
            return flag
        case other:
            raise ValueError(f"'{key}' is {other}, neither true nor false")


def _bytes_of(node: Node, key: str) -> bytes:
    return b64decode(text_of(node, key), validate=True)
