"""Let a storage work for an hour, audit it every minute, and see that it grows nowhere.

python -m scripts.soak --minutes 60 --csv soak.csv
"""

import argparse
import csv
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests import figures
from tests.serving import ServerProcess
from tests.torture.processes import Process
from tests.torture.server import MODULE, told

SAMPLE_S = 10.0
AUDIT_S = 60.0
AUDIT_WITHIN_S = 300.0
# A quarter is warm-up. Then nothing grows: the median of the last quarter is at most this much
# above that of the second.
GROWTH_MAX = 1.05
ROOM = {"rss_mib": 16.0, "descriptors": 8.0, "threads": 2.0}
SAMPLES_MIN = 120  # in less than twenty minutes everything is still warming up
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

    server: ServerProcess
    processes: dict[str, int]
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    audits: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def at_s(self) -> float:
        return time.monotonic() - self.began

    def sample(self) -> None:
        """Measure every process; one that is gone is a fault."""
        for name, pid in self.processes.items():
            try:
                self.samples.append(sample_of(name, pid, self.at_s))
            except (FileNotFoundError, ProcessLookupError):
                self.faults.append(f"{name} ended after {self.at_s:.0f} s")

    def audit(self, *options: str) -> None:
        """Have the storage judged while it works."""
        command = [sys.executable, "-m", "headwater", "audit", "--at", self.server.address]
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            timeout=AUDIT_WITHIN_S,
            check=False,
        )
        self.audits += 1
        if done.returncode:
            self.faults.append(f"audit after {self.at_s:.0f} s: {done.stdout[-3000:]}{done.stderr}")

    def growth(self) -> list[str]:
        """Return what grew that should not."""
        return [
            fault
            for process in self.processes
            for kind in ROOM
            if (fault := grown(self.values(process, kind), f"{kind} of the {process}", ROOM[kind]))
        ]

    def values(self, process: str, kind: str) -> list[float]:
        return [float(getattr(each, kind)) for each in self.samples if each.process == process]


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


def grown(values: list[float], what: str, room: float) -> str:
    """Say by how much something grew, if it did; too few values say nothing."""
    if len(values) < SAMPLES_MIN:
        return ""
    quarter = len(values) // 4
    early, late = median(values[quarter : 2 * quarter]), median(values[-quarter:])
    if late <= early * GROWTH_MAX + room:
        return ""
    return f"{what} grew from {early:.1f} to {late:.1f}"


def soak(place: Path, minutes: float) -> Soak:
    """Run server, clients and a tierer, and look at them until the time is over."""
    with ExitStack() as stack:
        server = ServerProcess(place / "data", module=MODULE, variables=told(**SETTINGS))
        stack.callback(server.stop)
        clients = Process("scripts.soak_client", server.address, log=place / "clients.log")
        stack.callback(_end, clients)
        tier = ("headwater", "tier", "--here", "--poll", "5", "--at", server.address)
        tierer = Process(*tier, log=place / "tierer.log")
        stack.callback(_end, tierer)
        pids = {"server": server.pid, "clients": clients.pid, "tierer": tierer.pid}
        running = Soak(server, pids)
        _watch(running, minutes * 60)
        if not clients.is_running:
            running.faults.append(f"the clients ended: {clients.told()}")
        running.audit("--deep")
    running.faults += running.growth()
    if "Traceback" in server.events():
        running.faults.append(f"the server tells of a mistake: {server.events()[-3000:]}")
    return running


def _watch(running: Soak, seconds: float) -> None:
    audit_at = AUDIT_S
    while running.at_s < seconds and not running.faults:
        time.sleep(SAMPLE_S)
        running.sample()
        if running.at_s >= audit_at:
            running.audit()
            audit_at += AUDIT_S


def _end(process: Process) -> None:
    if process.is_running:
        process.stop()


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
    result = "failed" if done.faults else "flat"
    cores = f"{100 * _cpu_s() / done.at_s:.0f} % of a core"
    print(f"soak: {done.at_s / 60:.1f} minutes, {done.audits} audits, {cores}, {result}: {held}")
    figures.note(
        "soak", minutes=round(done.at_s / 60, 1), audits=done.audits, samples=len(done.samples)
    )
    return int(bool(done.faults))


if __name__ == "__main__":
    sys.exit(main())
