import struct
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, InvalidValueError, RecordTooLargeError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.rows.admission import AdmissionLimits, Expectation, inspect
from headwater.rows.log_batch import HEADER_BYTES, build_batch, read_header
from headwater.rows.message import read_layout
from headwater.rows.projection import Projection, project_batch
from headwater.rows.row_bytes import crc32c
from headwater.rows.statistics import encode_statistics
from tests.cases import cases
from tests.choices import examples
from tests.rows.strategies import (
    compressions,
    log_batch_of,
    message_of,
    record_batches,
    schemas,
)

LIMITS = AdmissionLimits(batch_bytes_max=1 << 20, decoded_bytes_max=1 << 20)
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string())])
ROWS = pa.record_batch([pa.array([1, 2, 3], pa.int32()), ["a", None, "c"]], schema=SCHEMA)


def check(data, schema=SCHEMA, *, limits=LIMITS, append_only=True):
    expected = Expectation.of(schema)
    inspect(
        data, read_header(data), expected=expected, limits=limits, append_only=append_only
    ).check_values()


def with_crc(data: bytes) -> bytes:
    """Return the batch with a length and a checksum that fit its bytes."""
    head = data[:8] + struct.pack("<i", len(data) - 12) + data[12:21]
    return head + struct.pack("<I", crc32c(data[25:])) + data[25:]


def projected(data: bytes, schema: Schema) -> pa.RecordBatch:
    """Return the rows of a batch after its columns were copied out in reverse order."""
    wanted = schema.columns[::-1]
    projection = Projection.of(schema, wanted)
    parts = project_batch(lambda start, end: data[start:end], read_header(data), projection)
    message = b"".join(parts)[HEADER_BYTES:]
    return pa.ipc.read_record_batch(message, arrow_schema(Schema(columns=wanted)))


@given(data=st.data(), compression=compressions(), append_only=st.booleans())
def test_what_a_client_writes_is_admitted(data, compression, append_only):
    schema = data.draw(schemas())
    rows = data.draw(record_batches(schema, nan=True))
    statistics = encode_statistics(rows, schema, range(len(schema.columns)))
    changes = None if append_only else bytes(rows.num_rows)
    batch = log_batch_of(rows, compression, statistics=statistics, changes=changes)

    check(batch, arrow_schema(schema), append_only=append_only)


def test_a_batch_over_the_size_limit_is_refused_before_anything_is_read():
    data = log_batch_of(ROWS)[:HEADER_BYTES]

    with pytest.raises(RecordTooLargeError, match="Send smaller batches"):
        check(data, limits=replace(LIMITS, batch_bytes_max=100))


def test_a_damaged_batch_is_refused_by_its_checksum():
    data = bytearray(log_batch_of(ROWS))
    data[-9] ^= 1

    with pytest.raises(CorruptBatchError, match="checksum"):
        check(bytes(data))


def test_a_batch_without_records_is_refused():
    data = build_batch(b"", schema_id=1, record_count=0)

    with pytest.raises(CorruptBatchError, match="without records"):
        check(data)


def test_change_types_are_refused_where_only_appends_are_allowed():
    data = log_batch_of(ROWS, changes=bytes(3))

    with pytest.raises(CorruptBatchError, match="only accepts appended rows"):
        check(data)


def test_an_unknown_change_type_is_refused():
    data = log_batch_of(ROWS, changes=b"\0\5\0")

    with pytest.raises(CorruptBatchError, match="Change type 5"):
        check(data, append_only=False)


@cases("statistics", [b"\1", b"\2\0\0", b"\1\1\0\7\0", bytes(40)])
def test_statistics_that_make_no_sense_are_refused(statistics):
    data = log_batch_of(ROWS, statistics=statistics)

    with pytest.raises(CorruptBatchError):
        check(data)


def test_a_batch_with_other_columns_is_refused():
    data = log_batch_of(ROWS.select(["id"]))

    with pytest.raises(CorruptBatchError, match="Refresh the table's schema"):
        check(data)


def test_a_row_count_that_differs_from_the_header_is_refused():
    data = build_batch(message_of(ROWS), schema_id=1, record_count=2)

    with pytest.raises(CorruptBatchError, match="2 records has 3 rows"):
        check(data)


def test_a_null_in_a_column_without_nulls_is_refused():
    data = log_batch_of(pa.record_batch({"id": pa.array([1, None], pa.int32()), "name": ["", ""]}))

    with pytest.raises(InvalidValueError, match="'id' contains 1 nulls"):
        check(data)


def test_a_null_in_a_nested_field_without_nulls_is_refused():
    kind = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    rows = pa.record_batch([pa.array([{"x": 1}, {"x": None}, None], kind)], names=["row"])

    with pytest.raises(InvalidValueError, match=r"'row\.x' contains 1 nulls"):
        check(log_batch_of(rows), rows.schema)


def test_text_that_is_not_utf8_is_refused():
    rows = pa.record_batch({"id": ROWS["id"], "name": pa.array([b"\xff", b"", b""])})

    with pytest.raises(CorruptBatchError, match="UTF8"):
        check(log_batch_of(rows))


@cases("compression", ["lz4", "zstd"])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(compression):
    schema = pa.schema([("zeros", pa.int64())])
    zeros = pa.nulls(1 << 18, pa.int64()).fill_null(0)
    rows = pa.record_batch([zeros], schema=schema)
    data = log_batch_of(rows, compression)

    assert len(data) < 1 << 14
    with pytest.raises(RecordTooLargeError, match="after decompression"):
        check(data, schema)


@cases(("claim", "error"), [(2**62, RecordTooLargeError), (-2, CorruptBatchError)])
def test_a_buffer_that_lies_about_its_length_is_refused(claim, error):
    message = bytearray(message_of(ROWS, "zstd"))
    layout = read_layout(message, message_bytes=len(message))
    struct.pack_into("<q", message, layout.metadata_end + int(layout.buffers[1, 0]), claim)
    data = build_batch(bytes(message), schema_id=1, record_count=3)

    with pytest.raises(error):
        check(data)


def test_a_field_longer_than_its_struct_is_refused():
    rows = pa.record_batch([pa.array([{"x": 1}] * 3)], names=["row"])
    message = bytearray(message_of(rows))
    nodes_at = message.index(struct.pack("<4q", 3, 0, 3, 0))
    struct.pack_into("<q", message, nodes_at + 16, 4)
    data = build_batch(bytes(message), schema_id=1, record_count=3)

    with pytest.raises(CorruptBatchError, match="differ in length"):
        check(data, rows.schema)


@settings(max_examples=examples(300))
@given(data=st.data(), compression=compressions())
def test_a_damaged_batch_with_a_fitting_checksum_is_admitted_or_refused(data, compression):
    schema = data.draw(schemas())
    batch = bytearray(log_batch_of(data.draw(record_batches(schema)), compression))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch)))
        removed = data.draw(st.sampled_from([0, 1, 4, 8, 16]))
        batch[at : at + removed] = data.draw(st.binary(max_size=16))

    damaged = with_crc(bytes(batch))

    with suppress(CorruptBatchError, InvalidValueError, RecordTooLargeError):
        check(damaged, arrow_schema(schema))
        assert projected(damaged, schema).validate(full=True) is None
