"""Files of our own: checkpoints and indexes of logs, snapshots of states; and filters."""

import json
import struct
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from google.protobuf.message import DecodeError

from headwater.errors import CorruptBatchError, CorruptFileError, InvalidProjectionError
from headwater.kv.store import IdRange, SegmentFile, Snapshot, decode_snapshot, encode_snapshot
from headwater.log.segment import Mark
from headwater.log.small_files import (
    Checkpoint,
    decode_checkpoint,
    decode_index,
    encode_checkpoint,
    encode_index,
)
from headwater.log.writers import KeptBatch
from headwater.model.predicate import And, Leaf, LeafFunction, Or
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType, BytesType, DecimalType, StringType, TimestampType
from headwater.rows.row_bytes import crc32c
from headwater.rows.statistics import BatchStatistics, ColumnStatistics, may_match
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch import decode_fetch_answer
from headwater.wire.predicates import predicate_from_wire, predicate_to_wire
from tests.fuzz.edits import Edit, edited
from tests.fuzz.json_edits import json_edited
from tests.fuzz.message_edits import message_edited
from tests.fuzz.target import Target

_MARKS = (Mark(0, 0, 5), Mark(10, 700, 6, 3), Mark(17, 1500, 9, 12345))


def sealed(data: bytes) -> bytes:
    """Put the checksum behind a file that it is of."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4])) if len(data) >= 4 else data


# ---- logs


def checkpoints() -> list[bytes]:
    writers = {5: (KeptBatch(0, 0, 5, 9), KeptBatch(1, 5, 10, 11)), 7: ()}
    return [encode_checkpoint(Checkpoint(0, _MARKS, writers))]


def read_checkpoint(data: bytes) -> None:
    checkpoint = decode_checkpoint(data)
    assert checkpoint.marks
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def indexes() -> list[bytes]:
    return [encode_index(_MARKS), encode_index(_MARKS[:1])]


def read_index(data: bytes) -> None:
    assert decode_index(data)


# ---- states


def snapshots() -> list[bytes]:
    hashes = np.arange(5, dtype=np.uint64)
    locations = np.arange(5, dtype=np.int64)
    plain = Snapshot(7, 3, (SegmentFile(0, 1, 100, 5, 90, 1, 2),), hashes, locations)
    full = Snapshot(7, 3, (), hashes, locations, {b"key": 4}, (hashes, hashes), IdRange(5, 9))
    return [encode_snapshot(plain), encode_snapshot(full)]


def read_snapshot(data: bytes) -> None:
    snapshot = decode_snapshot(data)
    assert len(snapshot.hashes) == len(snapshot.locations)
    again = decode_snapshot(encode_snapshot(snapshot))
    assert (again.offset, again.segments, again.collided) == (
        snapshot.offset,
        snapshot.segments,
        snapshot.collided,
    )


def head_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the head of a snapshot, which is JSON."""
    if len(data) < 8:
        return data
    (length,) = struct.unpack_from("<I", data)
    head, rest = data[4 : 4 + length], data[4 + length :]
    try:
        json.loads(head)
    except (ValueError, RecursionError):
        return edited(data, edits)
    head = json_edited(head, edits)
    return struct.pack("<I", len(head)) + head + rest


# ---- filters


_SCHEMA = with_column_ids(
    Schema(
        columns=(
            Column(name="id", type=BigIntType()),
            Column(name="name", type=StringType()),
            Column(name="price", type=DecimalType(precision=30, scale=2)),
            Column(name="at", type=TimestampType(precision=6)),
            Column(name="raw", type=BytesType()),
        )
    )
)
_STATISTICS = BatchStatistics(
    {
        0: ColumnStatistics(0, 1, 9),
        1: ColumnStatistics(1, "a", "m"),
        2: ColumnStatistics(0, Decimal("1.00"), Decimal("9.99")),
        3: ColumnStatistics(0, 0, 10**15),
        4: ColumnStatistics(0, b"a", b"z"),
    }
)


def filters() -> list[bytes]:
    leaves = (
        Leaf(LeafFunction.EQUAL, 0, (5,)),
        Leaf(LeafFunction.STARTS_WITH, 1, ("a",)),
        Leaf(LeafFunction.LESS_THAN, 2, (Decimal("10000000000000000000000000.00"),)),
        Leaf(LeafFunction.IN, 3, (1, 2, None)),
        Leaf(LeafFunction.GREATER_THAN, 4, (b"\xff",)),
    )
    trees = (*leaves, And(leaves), Or((And(leaves[:2]), leaves[2])))
    return [predicate_to_wire(tree, _SCHEMA).SerializeToString() for tree in trees]


def read_filter(data: bytes) -> None:
    try:
        message = pb.Predicate.FromString(data)
    except DecodeError:
        return  # The dispatcher reads the message.
    predicate = predicate_from_wire(message, _SCHEMA)
    assert may_match(predicate, _STATISTICS, record_count=10) in (True, False)


def filter_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    return message_edited(pb.Predicate, data, edits, inner=_longer)


def _longer(_: str, old: bytes, edit: Edit) -> bytes:
    kind, _, value = edit
    return bytes([value % 256]) * (value % 5000) if kind % 2 else edited(old, [edit])


# ---- answers


def fetch_answers() -> list[bytes]:
    bucket = pb.FetchLogBucketResponse(bucket_id=1, high_watermark=5, records=bytes(100))
    table = pb.FetchLogTableResponse(table_id=1, buckets_resp=[bucket, bucket])
    return [pb.FetchLogResponse(tables_resp=[table, table]).SerializeToString()]


def read_fetch(data: bytes) -> None:
    decode_fetch_answer(memoryview(data))


CORRUPT = (CorruptFileError,)
TARGETS = (
    Target("checkpoints", read_checkpoint, checkpoints, CORRUPT),
    Target("checkpoints, sealed again", read_checkpoint, checkpoints, CORRUPT, mend=sealed),
    Target("indexes, sealed again", read_index, indexes, CORRUPT, mend=sealed),
    Target("snapshots", read_snapshot, snapshots, CORRUPT),
    Target("snapshots, sealed again", read_snapshot, snapshots, CORRUPT, head_edited, sealed),
    Target("filters", read_filter, filters, (InvalidProjectionError,), filter_edited),
    Target("answers to fetches", read_fetch, fetch_answers, (CorruptBatchError,)),
)
