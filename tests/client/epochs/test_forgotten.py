"""What servers and ledgers forget: writers that were idle, rows that have expired."""

import pytest

from headwater import aio, errors
from headwater.epochs import batches as cut
from headwater.epochs import lane_past
from headwater.epochs.ledger import SINKS
from headwater.log.retention import LogSettings
from tests.client.epochs.attempts import Cut, attempt
from tests.client.epochs.storages import FORGETTING, storing

BATCHES = 8
KINDS = {
    "log": {"buckets": 1},
    "sum": {
        "primary_key": "id",
        "buckets": 1,
        "options": {"table.merge-engine": "aggregation", "fields.amount.agg": "sum"},
    },
}


@pytest.fixture(autouse=True)
def one_row_in_a_batch(monkeypatch):
    monkeypatch.setattr(cut, "BATCH_ROWS_MAX", 1)


def rows(epoch=0):
    return [{"id": number, "amount": epoch * 10 + 1} for number in range(BATCHES)]


async def amounts(client):
    table = await client.table("orders")
    return sorted([row["amount"] async for batch in table.scan() for row in batch.to_pylist()])


def expected(kind, epochs):
    if kind == "log":
        return sorted(epoch * 10 + 1 for epoch in range(epochs) for _ in range(BATCHES))
    return [sum(epoch * 10 + 1 for epoch in range(epochs))] * BATCHES


@pytest.mark.parametrize("passing", range(BATCHES + 3))
@pytest.mark.parametrize("kind", KINDS)
async def test_an_epoch_goes_on_after_its_server_forgot_the_writer(tmp_path, kind, passing):
    schema = {"id": "BIGINT", "amount": "BIGINT"}
    async with storing(tmp_path / "data", FORGETTING) as client:
        path = (await client.create_table("orders", schema, **KINDS[kind])).path
        course = Cut(passing, loses_answer=True)
        await attempt(client, path, rows(), course=course, sink="jobs", epoch=0)

    async with storing(tmp_path / "data", FORGETTING) as client:
        await attempt(client, path, rows(), sink="jobs", epoch=0)
        await attempt(client, path, rows(1), sink="jobs", epoch=1)

        assert await amounts(client) == expected(kind, 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_epoch_may_be_the_first_that_a_server_remembers(tmp_path, kind):
    schema = {"id": "BIGINT", "amount": "BIGINT"}
    async with storing(tmp_path / "data", FORGETTING) as client:
        path = (await client.create_table("orders", schema, **KINDS[kind])).path

    for epoch in range(4):
        async with storing(tmp_path / "data", FORGETTING) as client:
            course = Cut(epoch + 1, loses_answer=False)
            await attempt(client, path, rows(epoch), course=course, sink="jobs", epoch=epoch)
        async with storing(tmp_path / "data", FORGETTING) as client:
            await attempt(client, path, rows(epoch), sink="jobs", epoch=epoch)

            assert await amounts(client) == expected(kind, epoch + 1)


async def test_lanes_of_one_bucket_go_on_after_all_are_forgotten(tmp_path):
    async with storing(tmp_path / "data", FORGETTING) as client:
        schema = {"id": "BIGINT", "amount": "BIGINT"}
        path = (await client.create_table("orders", schema, **KINDS["log"])).path
        for lane in range(3):
            await attempt(client, path, rows(), sink="jobs", epoch=0, lane=lane)

    async with storing(tmp_path / "data", FORGETTING) as client:
        for lane in range(3):
            course = Cut(lane, loses_answer=True)
            given = {"sink": "jobs", "epoch": 1, "lane": lane}
            await attempt(client, path, rows(1), course=course, **given)
            await attempt(client, path, rows(1), **given)

        assert await amounts(client) == sorted(expected("log", 2) * 3)


async def test_a_sink_whose_ledger_is_gone_begins_anew_under_other_numbers(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        table = await client.create_table("orders", {"id": "BIGINT", "amount": "BIGINT"})
        await attempt(client, table.path, rows(), sink="jobs", epoch=0)
        await client.drop_table(str(SINKS))

        await attempt(client, table.path, rows(1), sink="jobs", epoch=0)

        assert await amounts(client) == expected("log", 2)


async def test_rows_that_may_have_expired_are_not_guessed_at(tmp_path, monkeypatch):
    small = LogSettings(segment_bytes_max=200, index_interval_bytes=100)
    async with storing(tmp_path / "data", small) as client:
        options = {"table.log.ttl": "7 d"}
        table = await client.create_table("orders", {"id": "BIGINT"}, options=options)
        listed = [{"id": number} for number in range(BATCHES)]
        course = Cut(3, loses_answer=False)
        await attempt(client, table.path, listed, course=course, sink="jobs", epoch=0)

        async def gone(self, offset):
            raise errors.OffsetOutOfRangeError(f"There is no offset {offset}.")

        monkeypatch.setattr(lane_past.StoredLog, "_fetch", gone)
        with pytest.raises(errors.OffsetOutOfRangeError, match="Cannot tell"):
            await attempt(client, table.path, listed, sink="jobs", epoch=0)
