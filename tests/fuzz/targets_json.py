"""Documents in JSON and text: descriptions, boundaries, offsets, splits, tokens and types."""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal

from headwater.cluster.cluster import read_descriptor
from headwater.errors import (
    CorruptBatchError,
    CorruptFileError,
    InvalidTableError,
    InvalidTokenError,
    RequestError,
)
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit, split_from_bytes, split_to_bytes
from headwater.model.boundary import (
    Boundary,
    LakeBucket,
    TableIdentity,
    TieringEpoch,
    boundary_from_json,
)
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from headwater.model.table import descriptor_from_json, descriptor_to_json
from headwater.model.type_text import parse_type, type_text
from headwater.read.offsets import Place
from headwater.read.split import (
    Hybrid,
    LakeFiles,
    LogRange,
    StateAt,
    split_document,
    split_of_document,
)
from headwater.read.token import PREFIX, Token, read_token, written
from headwater.server.catalog.lake_entries import TieredOffsets, offsets_from_json
from tests.flows.upserting import keyed_json
from tests.fuzz.edits import Edit
from tests.fuzz.json_edits import json_edited
from tests.fuzz.target import Target

_PATH = TablePath("fluss", "orders")
_RANGES = {
    LakeBucket(None, 0): OffsetRange(0, 17),
    LakeBucket(None, 2): OffsetRange(5, 9),
    LakeBucket(7, 1): OffsetRange(0, 4),
}


def text_of(data: bytes) -> str:
    """Return bytes as the text that a caller would have; what is none is not ours to refuse."""
    return data.decode(errors="surrogateescape")


# ---- descriptions of tables


def descriptors() -> list[bytes]:
    plain = keyed_json(log_ttl="7 d", partition=(), bucket_key=("id",))
    nested = json.loads(plain)
    nested["schema"]["columns"] += [
        {
            "name": "tags",
            "id": 3,
            "data_type": {"type": "ARRAY", "element_type": {"type": "CHAR", "length": 5}},
        },
        {
            "name": "where",
            "id": 4,
            "comment": "a place",
            "data_type": {
                "type": "ROW",
                "fields": [
                    {"name": "x", "field_id": 5, "field_type": {"type": "DECIMAL", "precision": 9}},
                    {
                        "name": "m",
                        "field_id": 6,
                        "field_type": {
                            "type": "MAP",
                            "key_type": {"type": "STRING", "nullable": False},
                            "value_type": {
                                "type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
                                "precision": 3,
                            },
                        },
                    },
                ],
            },
        },
    ]
    nested["schema"]["columns"][2]["agg_function"] = {"type": "sum"}
    return [plain, json.dumps(nested).encode()]


def read_table(data: bytes) -> None:
    descriptor = read_descriptor(data)
    again = json.loads(json.dumps(descriptor_to_json(descriptor)))
    assert descriptor_from_json(again) == descriptor


# ---- the lake


def boundaries() -> list[bytes]:
    boundary = Boundary(
        table=TableIdentity("storage", 3),
        epoch=TieringEpoch(1, 2),
        round_id="round",
        ranges=_RANGES,
        partitions={7: "2026"},
    )
    return [boundary.to_json().encode()]


def read_boundary(data: bytes) -> None:
    boundary = boundary_from_json(text_of(data))
    kept = {bucket.partition_id for bucket in boundary.ranges} - {None}
    assert kept <= set(boundary.partitions)
    assert boundary_from_json(boundary.to_json()).ranges == boundary.ranges


def offsets() -> list[bytes]:
    plain = TieredOffsets(table_id=1, ends={LakeBucket(None, 0): 5, LakeBucket(None, 3): 0})
    parted = TieredOffsets(table_id=1, ends={LakeBucket(9, 1): 5}, replaces=True)
    return [plain.to_json().encode(), parted.to_json().encode()]


def read_offsets(data: bytes) -> None:
    read = offsets_from_json(text_of(data))
    assert all(end >= 0 for end in read.ends.values())


def _lake_split() -> LakeSplit:
    bounds = (
        ColumnBounds(column_id=0, lower=1, upper=9, null_count=0),
        ColumnBounds(column_id=1, lower=1.5, upper=float("inf")),
        ColumnBounds(column_id=2, lower=Decimal("1.50"), upper=b"\xff"),
        ColumnBounds(column_id=3, lower="a", upper=None),
    )
    file = LakeFile(
        path="/lake/a.parquet",
        row_count=5,
        byte_count=100,
        is_plain=True,
        names=((0, "id"),),
        deletes=("/lake/d.parquet",),
        bounds=bounds,
        payload=b"\0\1",
    )
    return LakeSplit(
        format="iceberg",
        snapshot_id=2**62,
        bucket=1,
        partition=(("day", "2026-11-16"),),
        files=(file,),
        payload=b"{}",
    )


def lake_splits() -> list[bytes]:
    return [split_to_bytes(_lake_split())]


def read_lake_split(data: bytes) -> None:
    split = split_from_bytes(data)
    assert split_from_bytes(split_to_bytes(split)) == split or b"0x" in data or b"aN" in data


def union_splits() -> list[bytes]:
    log = LogRange.of(Place(None, 1), LakeBucket(None, 1), OffsetRange(5, 9))
    splits = (
        LakeFiles(partition=None, bucket=-1, files=_lake_split()),
        log,
        StateAt.of(Place("2026", 1), LakeBucket(8, 1), 9),
        Hybrid(files=_lake_split(), tail=log),
    )
    return [json.dumps(split_document(split)).encode() for split in splits]


def read_union_split(data: bytes) -> None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return  # The caller reads the JSON.
    split_of_document(document)


# ---- tokens


def tokens() -> list[bytes]:
    token = Token(
        path=_PATH,
        table_id=3,
        schema_id=1,
        snapshot_id=99,
        ends={bucket: held.end for bucket, held in _RANGES.items()},
        partitions={7: "2026"},
        starts={LakeBucket(None, 2): 5},
    )
    return [written(token).encode()]


def read_one_token(data: bytes) -> None:
    token = read_token(text_of(data), path=_PATH, table_id=3)
    assert all(end >= 0 for end in token.ends.values())
    again = read_token(written(token), path=_PATH, table_id=3)
    assert again == token


def token_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the document inside a token, and seal it again."""
    try:
        text = data.decode().removeprefix(PREFIX)
        content = urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-4]
    except ValueError:
        return data
    content = json_edited(content, edits)
    sealed = content + zlib.crc32(content).to_bytes(4, "big")
    return PREFIX.encode() + urlsafe_b64encode(sealed).rstrip(b"=")


# ---- types in SQL


def types() -> list[bytes]:
    texts = (
        "BIGINT NOT NULL",
        "DECIMAL(20, 3)",
        "ROW<a INT, `b c` ARRAY<MAP<STRING NOT NULL, TIMESTAMP_LTZ(3)>> 'x'>",
        "VARCHAR(5)",
    )
    return [text.encode() for text in texts[:3]]


def read_type(data: bytes) -> None:
    read = parse_type(text_of(data))
    assert parse_type(type_text(read)) == read


def of_json(
    name: str,
    run: Callable[[bytes], None],
    seeds: Callable[[], list[bytes]],
    *refusals: type,
) -> Target:
    return Target(name, run, seeds, refusals, json_edited)


TARGETS = (
    of_json(
        "descriptions of tables", read_table, descriptors, CorruptBatchError, InvalidTableError
    ),
    of_json("boundaries", read_boundary, boundaries, CorruptFileError),
    of_json("tiered offsets", read_offsets, offsets, CorruptFileError),
    of_json("splits of a lake", read_lake_split, lake_splits, CorruptFileError),
    of_json("splits of a union read", read_union_split, union_splits, RequestError),
    Target("tokens", read_one_token, tokens, (InvalidTokenError,)),
    Target("tokens, sealed again", read_one_token, tokens, (InvalidTokenError,), token_edited),
    Target("types in SQL", read_type, types, (InvalidTableError,)),
)
