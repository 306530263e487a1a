"""Kill -9 under a busy client: it recovers by itself, loses nothing acked, writes nothing twice."""

import asyncio
from collections import Counter

import pytest

from tests.figures import times
from tests.flows.client_writing import batch_of, logged, writing_client
from tests.serving import ServerProcess

ROUNDS = 3
ROUNDS_TORTURE = times(50)
WRITERS = 3
BUCKETS = 2
ACKS_PER_ROUND = 10
LOG = {"writer": "INTEGER", "number": "BIGINT"}
KEYED = {"id": "INTEGER", "number": "BIGINT"}
SUBMITS_PER_FLUSH = 40


class Busy:
    """Write ascending numbers until told to stop, and remember what was acked."""

    def __init__(self, writer: int) -> None:
        self.writer = writer
        self.acked = 0
        self.is_stopping = False
        self._next = 0
        self._some = asyncio.Event()
        self._flushes = 0

    async def some(self) -> None:
        """Wait for acks that come from now on."""
        self._flushes = 0
        self._some.clear()
        await self._some.wait()

    async def run(self, write) -> None:
        while not self.is_stopping:
            numbers = range(self._next, self._next + 1 + self._next % 5)
            self._next = numbers.stop
            await write(self.writer, numbers)
            self.acked = numbers.stop
            self._flushes += 1
            if self._flushes >= ACKS_PER_ROUND:
                self._some.set()


def appending(client, table):
    """Append and wait, one small batch after the other."""
    appender = client.appender(table)

    async def write(writer, numbers):
        await appender.append([batch_of(table, *((writer, number) for number in numbers))])

    return write


def submitting(client, table):
    """Append row by row without waiting, and flush now and then."""
    appender = client.appender(table)

    async def write(writer, numbers):
        for number in numbers:
            await appender.submit(batch_of(table, (writer, number)))
        if numbers.start % SUBMITS_PER_FLUSH < len(numbers):
            await appender.flush()

    return write


def upserting(client, table):
    """Give one key one number after the other."""
    upserter = client.upserter(table)

    async def write(writer, numbers):
        for number in numbers:
            await upserter.submit(batch_of(table, (writer, number)))
        await upserter.flush()

    return write


async def crash_rounds(directory, rounds: int) -> None:
    server = ServerProcess(directory)
    port = server.port
    async with writing_client(port) as client:
        log = await client.create(LOG, bucket_key=["writer"], buckets=BUCKETS)
        keyed = await client.create(KEYED, key=["id"], buckets=BUCKETS)
        writes = [appending(client, log)] * WRITERS + [upserting(client, keyed)] * WRITERS
        busy = [Busy(writer) for writer in range(len(writes))]
        running = [
            asyncio.ensure_future(each.run(write)) for each, write in zip(busy, writes, strict=True)
        ]
        for _ in range(rounds):
            await first_failure(running, asyncio.gather(*(each.some() for each in busy)))
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(ServerProcess, directory, port=port)
        await first_failure(running, asyncio.gather(*(each.some() for each in busy)))
        for each in busy:
            each.is_stopping = True
        await asyncio.gather(*running)
        await check_log(port, log, busy[:WRITERS])
        await check_changes(port, keyed, busy[WRITERS:])
    assert server.stop() == 0


async def first_failure(running, wanted) -> None:
    """Wait for what is wanted, but raise what a writer fails with."""
    wanted = asyncio.ensure_future(wanted)
    done, _ = await asyncio.wait([wanted, *running], return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()


async def check_log(port, table, busy) -> None:
    rows = [row for bucket in range(BUCKETS) for _, row in await logged(port, table, bucket)]
    for each in busy:
        numbers = [number for writer, number in rows if writer == each.writer]
        assert numbers == list(range(each.acked)), "rows are lost, doubled or out of order"


async def check_changes(port, table, busy) -> None:
    changes = [row for bucket in range(BUCKETS) for row in await logged(port, table, bucket)]
    written = [row for kind, row in changes if kind in ("INSERT", "UPDATE_AFTER")]
    assert max(Counter(written).values()) == 1, "a row was written twice"
    for each in busy:
        numbers = [number for key, number in written if key == each.writer]
        assert numbers == sorted(numbers)
        assert numbers[-1] == each.acked - 1


async def test_a_busy_client_survives_kill_9_of_its_server(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_a_busy_client_survives_a_hundred_kills_of_its_server(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS_TORTURE)


async def test_rows_submitted_row_by_row_survive_kill_9(tmp_path):
    server = ServerProcess(tmp_path / "data")
    port = server.port
    async with writing_client(port) as client:
        table = await client.create(LOG, bucket_key=["writer"], buckets=BUCKETS)
        busy = Busy(1)
        running = asyncio.ensure_future(busy.run(submitting(client, table)))
        for _ in range(ROUNDS):
            await first_failure([running], busy.some())
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(ServerProcess, tmp_path / "data", port=port)
        busy.is_stopping = True
        await running
        await client.writers.close()
        await check_log(port, table, [busy])
    assert server.stop() == 0
