"""Tokens: a position of a table as a text, which every engine takes and which outlives a view.

`hw1.` and the base64 (for URLs, unpadded) of a compact JSON document and its CRC-32.
"""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.errors import InvalidTableError, InvalidTokenError
from headwater.model import LakeBucket, OffsetRange, TablePath
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of, text_of
from headwater.read.view import TableView

PREFIX = "hw1."
TOKEN_LENGTH_MAX = 64 * 1024 * 1024
_FAMILY = "hw"
_CHECKSUM_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Name a position of a table, and the lake snapshot that was read for it."""

    path: TablePath
    table_id: int
    schema_id: int
    snapshot_id: int | None
    ends: Mapping[LakeBucket, int]
    """The offset of each bucket before which rows are read."""
    partitions: Mapping[int, str] = field(default_factory=dict)
    """Id and name of every partition that the storage had."""
    starts: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Where logs began of which only the log held the rows, if not at 0: what came before was
    not read."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which start of the storage wrote the row before each end, as far as that is known."""


def token_text(view: TableView) -> str:
    """Return the position of a view as a text; the same for equal positions."""
    return written(
        Token(
            path=view.table.path,
            table_id=view.table.table_id,
            schema_id=view.table.schema_id,
            snapshot_id=None if view.snapshot is None else view.snapshot.snapshot_id,
            ends={bucket: log.end for bucket, log in view.logs.items()},
            partitions=view.partitions,
            starts=_starts(view),
            written_by=view.written_by,
        )
    )


def _starts(view: TableView) -> dict[LakeBucket, int]:
    held = {} if view.snapshot is None else view.snapshot.ranges
    return {
        bucket: log.start
        for bucket, log in view.logs.items()
        if log.start > 0 and bucket not in held
    }


def written(token: Token) -> str:
    """Write a token."""
    node: dict[str, Json] = {
        "database": token.path.database,
        "table": token.path.table,
        "table_id": token.table_id,
        "schema_id": token.schema_id,
        "snapshot_id": token.snapshot_id,
        "ends": _ends(token, None),
        "partitions": [
            [number, name, _ends(token, number)]
            for number, name in sorted(token.partitions.items())
        ],
    }
    if token.written_by:
        # Older versions read on without it.
        node["written_by"] = [
            [bucket.partition_id, bucket.bucket, incarnation]
            for bucket, incarnation in sorted(token.written_by.items(), key=_order)
        ]
    content = json.dumps(node, separators=(",", ":")).encode()
    checksum = zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big")
    return PREFIX + urlsafe_b64encode(content + checksum).decode().rstrip("=")


def read_token(text: str, *, path: TablePath, table_id: int) -> Token:
    """Read a token of a table, or say why it is none."""
    try:
        token = _token(object_of(document_of(_content(text)), what="token"))
    except (ValueError, InvalidTableError) as fault:
        raise InvalidTokenError(f"The token cannot be read: {fault}.") from fault
    if token.path != path:
        raise InvalidTokenError(f"The token is for {token.path}, not for {path}.")
    if token.table_id != table_id:
        raise InvalidTokenError(
            f"The token is for another table {path} (its id is {token.table_id}, this one's is"
            f" {table_id}).",
            hint="The table was dropped and recreated, or is in another storage: take a new token.",
        )
    return token


def _ends(token: Token, partition: int | None) -> list[Json]:
    """Return the ends of a partition by the number of the bucket, with null for none."""
    found: dict[int, Json] = {
        bucket.bucket: [token.starts[bucket], end] if bucket in token.starts else end
        for bucket, end in token.ends.items()
        if bucket.partition_id == partition
    }
    return [found.get(number) for number in range(max(found, default=-1) + 1)]


def _content(text: str) -> bytes:
    """Return the document of a token whose checksum is right."""
    text = text.strip()
    if not text.startswith(PREFIX):
        raise _foreign(text)
    if len(text) > TOKEN_LENGTH_MAX:
        raise InvalidTokenError(f"The token has {len(text)} characters.")
    encoded = text.removeprefix(PREFIX)
    try:
        data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        data = b""
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # Characters that mean nothing are skipped by the decoder, so the text is compared, too.
    is_same = urlsafe_b64encode(data).decode().rstrip("=") == encoded
    if not is_same or zlib.crc32(content) != int.from_bytes(checksum, "big") or not content:
        raise InvalidTokenError("The token was cut or changed: its checksum is wrong.")
    return content


def _foreign(text: str) -> InvalidTokenError:
    head, dot, _ = text[:16].partition(".")
    if dot and head.startswith(_FAMILY) and head.removeprefix(_FAMILY).isdigit():
        return InvalidTokenError(
            f"The token has the version '{head}', and this Headwater reads '{PREFIX[:-1]}'.",
            hint="Take a new token, or use a version of Headwater that reads it.",
        )
    return InvalidTokenError(f"{text[:40]!r} is not a token: tokens begin with '{PREFIX}'.")


def _token(node: Mapping[str, Json]) -> Token:
    snapshot = None if node.get("snapshot_id") is None else int_of(node, "snapshot_id")
    ranges = dict(_ranges(None, list_of(node, "ends")))
    partitions: dict[int, str] = {}
    for each in list_of(node, "partitions"):
        match each:
            case [int(number), str(name), list(ends)]:
                partitions[number] = name
                ranges.update(_ranges(number, ends))
            case _:
                raise ValueError(f"{each} is not a partition")
    return Token(
        path=TablePath(text_of(node, "database"), text_of(node, "table")),
        table_id=int_of(node, "table_id"),
        schema_id=int_of(node, "schema_id"),
        snapshot_id=snapshot,
        ends={bucket: offsets.end for bucket, offsets in ranges.items()},
        partitions=partitions,
        starts={bucket: offsets.start for bucket, offsets in ranges.items() if offsets.start},
        written_by=dict(_written(list_of(node, "written_by") if "written_by" in node else [])),
    )


def _order(item: tuple[LakeBucket, int]) -> tuple[int, int]:
    bucket, _ = item
    return (-1 if bucket.partition_id is None else bucket.partition_id, bucket.bucket)


def _written(listed: list[Json]) -> Iterable[tuple[LakeBucket, int]]:
    for each in listed:
        match each:
            case [None | int() as partition_id, int(bucket), int(incarnation)]:
                yield LakeBucket(partition_id, bucket), incarnation
            case _:
                raise ValueError(f"{each} is not a bucket and who wrote it")


def _ranges(partition: int | None, ends: list[Json]) -> Iterable[tuple[LakeBucket, OffsetRange]]:
    for bucket, each in enumerate(ends):
        match each:
            case None:
                continue
            case int(end) if end >= 0:
                yield LakeBucket(partition, bucket), OffsetRange(0, end)
            case [int(start), int(end)] if start >= 0 and end >= 0:
                yield LakeBucket(partition, bucket), OffsetRange(start, end)
            case _:
                raise ValueError(f"{each} is not an offset")
