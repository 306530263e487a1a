"""Give the work to all peers in turns, and note what each took."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peers.peer import NotOffered, Peer
from benchmarks.peers.work import BATCH_ROWS, BUCKETS, Sizes, Work

LOOKED_UP_TOGETHER = 100
WARM_UP = 0
"""The round that is not counted; whoever compiles while it runs has done so after it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Say what one work took once: wall time, and what client and server computed."""

    peer: str
    work: Work
    round: int
    rows: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    times_s: tuple[float, ...] = ()
    """How long each took, where they were done one after the other."""
    disk_bytes: int = 0


@dataclass(slots=True)
class Rounds:
    """Run all work on all peers, again and again, and hold what was measured."""

    peers: Sequence[Peer]
    sizes: Sizes
    shares: dict[str, float]
    """How much of the rows peers get whose client is slow; rates are told, so that it is fair."""
    tell: Callable[[str], None]
    measured: list[Measured] = field(default_factory=list)
    not_offered: dict[tuple[str, Work], str] = field(default_factory=dict)

    async def run(self) -> None:
        """Run one round to warm up, and then those that count."""
        for number in range(self.sizes.rounds + 1):
            for work in Work:
                first = number % len(self.peers)  # nobody is always the first
                for peer in (*self.peers[first:], *self.peers[:first]):
                    await self._run_once(peer, work, number)
            self.tell(f"round {number} of {self.sizes.rounds}")

    async def _run_once(self, peer: Peer, work: Work, number: int) -> None:
        if (peer.name, work) in self.not_offered:
            return
        try:
            found = await self._measure(peer, work, number)
        except NotOffered as reason:
            self.not_offered[peer.name, work] = str(reason)
            return
        if number != WARM_UP:
            self.measured.append(found)

    async def _measure(self, peer: Peer, work: Work, number: int) -> Measured:
        share = self.sizes.append_rows * self.shares.get(peer.name, 1.0)
        rows = max(1, int(share // BATCH_ROWS)) * BATCH_ROWS
        turn = _Turn(peer, f"{peer.client}_{number}_{self.peers.index(peer)}", rows, self.sizes)
        if work == Work.LOOKUP and (peer.name, Work.UPSERT) in self.not_offered:
            await peer.fill(turn.keyed, self.sizes.upsert_rows)
        count, do = await turn.prepared(work, number)
        return await _timed(peer, work, number, count, do)


Job = tuple[int, Callable[[], Awaitable[object]]]
"""How many rows or calls there are, and what is to be done with the clock running."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Prepare work for one peer in one round, on tables of its own."""

    peer: Peer
    name: str
    rows: int
    sizes: Sizes

    @property
    def keyed(self) -> str:
        return f"keyed_{self.name}"

    async def prepared(self, work: Work, seed: int) -> Job:
        """Make the tables that are written first, and return what is measured."""
        peer, sizes, upserted = self.peer, self.sizes, self.sizes.upsert_rows
        log, one, keyed = f"log_{self.name}", f"one_{self.name}", self.keyed
        if work == Work.APPEND:
            await peer.new_log(log, buckets=BUCKETS)
        elif work == Work.ACK:
            await peer.new_log(one, buckets=1)
        elif work == Work.UPSERT:
            await peer.new_keyed(keyed, buckets=BUCKETS)
        keys = _keys(seed, sizes.lookups, upserted)
        many = [
            _keys(seed + each, LOOKED_UP_TOGETHER, upserted) for each in range(sizes.lookup_batches)
        ]
        jobs: dict[Work, Job] = {
            Work.APPEND: (self.rows, lambda: peer.append(log, self.rows)),
            Work.ACK: (sizes.acks, lambda: peer.append_each(one, sizes.acks)),
            Work.VISIBLE: (sizes.acks, lambda: peer.see_each(one, sizes.acks)),
            Work.SCAN: (self.rows, lambda: peer.scan(log, self.rows)),
            Work.SCAN_SOME: (self.rows, lambda: peer.scan_some(log, self.rows)),
            Work.UPSERT: (upserted, lambda: peer.upsert(keyed, upserted)),
            Work.LOOKUP: (len(keys), lambda: peer.get_each(keyed, keys)),
            Work.LOOKUP_MANY: (len(many), lambda: peer.get_many(keyed, many)),
        }
        return jobs[work]


async def _timed(
    peer: Peer, work: Work, number: int, rows: int, do: Callable[[], Awaitable[object]]
) -> Measured:
    disk, server, client = peer.server.disk_bytes, peer.server.cpu_s, time.process_time()
    began = time.perf_counter()
    result = await do()
    wall = time.perf_counter() - began
    if isinstance(result, int):
        assert result == rows, f"{peer.name}: {work}: {result} of {rows} rows"
    return Measured(
        peer=peer.name,
        work=work,
        round=number,
        rows=rows,
        wall_s=wall,
        client_cpu_s=time.process_time() - client,
        server_cpu_s=peer.server.cpu_s - server,
        times_s=tuple(result) if isinstance(result, list) else (),
        disk_bytes=peer.server.disk_bytes - disk,
    )


def _keys(seed: int, count: int, below: int) -> list[int]:
    return np.random.default_rng(seed).choice(below, count, replace=False).tolist()
