"""NATS JetStream: one server with streams in files, and its asyncio client."""

import asyncio
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening

from benchmarks.peers.peer import Peer, Server, each_timed
from benchmarks.peers.programs import ensure_program
from benchmarks.peers.work import messages

READY_WITHIN_S = 30.0
POLL_S = 0.01
INFLIGHT = 1_000
FETCHED_AT_ONCE = 1_000


class NatsServer(Server):
    """Run a server with JetStream."""

    name = "NATS JetStream"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._program = ensure_program("nats-server", "nats-server")
        told = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=True
        )
        self.version = re.search(r"[\d.]+", told.stdout).group()
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"nats://{HOST}:{self._port}"

    @property
    def pids(self) -> Sequence[int]:
        assert self._process is not None
        return [self._process.pid]

    def start(self) -> None:
        options = ["-js", "-a", HOST, "-p", str(self._port), "-sd", str(self.directory)]
        self._process = subprocess.Popen([self._program, *options], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_listening(HOST, self._port):
            assert time.monotonic() < deadline, "NATS does not listen"
            time.sleep(POLL_S)

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


class Nats(Peer):
    """Work through `nats-py`: one message for each row."""

    name = "NATS JetStream"
    client = "nats-py"
    note = "one message for each row; its client is Python and takes most of the time"

    async def open(self) -> None:
        import nats  # noqa: PLC0415 - installed for this run only

        self._connection = await nats.connect(self.server.address)
        self._streams = self._connection.jetstream(timeout=30)

    async def close(self) -> None:
        await self._connection.close()

    async def new_log(self, name: str, *, buckets: int) -> None:  # noqa: ARG002 - it has none
        await self._streams.add_stream(name=name, subjects=[f"{name}.*"])

    async def append(self, log: str, rows: int) -> None:
        sent = messages(rows)
        for at in range(0, len(sent), INFLIGHT):
            some = sent[at : at + INFLIGHT]
            await asyncio.gather(*(self._streams.publish(f"{log}.0", each) for each in some))

    async def append_each(self, log: str, count: int) -> list[float]:
        rows = messages(10_000)
        return await each_timed(lambda at: self._streams.publish(f"{log}.0", rows[at]), count)

    async def see_each(self, log: str, count: int) -> list[float]:
        rows = messages(10_000)
        following = await self._streams.subscribe(f"{log}.0", ordered_consumer=True)
        await asyncio.sleep(0.2)
        while following.pending_msgs:
            await following.next_msg()

        async def see(number: int) -> None:
            seeing = asyncio.ensure_future(following.next_msg(timeout=READY_WITHIN_S))
            await self._streams.publish(f"{log}.0", rows[number])
            await seeing

        taken = await each_timed(see, count)
        await following.unsubscribe()
        return taken

    async def scan(self, log: str, rows: int) -> int:
        pulled = await self._streams.pull_subscribe(f"{log}.0", config=self._unacked())
        seen = 0
        while seen < rows:
            seen += len(await pulled.fetch(FETCHED_AT_ONCE, timeout=READY_WITHIN_S))
        await pulled.unsubscribe()
        return seen

    def _unacked(self):  # noqa: ANN202 - untyped
        from nats.js.api import AckPolicy, ConsumerConfig  # noqa: PLC0415

        return ConsumerConfig(ack_policy=AckPolicy.NONE)
