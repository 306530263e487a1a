"""How long a single row takes from the client to the log and back."""

import os
import statistics
import time
from pathlib import Path

from benchmarks.blocking import BenchTable, BlockingConnection, check_ack, log_batch
from benchmarks.rows import narrow_batch
from headwater.wire import fluss_pb2 as pb


def acks_us(
    connection: BlockingConnection, table: BenchTable, *, acks: int, count: int
) -> list[float]:
    """Return the microseconds of single-row appends, encoded beforehand."""
    frame = connection.append_frame(table, 0, log_batch(narrow_batch(1, seed=1), None), acks=acks)
    took = []
    for _ in range(count):
        began = time.perf_counter_ns()
        connection.send_frame(frame)
        answer = connection.receive()
        took.append((time.perf_counter_ns() - began) / 1000)
        check_ack(answer)
    return took


def idle_requests_us(connection: BlockingConnection, *, count: int) -> list[float]:
    """Return the microseconds of a request for which the server does next to nothing."""
    frame = connection.frame(pb.DatabaseExistsRequest(database_name="fluss"))
    took = []
    for _ in range(count):
        began = time.perf_counter_ns()
        connection.send_frame(frame)
        connection.receive()
        took.append((time.perf_counter_ns() - began) / 1000)
    return took


def plain_syncs_us(directory: Path, count: int) -> list[float]:
    """Return the microseconds of writing the same bytes to a file and syncing it."""
    records = log_batch(narrow_batch(1, seed=1), None)
    took = []
    with (directory / "plain-sync").open("ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter_ns()
            file.write(records)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter_ns() - began) / 1000)
    return took


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]
