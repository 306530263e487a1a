"""What things of a client look like at a prompt."""

import re

import pytest

import headwater
from headwater import aio

SCHEMA = {"id": "BIGINT", "text": "STRING"}


@pytest.fixture
def hw(tmp_path):
    with headwater.open(tmp_path / "data") as client:
        client.create_table("k", SCHEMA, primary_key="id")
        yield client


def test_a_client_tells_where_its_storage_is(tmp_path):
    with headwater.open(tmp_path / "data", listen=True) as embedded:
        assert repr(embedded) == f"Client('{tmp_path}/data', address='{embedded.address}')"
        with headwater.connect(embedded.address) as connected:
            assert repr(connected) == f"Client('{embedded.address}')"


def test_what_comes_of_a_table_tells_which_and_what_of_it(hw):
    table = hw.table("k")

    assert table.name == "fluss.k"
    assert repr(table.scan(columns="id")) == "Scan('fluss.k', columns=['id'])"
    assert repr(table.writer()) == "Writer('fluss.k')"
    with table.tail() as tail:
        assert repr(tail) == "Tail('fluss.k', columns=['id', 'text'])"
    with table.cursor("billing") as cursor:
        assert repr(cursor) == "Cursor('billing', table='fluss.k', buckets=1)"


def test_a_virtual_table_is_shown_with_its_suffix(hw):
    table = hw.table("k$changelog")

    assert table.name == "fluss.k$changelog"
    assert repr(table) == "Table('fluss.k$changelog')"
    assert repr(table.scan(columns="id")) == "Scan('fluss.k$changelog', columns=['id'])"
    with table.tail(columns="id") as tail:
        assert repr(tail) == "Tail('fluss.k$changelog', columns=['id'])"


def test_of_many_columns_some_are_shown(hw):
    table = hw.create_table("wide", {f"c{number}": "INT" for number in range(20)})

    assert re.search(r"'c7', '…'\]\)$", repr(table.scan()))


async def test_those_who_await_see_the_same(tmp_path):
    async with await aio.open(tmp_path / "data") as hw:
        table = await hw.create_table("k", SCHEMA, primary_key="id")

        assert repr(hw) == f"AsyncClient('{tmp_path}/data')"
        assert repr(table) == "AsyncTable('fluss.k')"
        assert repr(table.scan(columns="id")) == "AsyncScan('fluss.k', columns=['id'])"
        assert repr(table.writer()) == "AsyncWriter('fluss.k')"
        assert repr(table.cursor("c")) == "AsyncCursor('c', table='fluss.k', buckets=0)"


def test_a_writer_gives_a_receipt_of_what_it_flushed(hw):
    with hw.table("k").writer() as writer:
        writer.write([(1, "a"), (2, "b")])

        assert writer.flush().rows == 2
