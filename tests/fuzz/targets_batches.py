"""Record batches: their headers, statistics and Arrow bodies, as a server admits them."""

import struct
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from headwater.errors import CorruptBatchError, InvalidValueError, RecordTooLargeError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampType,
)
from headwater.rows.admission import AdmissionLimits, Expectation, inspect
from headwater.rows.log_batch import (
    CRC_END,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    build_batch,
    iterate,
)
from headwater.rows.message import read_layout
from headwater.rows.row_bytes import crc32c
from headwater.rows.statistics import encode_statistics, parse_statistics
from tests.fuzz.edits import Edit, edited
from tests.fuzz.target import Target
from tests.rows.strategies import message_of

LIMITS = AdmissionLimits(batch_bytes_max=4 * 1024 * 1024, decoded_bytes_max=16 * 1024 * 1024)
REFUSALS = (CorruptBatchError, RecordTooLargeError, InvalidValueError)

PLAIN = with_column_ids(
    Schema(
        columns=(
            Column(name="id", type=BigIntType(nullable=False)),
            Column(name="name", type=StringType()),
            Column(name="amount", type=DoubleType()),
            Column(name="ok", type=BooleanType()),
        )
    )
)
NESTED = with_column_ids(
    Schema(
        columns=(
            Column(name="tags", type=ArrayType(element=StringType())),
            Column(name="counts", type=MapType(key=StringType(nullable=False), value=IntType())),
            Column(
                name="place",
                type=RowType(
                    fields=(
                        RowField(name="x", type=DecimalType(precision=20, scale=3)),
                        RowField(name="at", type=TimestampType(precision=6)),
                    )
                ),
            ),
            Column(name="hash", type=BinaryType(length=4)),
        )
    )
)
SCHEMAS = (PLAIN, NESTED)
_EXPECTED = tuple(Expectation.of(arrow_schema(schema)) for schema in SCHEMAS)
BOMB_BYTES = 2**21


def plain_rows(count: int) -> pa.RecordBatch:
    names = [None if n % 5 == 0 else f"name {n}" for n in range(count)]
    columns = [
        range(count),
        names,
        [n / 3 for n in range(count)],
        [n % 2 == 0 for n in range(count)],
    ]
    return pa.record_batch([list(c) for c in columns], schema=arrow_schema(PLAIN))


def nested_rows(count: int) -> pa.RecordBatch:
    rows = [
        {
            "tags": None if n % 4 == 0 else [f"t{n}", None, "x" * n],
            "counts": [(f"k{k}", k) for k in range(n % 3)],
            "place": None if n % 5 == 0 else {"x": None, "at": n},
            "hash": bytes([n % 256] * 4),
        }
        for n in range(count)
    ]
    schema = arrow_schema(NESTED)
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


@cache
def batches() -> list[bytes]:
    """Return batches of both schemas, each behind a byte that says which."""
    made = []
    for number, rows in enumerate((plain_rows(20), nested_rows(20), plain_rows(1), nested_rows(3))):
        schema = number % 2
        kept = rows.num_rows
        columns = list(range(len(SCHEMAS[schema].columns))) if schema == 0 else [3]
        statistics = encode_statistics(rows, SCHEMAS[schema], columns)
        for codec in (None, "lz4", "zstd"):
            message = message_of(rows, codec)
            fields = {"schema_id": 1, "record_count": kept}
            made.append(bytes([schema]) + build_batch(message, **fields))
            made.append(bytes([schema]) + build_batch(message, statistics=statistics, **fields))
            made.append(bytes([schema]) + build_batch(message, changes=bytes([1] * kept), **fields))
    return [*made, *bombs()]


def bombs() -> list[bytes]:
    """Return batches that are far larger once they are decompressed."""
    return [_bomb(BOMB_BYTES, codec) for codec in ("lz4", "zstd")]


@cache
def bombs_too_large() -> list[bytes]:
    """Return batches that are too large once they are decompressed, or claim to be."""
    large = LIMITS.decoded_bytes_max + 1
    whole = [_bomb(large, codec) for codec in ("lz4", "zstd")]
    return [*whole, *(_claiming(each, 2**32) for each in bombs())]


def _bomb(size: int, codec: str) -> bytes:
    """Return a batch with a long text, which never is in Arrow's own memory."""
    schema = arrow_schema(PLAIN)
    offsets = pa.py_buffer(struct.pack("<ii", 0, size))
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(bytes(size))])
    others = {0: [1], 2: [None], 3: [True]}
    columns = [
        pa.array(others[at], field.type) if at in others else text
        for at, field in enumerate(schema)
    ]
    rows = pa.record_batch(columns, schema=schema)
    return b"\0" + build_batch(message_of(rows, codec), schema_id=1, record_count=1)


def _claiming(data: bytes, size: int) -> bytes:
    """Return a bomb whose text claims another length, with a checksum that fits."""
    known = struct.pack("<q", BOMB_BYTES)
    assert known in data, "the length is not to be found"
    return mended(data.replace(known, struct.pack("<q", size)))


def admit_batches(data: bytes) -> None:
    """Admit what a request holds; what is admitted can be read, and read whole."""
    expected = _EXPECTED[data[0] % 2] if data else _EXPECTED[0]
    records = memoryview(data)[1:]
    for header, position in iterate(records):
        batch = records[position : position + header.size]
        inspect(batch, header, expected=expected, limits=LIMITS, append_only=False).check_values()
        check_readable(batch, header, expected)


def check_readable(batch: memoryview, header, expected: Expectation) -> None:
    sections_end = len(batch) - _message_bytes(batch, header)
    rows = pa.ipc.read_record_batch(pa.py_buffer(batch[sections_end:]), expected.schema)
    assert rows.num_rows == header.record_count
    assert rows.nbytes <= LIMITS.decoded_bytes_max
    assert len(str(rows.slice(0, 1).columns)) > 0


def _message_bytes(batch: memoryview, header) -> int:
    start = HEADER_BYTES
    if header.magic:
        (length,) = struct.unpack_from("<i", batch, HEADER_BYTES)
        start += 4 + length
    return header.size - start - (0 if header.is_append_only else header.record_count)


def mended(data: bytes) -> bytes:
    """Make length and checksum of the first batch fit what is there."""
    if len(data) < 1 + HEADER_BYTES:
        return data
    batch = bytearray(data[1:])
    struct.pack_into("<i", batch, LENGTH_END - 4, len(batch) - LENGTH_END)
    struct.pack_into("<I", batch, CRC_START, crc32c(bytes(batch[CRC_END:])))
    return data[:1] + bytes(batch)


def body_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change a batch behind its header only, which stays as it is."""
    head = 1 + HEADER_BYTES
    return data[:head] + edited(data[head:], edits)


# ---- parts, each for itself


def statistics() -> list[bytes]:
    made = [
        encode_statistics(plain_rows(9), PLAIN, list(columns)) for columns in ([0], [0, 1, 2, 3])
    ]
    return [block for block in made if block is not None]


def read_statistics(data: bytes) -> None:
    parse_statistics(data, [field.type for field in _EXPECTED[0].schema])


def messages() -> list[bytes]:
    return [message_of(plain_rows(5), codec) for codec in (None, "lz4", "zstd")] + [
        message_of(nested_rows(5))
    ]


def read_message(data: bytes) -> None:
    layout = read_layout(data, message_bytes=len(data))
    ends = layout.buffers.sum(axis=1)
    assert layout.row_count >= 0
    assert not len(ends) or int(np.max(ends)) <= layout.body_length


def _of_batches(name: str, **ways) -> Target:
    return Target(
        name,
        admit_batches,
        batches,
        REFUSALS,
        refused=bombs_too_large,
        # Buffers that are whole once decompressed, and as much again for what Arrow rounds up.
        arrow_bytes_max=2 * LIMITS.decoded_bytes_max,
        **ways,
    )


TARGETS = (
    _of_batches("record batches"),
    _of_batches("record batches, checksums mended", mend=mended),
    _of_batches("bodies of record batches", change=body_edited, mend=mended),
    Target("statistics", read_statistics, statistics, (CorruptBatchError,)),
    Target("Arrow messages", read_message, messages, (CorruptBatchError,)),
)
