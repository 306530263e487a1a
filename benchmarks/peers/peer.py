"""What each peer can do, and the processes that it is made of."""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EACH_S_MAX = 8.0


class NotOffered(Exception):  # noqa: N818 - it is no error
    """Tell that a peer has no such thing, and what comes nearest."""


class Server:
    """Hold the processes of one peer, its version and its directory."""

    name = ""
    version = ""
    durability = "acks when the operating system has the rows; it writes them to disk later"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """Return where clients reach it."""
        raise NotImplementedError

    @property
    def pids(self) -> Sequence[int]:
        """Return the ids of all its processes."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Do what is done once, before the first start."""

    def start(self) -> None:
        """Start it, and return when it listens."""
        raise NotImplementedError

    def stop(self) -> None:
        """End its processes."""
        raise NotImplementedError

    @property
    def disk_bytes(self) -> int:
        """Return what its files take up on disk."""
        files = (each for each in self.directory.rglob("*") if each.is_file())
        return sum(each.stat().st_blocks * 512 for each in files)

    @property
    def cpu_s(self) -> float:
        """Return the time that its processes have computed."""
        return sum(_cpu_s(pid) for pid in self.pids)

    @property
    def memory_bytes(self) -> int:
        """Return the memory that its processes have now."""
        return sum(_memory_bytes(pid, "VmRSS") for pid in self.pids)

    @property
    def memory_bytes_most(self) -> int:
        """Return the most memory that its processes ever had."""
        return sum(_memory_bytes(pid, "VmHWM") for pid in self.pids)


class Peer:
    """Do the work with one client on one server; what is not overridden is not offered."""

    name = ""
    client = ""
    note = ""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def open(self) -> None:
        """Connect."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of the server."""

    async def new_log(self, name: str, *, buckets: int) -> None:
        """Make a log."""
        raise NotImplementedError

    async def append(self, log: str, rows: int) -> None:
        """Append so many rows, and wait until all are acked."""
        raise NotImplementedError

    async def append_each(self, log: str, count: int) -> list[float]:
        """Append rows one after the other, and return how long each took."""
        raise NotImplementedError

    async def see_each(self, log: str, count: int) -> list[float]:
        """Append rows while somebody follows, and return how long each took to be seen."""
        raise NotImplementedError

    async def scan(self, log: str, rows: int) -> int:
        """Read all rows, and return how many."""
        raise NotImplementedError

    async def scan_some(self, log: str, rows: int) -> int:  # noqa: ARG002
        """Read all rows of one column."""
        raise NotOffered("it has no columns: everything is read")

    async def new_keyed(self, name: str, *, buckets: int) -> None:  # noqa: ARG002
        """Make a table with a primary key."""
        raise NotOffered("no tables with a key and a changelog")

    async def upsert(self, table: str, rows: int) -> None:  # noqa: ARG002
        """Upsert rows with keys from 0 up."""
        raise NotOffered("no tables with a key and a changelog")

    async def fill(self, table: str, rows: int) -> None:
        """See that there are rows to look up."""
        await self.upsert(table, rows)

    async def get_each(self, table: str, keys: Sequence[int]) -> list[float]:  # noqa: ARG002
        """Look up keys one after the other, and return how long each took."""
        raise NotOffered("no lookups")

    async def get_many(self, table: str, keys: Sequence[Sequence[int]]) -> list[float]:  # noqa: ARG002
        """Look up many keys at once, and return how long each lookup took."""
        raise NotOffered("no lookups")


async def each_timed(work: Callable[[int], Awaitable[object]], count: int) -> list[float]:
    """Do something again and again, not for ever, and return how long each took."""
    taken: list[float] = []
    until = time.perf_counter() + EACH_S_MAX
    for number in range(count):
        began = time.perf_counter()
        if began > until:
            break
        await work(number)
        taken.append(time.perf_counter() - began)
    return taken


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _memory_bytes(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024
