"""Let a storage work for an hour, audit it every minute, and see that it grows nowhere.

python -m scripts.soak --minutes 60 --csv soak.csv
All of it runs to the end, tiering goes on, and in three quarters of an hour or more nothing grows.
"""

import argparse
import asyncio
import csv
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests import figures
from tests.serving import ServerProcess
from tests.torture.processes import Process
from tests.torture.server import MODULE, told

from headwater.aio import connect
from headwater.cli.entry import MEMORY
from headwater.errors import MissingError, RetryLaterError
from headwater.model.path import TablePath
from scripts.soak_client import KEYED, LOG
from scripts.soak_judge import (
    AUDIT_S,
    ROOM,
    SAMPLE_S,
    Point,
    grown,
    hardly_seen,
    is_long_enough,
    stalled,
)

AUDIT_WITHIN_S = 300.0
PAGE_BYTES = 4096
# Small files and short times, so that an hour sees many of everything.
SETTINGS = {
    "log": 1 << 20,
    "kv": 256 << 10,
    "state_interval_s": 1.0,
    "kv_snapshot_interval_s": 30.0,
    "retention_check_interval_s": 20.0,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Say how much a process holds at a moment."""

    at_s: float
    process: str
    rss_mib: float
    descriptors: int
    threads: int


@dataclass(slots=True)
class Soak:
    """Hold what runs, what was measured, and what was found."""

    place: Path
    server: ServerProcess
    processes: dict[str, ServerProcess | Process]
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    tiered: dict[str, list[Point]] = field(default_factory=lambda: defaultdict(list))
    audit: Process | None = None
    audit_began_s: float = 0.0
    audits: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def at_s(self) -> float:
        return time.monotonic() - self.began

    def look(self) -> None:
        """Look at all that runs, at how far the lake is, and at the audit."""
        for name, process in self.processes.items():
            if fault := ended(name, process):
                self.faults.append(f"after {self.at_s:.0f} s {fault}")
            else:
                self.samples.append(sample_of(name, process.pid, self.at_s))
        if not self.faults:
            self._look_at_the_lake()
        self._look_at_the_audit()

    def _look_at_the_lake(self) -> None:
        try:
            ends = asyncio.run(tiered_ends(self.server.address))
        except RetryLaterError as fault:
            self.faults.append(f"after {self.at_s:.0f} s the server does not answer: {fault}")
            return
        for table, end in ends.items():
            self.tiered[table].append(Point(self.at_s, end))

    def begin_audit(self, *options: str) -> None:
        """Have the storage judged while it works, and is looked at."""
        command = ("headwater", "audit", "--at", self.server.address, *options)
        self.audit = Process(*command, log=self.place / f"audit{self.audits}.log")
        self.audit_began_s = self.at_s

    def _look_at_the_audit(self) -> None:
        if self.audit is None:
            return
        took_s = self.at_s - self.audit_began_s
        if self.audit.is_running and took_s < AUDIT_WITHIN_S:
            return
        if self.audit.is_running:
            self.audit.kill()
        self.audits += 1
        if self.audit.exit_code:
            self.faults.append(
                f"audit after {self.audit_began_s:.0f} s, for {took_s:.0f} s:"
                f" exit code {self.audit.exit_code}: {self.audit.told()}"
            )
        self.audit = None

    def judge(self) -> list[str]:
        """Return what grew that should not, what stood still, and what was hardly looked at."""
        rounds = len(self.samples) // len(self.processes)
        growth = [
            grown(self.points(process, kind), f"{kind} of the {process}", room)
            for process in self.processes
            for kind, room in ROOM.items()
        ]
        lags = [stalled(points, f"the lake of {name}") for name, points in self.tiered.items()]
        seen = hardly_seen(self.at_s, samples=rounds, audits=self.audits)
        return [fault for fault in (*growth, *lags, *seen) if fault]

    def points(self, process: str, kind: str) -> list[Point]:
        return [
            Point(each.at_s, float(getattr(each, kind)))
            for each in self.samples
            if each.process == process
        ]


def ended(name: str, process: ServerProcess | Process) -> str:
    """Say how a process ended that should run; one that runs says nothing."""
    code = process.exit_code
    if code is None:
        return ""
    return f"the {name} ended with exit code {code}: {process.told()}"


def sample_of(name: str, pid: int, at_s: float) -> Sample:
    """Read from the kernel what a process holds."""
    place = Path("/proc") / str(pid)
    resident_pages = int((place / "statm").read_text().split()[1])
    return Sample(
        round(at_s, 1),
        name,
        round(resident_pages * PAGE_BYTES / (1 << 20), 1),
        len(list((place / "fd").iterdir())),
        len(list((place / "task").iterdir())),
    )


async def tiered_ends(address: str) -> dict[str, int]:
    """Return how many offsets of each table the server knows to be in the lake."""
    found = {}
    async with await connect(address) as client:
        for name in (LOG, KEYED):
            try:
                snapshot = await client.lake.snapshot(TablePath(*name.split(".")))
            except MissingError:
                snapshot = None  # the clients have not made it yet
            found[name] = sum(snapshot.ends.values()) if snapshot else 0
    return found


def soak(place: Path, minutes: float) -> Soak:
    """Run server, clients and a tierer, and look at them until the time is over."""
    with ExitStack() as stack:
        server = ServerProcess(place / "data", module=MODULE, variables=told(**SETTINGS) | MEMORY)
        stack.callback(server.stop)
        clients = Process("scripts.soak_client", server.address, log=place / "clients.log")
        stack.callback(_end, clients)
        tier = ("headwater", "tier", "--here", "--poll", "5", "--at", server.address)
        tierer = Process(*tier, log=place / "tierer.log")
        stack.callback(_end, tierer)
        running = Soak(place, server, {"server": server, "clients": clients, "tierer": tierer})
        stack.callback(_end_audit, running)
        _watch(running, minutes * 60)
        running.faults = running.faults or running.judge()
    if "Traceback" in server.events():
        running.faults.append(f"the server tells of a mistake: {server.events()[-3000:]}")
    return running


def _watch(running: Soak, seconds: float) -> None:
    """Look again and again, with an audit every minute and a deep one at the end."""
    audit_at = AUDIT_S
    while running.at_s < seconds and not running.faults:
        time.sleep(SAMPLE_S)
        running.look()
        if running.at_s >= audit_at and running.audit is None:
            running.begin_audit()
            audit_at = max(audit_at + AUDIT_S, running.at_s)
    _await_audit(running)
    if not running.faults:
        running.begin_audit("--deep")
        _await_audit(running)


def _await_audit(running: Soak) -> None:
    while running.audit is not None and not running.faults:
        time.sleep(SAMPLE_S)
        running.look()


def _end(process: Process) -> None:
    if process.is_running:
        process.stop()


def _end_audit(running: Soak) -> None:
    if running.audit is not None and running.audit.is_running:
        running.audit.kill()


def _write(path: Path, samples: list[Sample]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("at_s", "process", "rss_mib", "descriptors", "threads"))
        table.writerows(
            (each.at_s, each.process, each.rss_mib, each.descriptors, each.threads)
            for each in samples
        )


def _cpu_s() -> float:
    """Return the time that all processes of the soak have computed, now that they are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _result(done: Soak) -> str:
    if done.faults:
        return "failed"
    seconds = done.samples[-1].at_s if done.samples else 0.0
    return "flat" if is_long_enough(seconds) else "clean, too short to judge growth"


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it works")
    parser.add_argument("--csv", type=Path, help="file for what was measured")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="headwater-soak-") as place:
        done = soak(Path(place), options.minutes)
    if options.csv is not None:
        _write(options.csv, done.samples)
    for fault in done.faults:
        print(f"soak: {fault}", file=sys.stderr)
    last = {each.process: each for each in done.samples}
    held = ", ".join(
        f"{name} {each.rss_mib:.0f} MiB, {each.descriptors} descriptors, {each.threads} threads"
        for name, each in last.items()
    )
    result = _result(done)
    cores = f"{100 * _cpu_s() / done.at_s:.0f} % of a core"
    print(f"soak: {done.at_s / 60:.1f} minutes, {done.audits} audits, {cores}, {result}: {held}")
    figures.note(
        "soak", minutes=round(done.at_s / 60, 1), audits=done.audits, samples=len(done.samples)
    )
    return int(bool(done.faults))


if __name__ == "__main__":
    sys.exit(main())
