"""What has landed is compared by its rows, whatever its bytes are."""

import pytest

from headwater import aio, errors
from headwater.epochs import batches as cut
from headwater.write import encode as log_lane
from tests.client.epochs.attempts import Cut, attempt

SCHEMA = {"id": "BIGINT", "tags": "ARRAY<STRING>", "x": "DOUBLE"}
ROWS = [{"id": number, "tags": [str(number)] * 9, "x": float("nan")} for number in range(40)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(cut, "BATCH_ROWS_MAX", 10)


async def begun(client):
    """Make a table in which half of an epoch has landed."""
    table = await client.create_table("orders", SCHEMA)
    course = Cut(3, loses_answer=False)
    await attempt(client, table.path, ROWS, course=course, sink="jobs", epoch=0)
    assert await table.count() == 20
    return table


async def test_rows_that_are_compressed_in_another_way_are_the_same(tmp_path, monkeypatch):
    async with await aio.open(tmp_path / "data") as client:
        table = await begun(client)
        monkeypatch.setattr(log_lane, "_codec_of", lambda _: None)

        receipt = await attempt(client, table.path, ROWS[::-1], sink="jobs", epoch=0)

        assert (receipt.batches_landed, receipt.batches_written) == (2, 2)
        assert await table.count() == len(ROWS)


async def test_one_other_value_is_noticed(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        table = await begun(client)
        others = [*ROWS[:5], {**ROWS[5], "x": 1.0}, *ROWS[6:]]

        with pytest.raises(errors.EpochDiffersError):
            await attempt(client, table.path, others, sink="jobs", epoch=0)

        assert await table.count() == 20
