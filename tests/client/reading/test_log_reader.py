"""Decoding of stored batches: any split, any schema, any range of offsets."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.client import ClientSettings
from headwater.errors import CorruptBatchError, DamagedRangeError, RecordTooLargeError
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import BigIntType, IntType, StringType
from headwater.read.filters import RowView
from headwater.read.log import BatchOrigin, LogReader, stored_batches
from headwater.rows.log_batch import build_batch

ID = Column(name="id", type=IntType(), column_id=0)
NAME = Column(name="name", type=StringType(), column_id=1)
EXTRA = Column(name="extra", type=BigIntType(), column_id=2)
OLD, NEW = Schema(columns=(ID, NAME)), Schema(columns=(ID, EXTRA))
TABLE = TableInfo(
    path=TablePath("db", "t"),
    table_id=1,
    schema_id=2,
    descriptor=TableDescriptor(schema=NEW),
    created_ms=0,
    modified_ms=0,
)
BUCKET = BatchOrigin(TableBucket(1, 0), None, is_projected=False)
ALL = OffsetRange(0, 10**9)


class KnownSchemas:
    """Be as much of a cluster as a reader of batches needs."""

    settings = ClientSettings()

    async def schema(self, _: TableInfo, schema_id: int) -> Schema:
        return {1: OLD, 2: NEW}[schema_id]


def stored(
    start: int, count: int, *, schema_id=2, changes=False, statistics=None, codec=None
) -> bytes:
    """Make a batch whose ids are its offsets."""
    ids = pa.array(range(start, start + count), pa.int32())
    other = pa.array([f"n{each}" for each in range(count)] if schema_id == 1 else [7] * count)
    rows = pa.record_batch([ids, other], ["id", "other"])
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
        end = sink.tell()
    message = memoryview(sink.getvalue())[rows.schema.serialize().size : end] if count else b""
    return build_batch(
        message,
        schema_id=schema_id,
        record_count=count,
        statistics=statistics,
        changes=bytes(each % 5 for each in range(count)) if changes else None,
        base_offset=start,
        timestamp_ms=start * 10,
    )


def read(records, wanted=ALL, *, source=BUCKET, **choice):
    reader = LogReader(KnownSchemas(), RowView.of(TABLE, **choice))
    batches = stored_batches(records)
    asyncio.run(reader.prepare(batches))
    return reader.read(batches, wanted, source=source)


@st.composite
def logs(draw):
    """Return batches that follow each other, where they begin, and which offsets hold a record."""
    batches, offsets, start = [], [], draw(st.integers(0, 100))
    first = start
    for _ in range(draw(st.integers(1, 6))):
        count = draw(st.integers(0, 5))
        shape = {
            "schema_id": draw(st.sampled_from([1, 2])),
            "changes": draw(st.booleans()),
            "statistics": draw(st.sampled_from([None, b"", b"xy"])),
            "codec": draw(st.sampled_from([None, "zstd", "lz4"])),
        }
        batches.append(stored(start, count, **shape))
        offsets += range(start, start + count)
        start += max(count, 1)
    return batches, first, offsets


@given(logs(), st.data())
def test_the_rows_of_a_range_are_read_wherever_batches_begin_and_end(log, data):
    batches, first, offsets = log
    low = data.draw(st.integers(first, first + 40))
    high = data.draw(st.integers(low, low + 40))
    cut = data.draw(st.integers(0, len(batches)))

    found = read([b"".join(batches[:cut]), b"".join(batches[cut:])], OffsetRange(low, high))

    wanted = [each for each in offsets if low <= each < high]
    assert [each for batch in found for each in batch.offsets.tolist()] == wanted
    assert [each for batch in found for each in batch.rows["id"].to_pylist()] == wanted
    assert all(batch.timestamp_ms % 10 == 0 and batch.rows.num_rows for batch in found)


@given(logs(), st.integers(0, 200))
def test_a_batch_that_was_cut_off_is_left_for_the_next_answer(log, missing):
    batches, _, _ = log
    data = b"".join(batches)
    kept = data[: max(len(data) - missing, len(batches[0]))]

    found = stored_batches([kept])

    ends = np.cumsum([len(batch) for batch in batches])
    assert len(found) == int((ends <= len(kept)).sum())


def test_columns_are_matched_by_id():
    found = read([stored(0, 2, schema_id=1) + stored(2, 1, schema_id=2)])

    assert [batch.rows.to_pydict() for batch in found] == [
        {"id": [0, 1], "extra": [None, None]},
        {"id": [2], "extra": [7]},
    ]


def test_changes_and_offsets_are_those_of_the_rows_that_pass_the_filter():
    (found,) = read([stored(10, 5, changes=True)], OffsetRange(11, 99), where=("id", "!=", 12))

    assert found.offsets.tolist() == [11, 13, 14]
    assert found.changes is not None
    assert found.changes.tolist() == [1, 3, 4]
    assert found.timestamp_ms == 100


def test_columns_of_the_filter_alone_are_not_given():
    (found,) = read([stored(0, 3)], columns=["extra"], where=("id", ">", 1))

    assert found.rows.to_pydict() == {"extra": [7]}


def test_damage_is_told():
    damaged = bytearray(stored(0, 3))
    damaged[-20] ^= 1

    with pytest.raises(CorruptBatchError, match="checksum"):
        read([bytes(damaged)])


def test_a_gap_is_told_unless_a_filter_makes_gaps():
    records = [stored(0, 3) + stored(5, 1)]

    with pytest.raises(DamagedRangeError, match="from offset 3 to 5"):
        read(records)


def test_rows_that_are_no_rows_are_told():
    batch = build_batch(b"\xff\xff\xff\xff rubbish", schema_id=2, record_count=2)

    with pytest.raises(CorruptBatchError, match="no readable rows"):
        read([batch])


def test_an_answer_without_a_whole_batch_says_what_to_do():
    with pytest.raises(RecordTooLargeError, match="fetch_bucket_bytes_max"):
        stored_batches([stored(0, 100)[:-1]])
