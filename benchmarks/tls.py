"""What TLS costs: `python -m benchmarks.tls`.

Two servers, one with TLS. `get` of one row and bulk appends take turns,
so that both meet the same machine. Prints medians, processor time of client and server, and the
ratios with TLS to without. With `--half-open 5000`, so many connections that never finish a
handshake are opened to the server meanwhile, and the 99th percentile of `get` over TLS is shown
beside them and on a third server without them. Both take turns, a few `get`s each, because on a
machine that others use a percentile of one minute says little about the next.
"""

import argparse
import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pyarrow as pa
from rich.console import Console
from tests.serving import ServerProcess, serving

import headwater
from benchmarks.latency import percentile
from headwater.cli.security import make_certificate

ROUNDS, GETS_PER_ROUND = 20, 50
OPENED_PER_TURN, GETS_PER_TURN = 20, 20
BULK_ROWS = 200_000
COLUMNS = {"id": "BIGINT", "name": "STRING", "v": "DOUBLE"}
HELLO = b"\x16\x03\x01\x02\0\x01"


def cpu_s(process: int) -> float:
    """Return the processor time of a process so far."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Side:
    """One way to the server, and what it took."""

    def __init__(self, client: headwater.Client, name: str, server: int) -> None:
        self.keyed = client.create_table(f"keyed_{name}", COLUMNS, primary_key="id")
        self.log = client.create_table(f"log_{name}", COLUMNS)
        self.keyed.upsert([{"id": each, "name": f"n{each}", "v": 1.0} for each in range(1000)])
        self.server = server
        self.took: dict[str, list[float]] = {}
        self.cpu: dict[str, float] = {}

    def measure(self, name: str, work: Callable[[], object]) -> None:
        """Add one measurement."""
        cpu, began = time.process_time() + cpu_s(self.server), time.perf_counter()
        work()
        self.took.setdefault(name, []).append(time.perf_counter() - began)
        used = time.process_time() + cpu_s(self.server) - cpu
        self.cpu[name] = self.cpu.get(name, 0.0) + used

    def gets(self, count: int) -> list[float]:
        """Look up rows one by one and return how long each took."""
        found = []
        for number in range(count):
            began = time.perf_counter()
            self.keyed.get(number % 1000)
            found.append(time.perf_counter() - began)
        return found


def rows_of(count: int) -> pa.Table:
    """Make rows to append."""
    numbers = pa.array(range(count), pa.int64())
    names = pa.array([f"name {each}" for each in range(count)])
    return pa.table({"id": numbers, "name": names, "v": numbers.cast(pa.float64())})


def compare(plain: Side, secured: Side, console: Console, *, rounds: int) -> None:
    """Let both take turns, and tell the ratios."""
    rows = rows_of(BULK_ROWS)
    for number in range(rounds):
        for side in (plain, secured):
            side.measure("get", lambda side=side: side.gets(GETS_PER_ROUND))
            if number % 4 == 0:
                side.measure("bulk append", lambda side=side: side.log.append(rows))
    for name in ("get", "bulk append"):
        ratio = median(secured.took[name]) / median(plain.took[name])
        cpu = secured.cpu[name] / plain.cpu[name]
        console.print(f"{name}: with TLS {ratio:.2f} of the time, {cpu:.2f} of the processor time")


def crowd(
    server: ServerProcess, secured: Side, quiet: Side, console: Console, *, count: int
) -> None:
    """Tell the 99th percentile of `get` beside connections that never finish a handshake."""
    host, _, port = server.address.rpartition(":")
    opened: list[socket.socket] = []
    alone: list[float] = []
    beside: list[float] = []
    for side in (secured, quiet):
        side.gets(GETS_PER_ROUND)
    for number in range(count):
        opened.append(socket.create_connection((host, int(port)), 5))
        if number % 2:
            opened[-1].send(HELLO)
        if number % OPENED_PER_TURN == 0:
            beside += secured.gets(GETS_PER_TURN)
            alone += quiet.gets(GETS_PER_TURN)
    for each in opened:
        each.close()
    before, after = percentile(alone, 99), percentile(beside, 99)
    console.print(
        f"get with TLS, p99 of {len(beside)}: {before * 1e6:.0f} µs on a server of its own, "
        f"{after * 1e6:.0f} µs beside {count} half-open connections: {after / before:.2f} times; "
        f"median {median(beside) / median(alone):.2f} times"
    )


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--half-open", type=int, default=0)
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        made = make_certificate.make_server(directory / "ca", ["localhost", "127.0.0.1"], days=2)
        options = [f"--tls-certificate={made}", f"--tls-key={made.with_suffix('.key')}"]
        plain_server = stack.enter_context(serving(directory / "plain"))
        tls_server = stack.enter_context(serving(directory / "tls", *options))
        ca = str(directory / "ca" / "ca.pem")
        clients = (
            stack.enter_context(headwater.connect(plain_server.address)),
            stack.enter_context(headwater.connect(tls_server.address, tls=True, tls_ca_file=ca)),
        )
        plain = Side(clients[0], "plain", plain_server.pid)
        secured = Side(clients[1], "tls", tls_server.pid)
        compare(plain, secured, console, rounds=given.rounds)
        if given.half_open:
            third = stack.enter_context(serving(directory / "quiet", *options))
            login = headwater.connect(third.address, tls=True, tls_ca_file=ca)
            quiet = Side(stack.enter_context(login), "quiet", third.pid)
            crowd(tls_server, secured, quiet, console, count=given.half_open)
        console.print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
