"""How long servers take from nothing to the first row, and what they hold at rest."""

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.peer import Peer, Server

STARTS = 3
REST_S = 3.0


@dataclass(frozen=True, slots=True)
class Started:
    """Say how long a server took to its first acked row, and what it holds at rest."""

    seconds: tuple[float, ...]
    rest_bytes: int

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


async def start(
    make: Callable[[Path], Server], client: Callable[[Server], Peer], place: Path
) -> tuple[Server, Started]:
    """Start a server several times on nothing, and leave the last one running."""
    taken = []
    for number in range(STARTS):
        server = make(place / str(number))
        server.prepare()
        began = time.perf_counter()
        server.start()
        peer = client(server)
        await _first_row(peer)
        taken.append(time.perf_counter() - began)
        await peer.close()
        if number < STARTS - 1:
            server.stop()
    await asyncio.sleep(REST_S)
    return server, Started(tuple(taken), server.memory_bytes)


async def _first_row(peer: Peer) -> None:
    await peer.open()
    await peer.new_log("first", buckets=1)
    await peer.append_each("first", 1)
