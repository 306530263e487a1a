"""How long one row and one lookup take beside a crowd of readers, as ratios to being alone."""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.serving import ServerProcess

import headwater
from benchmarks.blocking import BenchTable, BlockingConnection
from benchmarks.crowd_roles import KEYS
from benchmarks.keyed import check_put, cpu_seconds, encoded, put_frame
from benchmarks.rows import NARROW

ROLES = "benchmarks.crowd_roles"
TAIL_PROCESSES = 2
APPENDS_PER_S, LOOKUPS_PER_S = 100, 200
WARM_S = 1.0
Role = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Hold what a lone writer and a lookup client saw beside others."""

    what: str
    acks_s: list[float]
    lookups_s: list[float]
    stall_s: float
    worked_s: float
    cpu_s: float
    """Processor time of the server per second."""
    answers: float
    """Answers to the crowd per second."""


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]


class Crowd:
    """Run a server, and phases of load beside a writer and a lookup client."""

    def __init__(self, directory: Path, *, seconds: float) -> None:
        self._seconds = seconds
        self._stalls = directory / "stalls"
        self._server = ServerProcess(directory / "data", module=ROLES)
        self._connection = BlockingConnection(self._server.port)
        with headwater.connect(self._server.address) as client:
            client.create_table("followed", NARROW, buckets=1)
            client.create_table("other", NARROW, buckets=1)
            client.create_table("keyed", NARROW, primary_key="k", buckets=1)
            self._ids = {
                name: client.table(name).info.table_id for name in ("followed", "other", "keyed")
            }
        rows = encoded(np.arange(KEYS), seed=1)
        self._connection.send_frame(put_frame(BenchTable(self._ids["keyed"], NARROW), rows.put))
        check_put(self._connection.receive())

    def role(self, name: str, table: str, *given: float) -> Role:
        """Return the command of a client of one table."""
        return (name, str(self._server.port), str(self._ids[table]), *map(str, given))

    def cursors(self, count: int) -> Role:
        """Return the command of readers that commit after every poll."""
        return ("cursors", str(self._server.port), str(count))

    def beside(self, what: str, *roles: Role) -> Beside:
        """Measure beside some others."""
        with _running(roles) as others:
            time.sleep(WARM_S)
            self._stall()
            cpu, began = cpu_seconds(self._server.pid), time.monotonic()
            writer = _start(self.role("write", "followed", self._seconds, 1 / APPENDS_PER_S))
            reader = _start(self.role("look_up", "keyed", self._seconds, 1 / LOOKUPS_PER_S))
            acks_s, lookups_s = _told(writer), _told(reader)
            took_s = time.monotonic() - began
            cpu_s = cpu_seconds(self._server.pid) - cpu
            stall_s, worked_s = self._stall()
        return Beside(
            what=what,
            acks_s=acks_s,
            lookups_s=lookups_s,
            stall_s=stall_s,
            worked_s=worked_s,
            cpu_s=cpu_s / took_s,
            answers=sum(each[0] for each in others) / (took_s + WARM_S),
        )

    def close(self) -> None:
        """Stop the server."""
        self._connection.close()
        self._server.stop()

    def _stall(self) -> tuple[float, float]:
        """Return the longest stall since the last time, and how long the loop worked in one."""
        before = self._stalls.read_text() if self._stalls.exists() else ""
        self._server.signal(signal.SIGUSR1)
        while (told := self._stalls.read_text()) == before:
            time.sleep(0.01)
        stall_s, worked_s = json.loads(told.splitlines()[-1])
        return stall_s, worked_s


def _start(role: Role) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", ROLES, *role]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _told(process: "subprocess.Popen[str]") -> list[float]:
    told, _ = process.communicate()
    assert process.returncode == 0, "a client failed"
    found: list[float] = json.loads(told.splitlines()[-1])
    return found


@contextmanager
def _running(roles: tuple[Role, ...]) -> Iterator[list[list[float]]]:
    """Run clients for the length of a block; what they tell is there after it."""
    processes, told = [_start(role) for role in roles], []
    try:
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n", "a client did not start"
        yield told
    finally:
        for each in processes:
            each.terminate()
        told += [_told(each) for each in processes]


def measured(directory: Path, *, seconds: float, tails: list[int]) -> list[Beside]:
    """Run every phase, being alone first and last."""
    crowd = Crowd(directory, seconds=seconds)
    try:
        found = [crowd.beside("alone")]
        for count in tails:
            share = count // TAIL_PROCESSES
            roles = [crowd.role("tail", "followed", share) for _ in range(TAIL_PROCESSES)]
            found.append(crowd.beside(f"{count} tails", *roles))
        found.append(crowd.beside("a bulk writer", crowd.role("write_much", "other")))
        found.append(crowd.beside("20 cursors", crowd.cursors(20)))
        found.append(crowd.beside("a flood of unread fetches", crowd.role("flood", "other")))
        found.append(crowd.beside("alone again"))
    finally:
        crowd.close()
    return found


def shown(found: list[Beside]) -> Table:
    """Return the ratios as a table."""
    percentiles = ("ack p50", "p99", "lookup p50", "p99")
    table = Table("beside", *percentiles, "stall", "of it worked", "server", "answers")
    base = [found[0], found[-1]]
    acks = [took for each in base for took in each.acks_s]
    lookups = [took for each in base for took in each.lookups_s]
    for each in found:
        table.add_row(
            each.what,
            *_ratios(each.acks_s, acks),
            *_ratios(each.lookups_s, lookups),
            f"{each.stall_s * 1e3:.0f} ms",
            f"{each.worked_s * 1e3:.0f} ms",
            f"{each.cpu_s * 100:.0f} %",
            f"{each.answers:.0f}/s",
        )
    return table


def _ratios(took: list[float], base: list[float]) -> list[str]:
    found = []
    for percent in (50, 99):
        own, other = percentile(took, percent), percentile(base, percent)
        found.append(f"{own / other:.1f} ({own * 1e3:.2f} ms)")
    return found


def main() -> None:
    """Print how a crowd is felt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each phase")
    parser.add_argument("--tails", default="10,50,200", help="numbers of tails")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as place:
        found = measured(
            Path(place),
            seconds=given.seconds,
            tails=[int(count) for count in given.tails.split(",")],
        )
    Console(width=150).print(shown(found))


if __name__ == "__main__":
    main()
