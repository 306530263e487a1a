"""Rows and keys of primary-key tables: KV batches, compacted rows, values and answers."""

import struct
from functools import cache

import pyarrow as pa

from headwater.config.options import LakeFormat
from headwater.errors import CorruptBatchError, InvalidValueError
from headwater.model.types import (
    BigIntType,
    DateType,
    DecimalType,
    IntType,
    StringType,
    TimestampType,
)
from headwater.rows.compacted.coders import KeyDecoder, KeyEncoder, RowDecoder, RowEncoder
from headwater.rows.compacted.one_row import OneRowDecoder
from headwater.rows.keys import IcebergKeyReader, PaimonKeyReader, key_encoder
from headwater.rows.kv_batch import build_kv_batch, check_kv_crc, read_kv_header, read_kv_records
from headwater.rows.row_bytes import RowBytes, crc32c
from headwater.wire import fluss_pb2 as pb
from headwater.wire.lookup import decode_lookup_answer, decode_prefix_lookup_answer
from headwater.wire.value_batch import read_value_batch, value_batch
from tests.fuzz.target import Target
from tests.fuzz.targets_batches import NESTED, PLAIN, nested_rows, plain_rows

REFUSALS = (CorruptBatchError, InvalidValueError)
_TYPES = tuple([column.type for column in schema.columns] for schema in (PLAIN, NESTED))
_KEY_TYPES = [IntType(nullable=False), StringType(nullable=False), BigIntType(nullable=False)]
_LAKE_KEY_TYPES = (
    [BigIntType(nullable=False)],
    [StringType(nullable=False)],
    [DecimalType(precision=9, scale=2, nullable=False)],
    [DateType(nullable=False)],
    [TimestampType(precision=6, nullable=False)],
)
_SEEDS = 6


@cache
def encoded_rows(number: int) -> RowBytes:
    rows = plain_rows(12) if number == 0 else nested_rows(12)
    return RowEncoder.of(_TYPES[number]).encode(rows.columns)


@cache
def encoded_keys() -> RowBytes:
    columns = [[1, 2, -3], ["a", "bcd", "é" * 40], [2**40, -1, 0]]
    return KeyEncoder.of(_KEY_TYPES).encode(
        [
            pa.array(c, t)
            for c, t in zip(columns, (pa.int32(), pa.string(), pa.int64()), strict=True)
        ]
    )


def rows() -> list[bytes]:
    """Return single rows, behind a byte that says of which schema."""
    return [bytes([number]) + row for number in (0, 1) for row in encoded_rows(number).to_list()]


def read_row(data: bytes) -> None:
    """Read one row; what is read is the same when it is written and read again."""
    types = _TYPES[data[0] % 2] if data else _TYPES[0]
    row = data[1:]
    one = OneRowDecoder.of(types)
    quick = None if one is None else one.decode(row)
    columns = RowDecoder.of(types).decode(RowBytes.of([row]))
    for column in columns:
        column.validate(full=True)
    if quick is not None:
        assert [each.to_pylist() for each in quick] == [each.to_pylist() for each in columns] or (
            "nan" in str(columns)
        )
    again = RowDecoder.of(types).decode(RowEncoder.of(types).encode(columns))
    assert all(one.equals(other) for one, other in zip(columns, again, strict=True)) or (
        "nan" in str(columns)
    )


def keys() -> list[bytes]:
    return encoded_keys().to_list()


def read_key(data: bytes) -> None:
    columns = KeyDecoder.of(_KEY_TYPES).decode(RowBytes.of([data]))
    for column in columns:
        column.validate(full=True)


def lake_keys() -> list[bytes]:
    columns = (
        pa.array([7]),
        pa.array(["Ulm"]),
        pa.array([12345], pa.int64())
        .cast(pa.decimal128(38, 0))
        .cast(pa.decimal128(9, 2), safe=False),
        pa.array([100], pa.int32()).cast(pa.date32()),
        pa.array([10**12], pa.timestamp("us")),
    )
    made = []
    for number, (types, column) in enumerate(zip(_LAKE_KEY_TYPES, columns, strict=True)):
        for place, lake in enumerate((LakeFormat.PAIMON, LakeFormat.ICEBERG)):
            (key,) = key_encoder(types, lake).encode([column]).to_list()
            made.append(bytes([2 * number + place]) + key)
    return made


def read_lake_key(data: bytes) -> None:
    kind = data[0] % 10 if data else 0
    reader = (PaimonKeyReader, IcebergKeyReader)[kind % 2]
    for column in reader.of(_LAKE_KEY_TYPES[kind // 2]).decode(RowBytes.of([data[1:]])):
        column.validate(full=True)


@cache
def kv_batches() -> list[bytes]:
    plain = encoded_rows(0)
    keys = RowBytes.of([struct.pack(">i", n) for n in range(len(plain))])
    few = encoded_keys()
    return [
        build_kv_batch(keys, plain, schema_id=1),
        build_kv_batch(
            keys.take(slice(1)), plain.take(slice(1)), schema_id=1, writer_id=5, sequence=0
        ),
        build_kv_batch(few, RowBytes.of([b""] * len(few)), schema_id=1),
    ]


def read_kv(data: bytes) -> None:
    view = memoryview(data)
    header = read_kv_header(view)
    check_kv_crc(view, header)
    records = read_kv_records(view, header)
    assert len(records.keys) == len(records.rows) == header.record_count
    keys, rows = records.keys.to_list(), records.rows.to_list()
    assert sum(map(len, keys)) + sum(map(len, rows)) <= len(data)
    if len(rows):
        RowDecoder.of(_TYPES[0]).decode(records.rows.take(~records.is_delete))


def kv_mended(data: bytes) -> bytes:
    if len(data) < 28:
        return data
    batch = bytearray(data)
    struct.pack_into("<i", batch, 0, len(batch) - 4)
    struct.pack_into("<I", batch, 5, crc32c(bytes(batch[9:])))
    return bytes(batch)


# ---- answers


def value_batches() -> list[bytes]:
    return [
        value_batch([b"", b"a", bytes(300), b"bc" * 20]),
        value_batch([]),
        value_batch([b"x"] * 50),
    ]


def read_values(data: bytes) -> None:
    values = read_value_batch(memoryview(data)).to_list()
    assert value_batch(values) == data


def lookup_answers() -> list[bytes]:
    values = [pb.LookupValue(values=bytes(n * 7)) for n in range(5)] + [pb.LookupValue()]
    small = pb.LookupResponse(buckets_resp=[pb.LookupBucketResponse(bucket_id=1, values=values)])
    large = pb.LookupResponse(
        buckets_resp=[
            pb.LookupBucketResponse(bucket_id=n, partition_id=3, values=values * 50) for n in (0, 1)
        ]
    )
    return [small.SerializeToString(), large.SerializeToString()]


def read_lookup(data: bytes) -> None:
    for answer in decode_lookup_answer(memoryview(data)):
        assert not hasattr(answer, "values") or len(answer.values) == int(answer.counts.sum())


def prefix_answers() -> list[bytes]:
    lists = [pb.LookupValueList(values=[b"a" * n] * n) for n in range(4)]
    bucket = pb.PrefixLookupBucketResponse(bucket_id=0, value_lists=lists)
    return [pb.PrefixLookupResponse(buckets_resp=[bucket]).SerializeToString()]


def read_prefix(data: bytes) -> None:
    for answer in decode_prefix_lookup_answer(memoryview(data)):
        assert not hasattr(answer, "values") or len(answer.values) == int(answer.counts.sum())


TARGETS = (
    Target("compacted rows", read_row, rows, REFUSALS),
    Target("compacted keys", read_key, keys, REFUSALS),
    Target("keys in the form of a lake", read_lake_key, lake_keys, REFUSALS),
    Target("KV batches", read_kv, kv_batches, REFUSALS),
    Target("KV batches, checksums mended", read_kv, kv_batches, REFUSALS, mend=kv_mended),
    Target("batches of values", read_values, value_batches, (CorruptBatchError,)),
    Target("answers to lookups", read_lookup, lookup_answers, (CorruptBatchError,)),
    Target("answers to prefix lookups", read_prefix, prefix_answers, (CorruptBatchError,)),
)
