"""Scanning over loopback against reading the same batches from a plain IPC file."""

import time
from pathlib import Path

import pyarrow as pa

from benchmarks.blocking import BenchTable, BlockingConnection, log_batch

PROJECTED = [3, 17, 42]


def fill(
    connection: BlockingConnection,
    table: BenchTable,
    batches: list[pa.RecordBatch],
    codec: str | None,
) -> None:
    """Append batches to bucket 0."""
    for batch in batches:
        connection.append(table, 0, log_batch(batch, codec), acks=1)
    connection.append(table, 0, log_batch(batches[0].slice(0, 1), codec), acks=-1)


def scanned(
    connection: BlockingConnection, table: BenchTable, columns: list[int] | None = None
) -> float:
    """Return the seconds that a full scan of bucket 0 takes."""
    began = time.perf_counter()
    rows = sum(batch.num_rows for batch in connection.scan(table, 0, columns=columns))
    assert rows
    return time.perf_counter() - began


def write_plain(path: Path, batches: list[pa.RecordBatch], codec: str | None) -> None:
    """Write batches to an IPC file."""
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, batches[0].schema, options=options) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def read_plainly(path: Path) -> float:
    """Return the seconds that reading every batch of an IPC file takes."""
    began = time.perf_counter()
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_file(file, options=options)
        rows = sum(reader.get_batch(n).num_rows for n in range(reader.num_record_batches))
    assert rows
    return time.perf_counter() - began
