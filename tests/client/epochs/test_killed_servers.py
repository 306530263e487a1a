"""Kill -9 of the server while epochs are written: everything is there once."""

import asyncio

import pytest

from headwater import aio
from headwater.epochs import batches as cut
from tests.choices import EVERYTHING
from tests.client.epochs.attempts import Course, Cut, attempt
from tests.serving import ServerProcess

ROUNDS = 4 if EVERYTHING else 2
BATCHES = 30
SCHEMA = {"id": "BIGINT", "amount": "BIGINT"}
TABLES = {
    "log": {"bucket_by": "id", "buckets": 2},
    "sum": {
        "primary_key": "id",
        "buckets": 2,
        "options": {"table.merge-engine": "aggregation", "fields.amount.agg": "sum"},
    },
}


class Signal(Course):
    """Tell when an attempt has done some of its writes."""

    def __init__(self, passing):
        super().__init__()
        self._passing = passing
        self.is_under_way = asyncio.Event()

    async def exchange(self, send, *, is_write):
        self.writes += is_write
        if self.writes > self._passing:
            self.is_under_way.set()
        return await send()


@pytest.fixture(autouse=True)
def one_row_in_a_batch(monkeypatch):
    monkeypatch.setattr(cut, "BATCH_ROWS_MAX", 1)


def rows(epoch):
    return [{"id": number, "amount": 10**epoch} for number in range(BATCHES)]


def expected(kind):
    powers = [10**epoch for epoch in range(ROUNDS)]
    return sorted(powers * BATCHES) if kind == "log" else [sum(powers)] * BATCHES


@pytest.fixture
def server(tmp_path):
    """Hold a server that can be killed."""
    held = [ServerProcess(tmp_path / "data")]
    yield held
    held[0].stop()


def killed(server):
    """Kill a server and start another in its place."""
    server[0].kill()
    server[0] = ServerProcess(server[0].directory, port=server[0].port)


@pytest.mark.parametrize("kind", TABLES)
async def test_epochs_are_there_once_after_the_server_was_killed(server, kind):
    async with await aio.connect(server[0].address) as client:
        path = (await client.create_table("orders", SCHEMA, **TABLES[kind])).path
        for epoch in range(ROUNDS):
            given = {"sink": "jobs", "epoch": epoch}
            dying, course = Cut(epoch * 2, loses_answer=True), Signal(epoch + 1)
            await attempt(client, path, rows(epoch), course=dying, **given)
            going_on = asyncio.create_task(
                attempt(client, path, rows(epoch), course=course, **given)
            )
            await course.is_under_way.wait()
            killed(server)
            assert await going_on is not None

        table = await client.table("orders")
        found = [row["amount"] async for batch in table.scan() for row in batch.to_pylist()]
        assert sorted(found) == expected(kind)
