"""The same API for those who await."""

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from headwater import aio
from headwater.read.offsets import Place
from tests.cases import cases

SCHEMA = {"id": "BIGINT", "text": "STRING"}


@pytest.fixture
async def keyed(tmp_path) -> AsyncIterator[tuple[aio.AsyncClient, aio.AsyncTable]]:
    """Open a storage with a keyed table that holds two rows."""
    async with await aio.open(tmp_path / "data") as hw:
        table = await hw.create_table("k", SCHEMA, primary_key="id", buckets=1)
        await table.upsert([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
        yield hw, table


@cases("name", aio.__all__)
def test_every_public_name_is_there(name):
    assert getattr(aio, name) is not None


async def test_no_primary_key_may_be_said_with_none(keyed):
    hw, _ = keyed

    table = await hw.create_table("log", SCHEMA, primary_key=None)

    assert not table.is_keyed


async def test_a_tail_of_a_virtual_table_is_entered_and_iterated(keyed):
    hw, _ = keyed
    changelog = await hw.table("k$changelog")

    async with await changelog.tail() as tail:
        batch = await anext(aiter(tail))

    assert batch.rows.column("id").to_pylist() == [1, 2]


async def test_a_tail_of_a_virtual_table_goes_back(keyed):
    hw, table = keyed
    await table.upsert({"id": 1, "text": "c"})
    binlog = await hw.table("k$binlog")

    async with await binlog.tail() as tail:
        first = await _rows(tail, 3)
        await tail.seek({Place(None, 0): 2})
        again = await _rows(tail, 1)

    assert first.slice(2).equals(again)


async def test_a_tail_of_a_virtual_table_follows_what_it_is_told_to(keyed):
    hw, _ = keyed
    changelog = await hw.table("k$changelog")

    async with await changelog.tail("latest") as tail:
        await tail.assign({Place(None, 0): 1})
        rows = await _rows(tail, 1)

    assert rows.column("id").to_pylist() == [2]


async def test_a_scan_gives_rows_in_every_form(keyed):
    _, table = keyed
    scan = table.scan(columns=["id"], where=("id", "==", 1))

    assert await scan.to_pylist() == [{"id": 1}]
    assert (await scan.to_pandas())["id"].tolist() == [1]
    assert (await scan.to_polars())["id"].to_list() == [1]


async def _rows(tail: aio.Tail | aio.VirtualTail, count: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    while sum(each.num_rows for each in batches) < count:
        batches += [batch.rows for batch in await tail.poll(20.0)]
    return pa.Table.from_batches([each for each in batches if each.num_rows])
