"""Rows as messages: which are compressed."""

import pyarrow as pa

from headwater.rows.message import PLAIN_BYTES_MAX, MessageWriter, read_layout
from tests.cases import cases

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def rows_of(count: int) -> pa.RecordBatch:
    return pa.record_batch([list(range(count)), ["tea"] * count], schema=SCHEMA)


def read_back(message: memoryview) -> pa.RecordBatch:
    stream = b"".join((SCHEMA.serialize().to_pybytes(), message))
    return pa.ipc.open_stream(stream).read_next_batch()


@cases("codec", [None, pa.Codec("zstd"), pa.Codec("lz4")])
@cases("count", [1, 2, 1000])
def test_rows_are_read_back_however_they_were_written(codec, count):
    message = MessageWriter(SCHEMA, codec).write(rows_of(count), plain_bytes_max=PLAIN_BYTES_MAX)

    assert read_back(message).equals(rows_of(count))


def test_a_few_rows_are_smaller_without_compression():
    few, many = rows_of(5), rows_of(1000)
    plain, packed = MessageWriter(SCHEMA, None), MessageWriter(SCHEMA, pa.Codec("zstd"))

    written = packed.write(few, plain_bytes_max=PLAIN_BYTES_MAX)

    assert written == plain.write(few)
    assert read_layout(written, message_bytes=len(written)).compression is None
    assert len(written) < len(packed.write(few))
    assert len(packed.write(many, plain_bytes_max=PLAIN_BYTES_MAX)) < len(plain.write(many))


def test_all_rows_are_compressed_where_nothing_else_is_said():
    written = MessageWriter(SCHEMA, pa.Codec("zstd")).write(rows_of(1))

    assert read_layout(written, message_bytes=len(written)).compression == "zstd"


def test_rows_of_a_schema_with_notes_of_others_are_written_without_them():
    noted = rows_of(3).replace_schema_metadata({"pandas": "x" * 1000})

    assert read_back(MessageWriter(SCHEMA, None).write(noted)).equals(rows_of(3))
