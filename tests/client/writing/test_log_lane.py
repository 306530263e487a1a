"""Rows on their way to a log: how they are encoded."""

import pyarrow as pa

from headwater.rows.message import read_layout
from headwater.write.encode import LogLane, LogRows
from tests.client.reading.test_log_reader import TABLE


def compression_of(lane: LogLane, count: int):
    batch = pa.RecordBatch.from_pylist([{}] * count, schema=lane.arrow)
    message = lane.payload([LogRows.of(batch)]).message
    return read_layout(message, message_bytes=len(message)).compression


def test_rows_are_compressed_as_the_table_says():
    assert compression_of(LogLane(TABLE), 1) == "zstd"


def test_a_few_rows_are_not_compressed_once_the_server_has_said_that_it_takes_them():
    said = [0]
    lane = LogLane(TABLE, plain_bytes_max=lambda: said[0])
    before = compression_of(lane, 1)
    said[0] = 512

    after = compression_of(lane, 1), compression_of(lane, 10_000)

    assert (before, after) == ("zstd", (None, "zstd"))
