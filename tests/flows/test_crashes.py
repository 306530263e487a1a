"""Kill -9 while four writers append: every acked row is there exactly once, offsets have no gap."""

import asyncio
from collections import Counter

import pytest

from tests.figures import times
from tests.flows.appending import Writer, read_rows, with_table
from tests.serving import ServerProcess

ROUNDS = 3
ROUNDS_TORTURE = times(80)
WRITERS = 4
BUCKETS = 2


async def crash_rounds(directory, rounds: int) -> None:
    writers = [Writer(number) for number in range(WRITERS)]
    server = ServerProcess(directory)
    table_id = await with_table(server.port, buckets=BUCKETS)
    for _ in range(rounds):
        appending = [
            asyncio.ensure_future(each.append_until_cut(server.port, table_id, BUCKETS))
            for each in writers
        ]
        await asyncio.gather(*(each.acked_some() for each in writers))
        await asyncio.to_thread(server.kill)
        await asyncio.gather(*appending)
        server = ServerProcess(directory)
        await check(server.port, table_id, writers)
    assert server.stop() == 0


async def check(port: int, table_id: int, writers: list[Writer]) -> None:
    rows = await read_rows(port, table_id, buckets=BUCKETS)
    counts = Counter(rows)
    acked = set().union(*(writer.acked for writer in writers))
    sent = set().union(*(writer.sent for writer in writers))
    assert not [row for row in acked if counts[row] != 1], "an acked row is missing or doubled"
    assert max(counts.values()) == 1, "a row is there twice"
    assert set(counts) <= sent, "a row is there that nobody sent"


async def test_every_acked_row_survives_kill_9_exactly_once(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_every_acked_row_survives_two_hundred_kills(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS_TORTURE)
