"""Rows from several sources at a time."""

from contextlib import aclosing

import pyarrow as pa
import pytest

from headwater.read.sources import in_turn, pumped, side_by_side
from tests.clocks import loop_turns


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [number]})


def source(*numbers: int, closed: list[int] | None = None):
    async def rows():
        try:
            for number in numbers:
                await loop_turns()
                yield batch(number)
        finally:
            if closed is not None:
                closed.append(numbers[0])

    return rows


async def taken(rows) -> list[int]:
    return [each["n"][0].as_py() async for each in rows]


async def test_all_rows_of_all_sources_come():
    sources = [source(*range(start, start + 10)) for start in range(0, 100, 10)]

    assert sorted(await taken(side_by_side(sources, at_once=3))) == list(range(100))
    assert await taken(in_turn(sources)) == list(range(100))


async def test_what_fails_in_one_source_is_raised_and_ends_the_others():
    closed: list[int] = []

    async def failing():
        raise KeyError("lost")
        yield

    with pytest.raises(KeyError):
        await taken(side_by_side([source(1, 2, closed=closed), failing], at_once=2))

    assert closed == [1]


async def test_closing_early_ends_every_source_that_was_begun():
    closed: list[int] = []
    sources = [source(*range(start, start + 50), closed=closed) for start in (0, 100, 200)]

    async with aclosing(side_by_side(sources, at_once=2)) as rows:
        await anext(rows)

    assert set(closed) == {0, 100}


async def test_an_iterator_that_blocks_is_closed_with_its_rows():
    closed: list[bool] = []

    def numbers():
        try:
            yield from map(batch, range(10))
        finally:
            closed.append(True)

    async with aclosing(pumped(numbers)) as rows:
        first = await anext(rows)

    assert first["n"].to_pylist() == [0]
    assert closed == [True]
