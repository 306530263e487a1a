"""All rows of a primary-key table, also of servers that cannot be asked for them."""

import pytest

from headwater import aio
from headwater.errors import UnsupportedError
from headwater.read.state import TableStateScan
from headwater.wire.apis import ApiKey
from tests.client.reading.test_state_at import Altered

COLUMNS = {"id": "BIGINT", "name": "STRING", "amount": "INT"}


@pytest.fixture
async def table(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        table = await client.create_table("t", COLUMNS, primary_key="id", buckets=3)
        await table.upsert([{"id": key, "name": f"n{key}", "amount": 1} for key in range(50)])
        await table.upsert([{"id": key, "name": f"n{key}", "amount": 2} for key in range(30, 60)])
        await table.delete(list(range(10)))
        yield table


async def rows_of(table, **wishes) -> tuple[list[dict], dict]:
    refusing = Altered(table.cluster, ApiKey.SCAN_KV, UnsupportedError("not here"))
    scan = TableStateScan(refusing, table.info, **wishes)
    rows = [row async for batch in scan for row in batch.to_pylist()]
    return rows, scan.offsets


async def test_rows_are_made_up_from_the_changelog_where_there_is_no_scan(table):
    rows, offsets = await rows_of(table)

    assert sorted(row["id"] for row in rows) == list(range(10, 60))
    assert all(row["amount"] == (2 if row["id"] >= 30 else 1) for row in rows)
    assert offsets == await table.offsets()


async def test_columns_conditions_and_limits_are_those_of_a_scan(table):
    where = [("amount", "=", 2), ("id", "<", 35)]

    rows, _ = await rows_of(table, columns=["name"], where=where)
    some, _ = await rows_of(table, limit=7)

    assert sorted(row["name"] for row in rows) == [f"n{key}" for key in range(30, 35)]
    assert all(row.keys() == {"name"} for row in rows)
    assert len(some) == 7
