"""What remote storage costs and gives: `python -m benchmarks.remote`.

Two servers, one that ships to a directory. Appends with durable answers take turns between them, so
that both meet the same machine: single rows one after the other, and batches of many rows. Then
rows come at a steady rate to the one that ships, and the age of the newest commit is looked at all
the time; then nothing comes. At the end everything is restored, beside a copy of the same bytes.
"""

import argparse
import os
import shutil
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pyarrow as pa
from rich.console import Console
from tests.serving import ServerProcess, serving

import headwater
from benchmarks.latency import percentile
from benchmarks.tls import rows_of
from headwater.remote.history import newest_base, read_commit
from headwater.remote.objects import DirectoryObjects
from headwater.remote.restore import restore
from headwater.store.local import sync_path

COLUMNS = {"id": "BIGINT", "name": "STRING", "v": "DOUBLE"}
ROUNDS, ROWS_ONE_BY_ONE, BULK_ROWS = 12, 100, 200_000
ROUNDS_OF_ONES = 4  # they are short
STEADY_ROWS, LOOK_EVERY_S = 10_000, 0.02
MIB = 1 << 20


def counted(server: ServerProcess) -> dict[str, float]:
    """Read the counters of remote storage from the metrics page."""
    port = server.log.read_text().rpartition("metrics_port=")[2].split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    found = (line.split() for line in lines if line.startswith("headwater_remote_"))
    return {name.removeprefix("headwater_remote_"): float(number) for name, number in found}


def appended(table: headwater.Table, rows: pa.Table | None) -> float:
    """Append rows one by one, or many at once, and return the seconds."""
    began = time.perf_counter()
    if rows is not None:
        table.append(rows)
        return time.perf_counter() - began
    for number in range(ROWS_ONE_BY_ONE):
        table.append({"id": number, "name": "one", "v": 1.0})
    return time.perf_counter() - began


def compare(tables: list[headwater.Table], console: Console, *, rounds: int) -> None:
    """Let a server without remote storage and one with it take turns."""
    for name, rows in (("single rows", None), ("bulk", rows_of(BULK_ROWS))):
        took: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds if rows is not None else rounds * ROUNDS_OF_ONES):
            for side in (0, 1) if number % 2 else (1, 0):
                took[side].append(appended(tables[side], rows))
        ratio = median(took[0]) / median(took[1])
        console.print(f"appends, {name}: {ratio:.2f} of the speed without remote storage")


class Ages:
    """Looks at the newest commit again and again, and notes how old its moment is."""

    def __init__(self, remote: Path) -> None:
        self._objects = DirectoryObjects(remote)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.seen: list[float] = []
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        number, at_ms = newest_base(self._objects).number, 0
        while not self._end.wait(LOOK_EVERY_S):
            while (found := read_commit(self._objects, number + 1)) is not None:
                number, at_ms = found.number, found.at_ms
            self.seen.append(time.time() - at_ms / 1000)


def told(
    console: Console, name: str, before: dict[str, float], server: ServerProcess, s: float
) -> None:
    """Print the requests and bytes a second since an earlier count."""
    now = counted(server)
    requests = (now["requests_total"] - before["requests_total"]) / s
    shipped = (now["bytes_total"] - before["bytes_total"]) / s
    console.print(f"{name}: {requests:.2f} requests/s, {shipped / MIB:.2f} MiB/s shipped")


def steady(
    table: headwater.Table, remote: Path, server: ServerProcess, console: Console, *, seconds: float
) -> None:
    """Append at a steady rate, then nothing, and tell what is shipped and how old it is."""
    rows, before, ages = rows_of(STEADY_ROWS), counted(server), Ages(remote)
    began, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        table.append(rows)
        count += STEADY_ROWS
        time.sleep(max(0.0, count / 100_000 - passed))
    ages.stop()
    told(console, f"{count / passed:,.0f} rows/s", before, server, passed)
    seen = ages.seen[len(ages.seen) // 10 :]
    console.print(
        f"behind: {percentile(seen, 50):.2f} s p50, {percentile(seen, 99):.2f} s p99, "
        f"{max(seen):.2f} s at the most"
    )
    time.sleep(3)
    before, began = counted(server), time.perf_counter()
    time.sleep(seconds)
    told(console, "at rest", before, server, time.perf_counter() - began)


def bring_back(remote: Path, place: Path, console: Console) -> None:
    """Restore, and copy the same bytes durably."""
    ratios = []
    for number in range(3):
        began = time.perf_counter()
        report = restore(DirectoryObjects(remote), place / f"back-{number}", sleep=time.sleep)
        restored_s = time.perf_counter() - began
        began = time.perf_counter()
        shutil.copytree(place / f"back-{number}", place / f"copy-{number}")
        for each in (place / f"copy-{number}").rglob("*"):
            sync_path(each)
        ratios.append((time.perf_counter() - began) / restored_s)
    console.print(
        f"restore of {report.byte_count / MIB:.0f} MiB: {median(ratios):.2f} of the speed of a "
        "copy that is synced"
    )


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        place = Path(name)
        remote = place / "remote"
        options = ("--remote", str(remote), "--metrics-port", "0")
        plain = stack.enter_context(serving(place / "plain"))
        shipping = stack.enter_context(serving(place / "shipping", *options))
        clients = [
            stack.enter_context(headwater.connect(each.address)) for each in (plain, shipping)
        ]
        tables = [each.create_table("rows", COLUMNS) for each in clients]
        compare(tables, console, rounds=given.rounds)
        steady(tables[1], remote, shipping, console, seconds=given.seconds)
        bring_back(remote, place, console)
        console.print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
