"""Redis: streams for logs and strings for keys, with an append-only file."""

import asyncio
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening

from benchmarks.peers.peer import NotOffered, Peer, Server, each_timed
from benchmarks.peers.programs import ensure_program
from benchmarks.peers.work import key_bytes, keyed_batches, messages, packed

READY_WITHIN_S = 30.0
POLL_S = 0.005
AT_ONCE = 5_000
SEEN_WITHIN_MS = 30_000


class RedisServer(Server):
    """Run a server that keeps what it was told in a file."""

    name = "Redis"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._program = ensure_program("redis-server", "redis-server")
        told = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=True
        )
        self.version = re.search(r"v=([\d.]+)", told.stdout).group(1)
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"redis://{HOST}:{self._port}"

    @property
    def pids(self) -> Sequence[int]:
        assert self._process is not None
        return [self._process.pid]

    def start(self) -> None:
        options = ["--port", str(self._port), "--bind", HOST, "--dir", str(self.directory)]
        kept = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self._process = subprocess.Popen(
            [self._program, *options, *kept], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_listening(HOST, self._port):
            assert time.monotonic() < deadline, "Redis does not listen"
            time.sleep(POLL_S)

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


class Redis(Peer):
    """Work through `redis-py` with hiredis: an entry of a stream for each row."""

    name = "Redis"
    client = "redis-py"
    note = "all of it is in memory; it syncs once a second; an entry of a stream for each row"

    async def open(self) -> None:
        import redis.asyncio  # noqa: PLC0415 - installed for this run only

        self._redis = redis.asyncio.from_url(self.server.address)
        await self._redis.ping()

    async def close(self) -> None:
        await self._redis.aclose()

    async def new_log(self, name: str, *, buckets: int) -> None:  # noqa: ARG002 - it has none
        await self._redis.delete(name)

    async def append(self, log: str, rows: int) -> None:
        sent = messages(rows)
        for at in range(0, len(sent), AT_ONCE):
            async with self._redis.pipeline(transaction=False) as together:
                for message in sent[at : at + AT_ONCE]:
                    together.xadd(log, {b"r": message})
                await together.execute()

    async def append_each(self, log: str, count: int) -> list[float]:
        rows = messages(10_000)
        return await each_timed(lambda at: self._redis.xadd(log, {b"r": rows[at]}), count)

    async def see_each(self, log: str, count: int) -> list[float]:
        rows, last = messages(10_000), "$"

        async def see(number: int) -> None:
            nonlocal last
            seeing = asyncio.ensure_future(self._redis.xread({log: last}, block=SEEN_WITHIN_MS))
            await asyncio.sleep(0)
            if last == "$":  # what comes before it asks is not seen
                await asyncio.sleep(0.2)
            last = await self._redis.xadd(log, {b"r": rows[number]})
            assert await seeing

        await see(0)
        return await each_timed(see, count)

    async def scan(self, log: str, rows: int) -> int:  # noqa: ARG002 - it knows where the end is
        seen, after = 0, b"-"
        while found := await self._redis.xrange(log, min=after, count=AT_ONCE):
            seen += len(found)
            after = b"(" + found[-1][0]
        return seen

    async def new_keyed(self, name: str, *, buckets: int) -> None:
        """Nothing is to be made."""

    async def upsert(self, table: str, rows: int) -> None:  # noqa: ARG002
        raise NotOffered("rows by key, but no changelog of them")

    async def fill(self, table: str, rows: int) -> None:
        """Set keys, so that they can be looked up."""
        for batch in keyed_batches(rows):
            keys = batch.column(0).to_pylist()
            await self._redis.mset(
                {self._key(table, key): row for key, row in zip(keys, packed(batch), strict=True)}
            )

    def _key(self, table: str, key: int) -> bytes:
        return table.encode() + b":" + key_bytes(key)

    async def get_each(self, table: str, keys: Sequence[int]) -> list[float]:
        async def get(number: int) -> None:
            assert await self._redis.get(self._key(table, keys[number])) is not None

        return await each_timed(get, len(keys))

    async def get_many(self, table: str, keys: Sequence[Sequence[int]]) -> list[float]:
        async def get(number: int) -> None:
            found = await self._redis.mget([self._key(table, key) for key in keys[number]])
            assert all(each is not None for each in found)

        return await each_timed(get, len(keys))
