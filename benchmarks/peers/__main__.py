"""Measure Headwater beside its peers: `python -m benchmarks.peers`.

All servers run at the same time on this machine and take turns, so that what disturbs one disturbs
all; only ratios within a run say something. Clients of the peers, Kafka's and Fluss's jars, Redis
and NATS are installed where they are missing. The table goes to the screen and, with a picture of
it, into a folder.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGINT, SIGTERM

from benchmarks.peers import chart
from benchmarks.peers.fluss_servers import Fluss, Headwater
from benchmarks.peers.growth import Growth, rows_of
from benchmarks.peers.kafka import Kafka, KafkaServer
from benchmarks.peers.measuring import Rounds
from benchmarks.peers.nats import Nats, NatsServer
from benchmarks.peers.own_client import OwnClient
from benchmarks.peers.peer import Peer, Server
from benchmarks.peers.programs import ROOT, ensure_packages
from benchmarks.peers.pyfluss_client import PyflussClient
from benchmarks.peers.redis_streams import Redis, RedisServer
from benchmarks.peers.results import Line, lines_of, markdown, short_markdown, told
from benchmarks.peers.starting import Started, start
from benchmarks.peers.work import Sizes

PLACE = ROOT / "docs" / "images"
# The first client of each server is the one that its start is measured with.
PEERS: dict[str, tuple[Callable[[Path], Server], tuple[Callable[[Server], Peer], ...]]] = {
    "headwater": (Headwater, (OwnClient, PyflussClient, lambda server: OwnClient(server, acks=-1))),
    "fluss": (Fluss, (OwnClient, PyflussClient)),
    "kafka": (KafkaServer, (Kafka,)),
    "nats": (NatsServer, (Nats,)),
    "redis": (RedisServer, (Redis,)),
}
SHARES = {"NATS JetStream": 0.1, "Redis": 0.2}


@dataclass(slots=True)
class Machine:
    """Hold all servers that run, and how they started."""

    stack: ExitStack
    scratch: Path
    servers: dict[str, Server] = field(default_factory=dict)
    started: dict[str, Started] = field(default_factory=dict)
    peers: list[Peer] = field(default_factory=list)

    async def start(self, names: Sequence[str]) -> None:
        """Start one server after the other, and leave all of them running."""
        for name in names:
            make, clients = PEERS[name]
            server, began = await start(make, clients[0], self.scratch / name)
            self.stack.callback(server.stop)
            _tell(f"{server.name} {server.version}: {began.median_s:.2f} s to the first row")
            self.servers[server.name], self.started[server.name] = server, began
            self.peers += [client(server) for client in clients]

    async def run(self, sizes: Sizes) -> Rounds:
        """Give all peers their work in turns."""
        for peer in self.peers:
            await peer.open()
        rounds = Rounds(self.peers, sizes, SHARES, _tell)
        await rounds.run()
        for peer in self.peers:
            await peer.close()
        return rounds

    def lines(self, rounds: Rounds) -> list[Line]:
        peaks = {name: server.memory_bytes_most for name, server in self.servers.items()}
        return lines_of(rounds.measured, self.started, peaks, [each.name for each in self.peers])


async def main() -> None:
    options = _options()
    # As Ctrl-C does, so that whoever ends us leaves no servers behind.
    asyncio.get_running_loop().add_signal_handler(SIGTERM, os.kill, os.getpid(), SIGINT)
    ensure_packages()
    sizes = Sizes(rounds=options.rounds).scaled(options.times)
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="headwater-peers-", dir=options.scratch))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        machine = Machine(stack, scratch)
        await machine.start(options.peers.split(","))
        rounds = await machine.run(sizes)
        lines, names = machine.lines(rounds), [each.name for each in machine.peers]
        growth = Growth(machine.servers["Headwater"], _tell)
        if options.rows_max:
            await growth.run(rows_max=options.rows_max)
    texts = [_about(machine, sizes), short_markdown(lines, list(machine.servers))]
    texts += [markdown(lines, names), _left_out(rounds)]
    texts += [_growth(growth)] if growth.costs else []
    text = "\n\n".join(texts) + "\n"
    print(text)
    options.place.mkdir(parents=True, exist_ok=True)
    (options.place / "peers.md").write_text(text, encoding="utf-8")
    raw = [asdict(each) for each in rounds.measured]
    (options.place / "peers.json").write_text(json.dumps(raw), encoding="utf-8")
    title = f"Headwater and its peers, {datetime.now(UTC):%Y-%m-%d}"
    chart.save(lines, names, options.place, title=title, about=texts[0])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="which; headwater has to be there")
    parser.add_argument("--times", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count")
    parser.add_argument(
        "--rows-max", type=int, default=10_000_000, help="rows of the largest table; 0: no growth"
    )
    parser.add_argument("--place", type=Path, default=PLACE, help="folder for table and picture")
    parser.add_argument("--scratch", type=Path, help="folder for the data of all servers")
    return parser.parse_args()


def _about(machine: Machine, sizes: Sizes) -> str:
    versions = ", ".join(f"{each.name} {each.version}" for each in machine.servers.values())
    notes = "; ".join(f"{each.name}: {each.note}" for each in machine.peers if each.note)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {versions}. Medians of {sizes.rounds} rounds in turns, with"
        f" the least and the most. {sizes.append_rows:,} rows of 104 bytes in 10 columns,"
        f" {sizes.upsert_rows:,} of them upserted. Nobody syncs before an ack unless it says so."
        f" {notes}."
    )


def _left_out(rounds: Rounds) -> str:
    reasons: dict[str, list[str]] = {}
    for (name, work), reason in rounds.not_offered.items():
        reasons.setdefault(f"{name}: {reason}", []).append(work)
    return "\n".join(f"- {reason} ({', '.join(works)})." for reason, works in reasons.items())


def _growth(growth: Growth) -> str:
    head = "| what | size | µs per row | of them server | of them client |\n|---|---|---|---|---|\n"
    return head + "\n".join(
        f"| {what} | {size:,} | {told(wall)} | {told(server)} | {told(client)} |"
        for what, size, wall, server, client in rows_of(growth.costs)
    )


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
