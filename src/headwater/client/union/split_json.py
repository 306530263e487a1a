"""The JSON form of splits and plans, for engines that share them out by other means than pickle.

The form is part of the public interface: `docs/reference/split-json.md` describes it.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

from headwater.client.reading.filters import Filter
from headwater.client.union.split import Pruned, ReadPlan, Tier, UnionSplit
from headwater.client.union.token import token_text
from headwater.client.union.view import TableView
from headwater.client.union.wording import filter_text
from headwater.errors import InvalidTableError, RequestError
from headwater.lake.literal_json import literal_from_json, literal_to_json
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of, type_to_json

VERSION = 1

Node = Mapping[str, Json]


def plan_document(
    view: TableView,
    plan: ReadPlan,
    *,
    columns: Sequence[str] | None = None,
    wanted: Filter | None = None,
) -> dict[str, Json]:
    """Write a plan with what a worker has to know beside its split."""
    names = view.table.schema.names if columns is None else tuple(columns)
    snapshot = view.snapshot
    return {
        "version": VERSION,
        "table": str(view.table.path),
        "table_id": view.table.table_id,
        "schema_id": view.table.schema_id,
        "token": token_text(view),
        "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "primary_key": list(view.table.schema.primary_key),
        "columns": [_column(view, name) for name in names],
        "filter": None if wanted is None else filter_text(wanted),
        "splits": [split_document(split) for split in plan.splits],
        "pruned": [_pruned_document(each) for each in plan.pruned],
        "notes": list(view.notes),
    }


def split_document(split: UnionSplit) -> dict[str, Json]:
    """Write a split."""
    return {
        "version": VERSION,
        "tier": str(split.tier),
        "partition": split.partition,
        "bucket": split.bucket,
        "lake": None if split.lake is None else _lake_document(split.lake),
        "log": _log_document(split),
    }


def split_of_document(document: Json) -> UnionSplit:
    """Read a split, or say what is wrong with it."""
    try:
        node = object_of(document, what="split")
        version = int_of(node, "version")
        if version != VERSION:
            raise RequestError(
                f"The split has version {version}, and this Headwater reads {VERSION}.",
                hint="Use the same version of Headwater where splits are planned and read.",
            )
        return _split(node)
    except (ValueError, InvalidTableError) as fault:
        raise RequestError(
            f"The split cannot be read: {fault}.", hint="docs/reference/split-json.md shows one."
        ) from fault


# ---- writing


def _column(view: TableView, name: str) -> Json:
    column = view.table.schema.column(name)
    return {"id": column.column_id, "name": name, "type": type_to_json(column.type)}


def _lake_document(lake: LakeSplit) -> Json:
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


def _log_document(split: UnionSplit) -> Json:
    if split.log is None or split.log_bucket is None:
        return None
    return {
        "partition_id": split.log_bucket.partition_id,
        "bucket": split.log_bucket.bucket,
        "start": split.log.start,
        "end": split.log.end,
        "reads_state": split.reads_state,
    }


def _pruned_document(each: Pruned) -> Json:
    return {"what": each.what, "why": each.why, "rows": each.row_count, "bytes": each.byte_count}


# ---- reading


def _split(node: Node) -> UnionSplit:
    tier = Tier(text_of(node, "tier"))
    lake = None if node.get("lake") is None else _lake(object_of(node["lake"], what="lake"))
    log = None if node.get("log") is None else object_of(node["log"], what="log")
    if (lake is None) != (tier is Tier.LOG_ONLY) or (log is None) != (tier is Tier.LAKE_ONLY):
        raise ValueError(f"'lake' and 'log' are not those of a {tier} split")
    split = UnionSplit(
        tier=tier,
        partition=_text_or_none(node, "partition"),
        bucket=int_of(node, "bucket"),
        lake=lake,
    )
    return split if log is None else _with_log(split, log)


def _with_log(split: UnionSplit, log: Node) -> UnionSplit:
    start, end = int_of(log, "start"), int_of(log, "end")
    if not 0 <= start <= end:
        raise ValueError(f"{start} to {end} are no offsets")
    return UnionSplit(
        tier=split.tier,
        partition=split.partition,
        bucket=split.bucket,
        lake=split.lake,
        log_bucket=LakeBucket(_int_or_none(log, "partition_id"), int_of(log, "bucket")),
        log=OffsetRange(start, end),
        reads_state=_flag_of(log, "reads_state"),
    )


def _lake(node: Node) -> LakeSplit:
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
        is_plain=_flag_of(node, "is_plain"),
        stands_alone=_flag_of(node, "stands_alone"),
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
        null_count=_int_or_none(node, "nulls"),
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


def _text_or_none(node: Node, key: str) -> str | None:
    return None if node.get(key) is None else text_of(node, key)


def _int_or_none(node: Node, key: str) -> int | None:
    return None if node.get(key) is None else int_of(node, key)


def _flag_of(node: Node, key: str) -> bool:
    match node.get(key):
        case bool(flag):
            return flag
        case other:
            raise ValueError(f"'{key}' is {other}, neither true nor false")


def _bytes_of(node: Node, key: str) -> bytes:
    return b64decode(text_of(node, key), validate=True)
