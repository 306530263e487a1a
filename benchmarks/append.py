"""Appending with durable acks against writing plain IPC files with the same syncs."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.blocking import BenchTable, BlockingConnection, log_batch
from benchmarks.rows import narrow_batch

WRITERS = 4
ROWS_PER_BATCH = 10_000
BATCHES = 40


def appended(port: int, table: BenchTable, codec: str | None) -> float:
    """Return the seconds that four clients take, each on its own bucket, one batch in flight."""
    return _timed_processes(_append_all, port, table, codec)


def written_plainly(directory: Path, codec: str | None) -> float:
    """Return the seconds that four processes take to write the same batches to IPC files."""
    return _timed_processes(_write_all, directory, codec)


def _timed_processes(work: Callable[..., None], *arguments: object) -> float:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(WRITERS + 1)
    processes = [
        context.Process(target=work, args=(number, barrier, *arguments))
        for number in range(WRITERS)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    took = time.perf_counter() - began
    for process in processes:
        process.join()
    return took


def _append_all(
    number: int, barrier: threading.Barrier, port: int, table: BenchTable, codec: str | None
) -> None:
    batch = narrow_batch(ROWS_PER_BATCH, seed=number)
    connection = BlockingConnection(port)
    connection.append(table, number, log_batch(batch, codec), acks=-1)
    barrier.wait()
    for _ in range(BATCHES):
        connection.append(table, number, log_batch(batch, codec), acks=-1)
    barrier.wait()


def _write_all(number: int, barrier: threading.Barrier, directory: Path, codec: str | None) -> None:
    batch = narrow_batch(ROWS_PER_BATCH, seed=number)
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    path = directory / f"plain-{number}.arrow"
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, batch.schema, options=options) as writer,
    ):
        descriptor = os.open(path, os.O_RDONLY)
        barrier.wait()
        for _ in range(BATCHES):
            writer.write_batch(batch)
            os.fdatasync(descriptor)
        barrier.wait()
        os.close(descriptor)
