"""Rows by key: the lake holds what the log makes of them, up to one offset."""

import pytest

from headwater.model.boundary import LakeBucket
from headwater.tiering.progress import RoundStep
from tests.tiering.world import rows


async def test_06_buckets_without_rows_and_buckets_that_come_later(world):
    table = await world.keyed(buckets=4)
    await table.upsert(rows(1))
    await world.tier(table, 1)
    first = await world.check(table)

    await table.upsert(rows(*range(40)))
    await world.tier(table, 2)

    second = await world.check(table)
    assert len(first.boundary.ranges) == 1
    assert len(second.boundary.ranges) == 4


@pytest.mark.parametrize("key", [("day", "id"), ("id", "day")])
async def test_06_any_order_of_primary_key_and_partition_key(world, key):
    schema = {"text": "STRING", "id": "BIGINT", "day": "STRING"}
    table = await world.table("k", schema, primary_key=key, partition_by="day")
    given = [{"id": n % 5, "day": f"d{n % 2}", "text": str(n)} for n in range(20)]
    await table.upsert(given[:12])
    await world.tier(table, 1)
    await table.upsert(given[12:])
    await table.delete([{"id": 1, "day": "d1"}])
    await world.tier(table, 2)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 9


async def test_07_offsets_without_rows_are_tiered_too(world):
    table = await world.keyed(buckets=1)
    await table.upsert(rows(1))
    await world.tier(table, 1)
    await table.delete([{"id": 99}])
    await table.upsert(rows(2))
    await table.delete([{"id": 2}])

    await world.tier(table, 2)

    head = await world.check(table)
    (end,) = (await table.offsets()).values()
    assert head.boundary.end(LakeBucket(None, 0)) == end


async def test_09_the_first_copy_is_that_of_one_offset_however_long_it_takes(world):
    table = await world.keyed(buckets=1)
    await table.upsert(rows(*range(50)))
    work, pause = await world.paused(table, 1, RoundStep.WRITE)
    for text in ("b", "c", "d"):
        await table.upsert(rows(*range(0, 70, 2), text=text))
        await table.delete([{"id": number} for number in range(1, 20, 3)])

    pause.let_go()
    report = await work

    assert report.snapshot.boundary.end(LakeBucket(None, 0)) == 50
    await world.check(table)


async def test_17_of_many_updates_of_a_key_the_last_one_counts(world):
    table = await world.keyed()
    for turn in (1, 2, 3):
        for number in range(10):
            await table.upsert(rows(1, 2, 3, text=f"{turn}-{number}-"))
        await table.delete([{"id": 3}])
        await world.tier(table, turn)
        await world.check(table)

    assert sorted(world.lake_rows(table)) == [
        (("id", 1), ("text", "3-9-1")),
        (("id", 2), ("text", "3-9-2")),
    ]


async def test_19_the_first_copy_and_the_log_meet_at_one_offset(world):
    table = await world.keyed()
    await table.upsert(rows(*range(20)))
    written = 0

    async def write(_step: RoundStep) -> None:
        nonlocal written
        written += 1
        await table.upsert(rows(written, written + 10, written + 20, text=f"w{written}-"))
        await table.delete([{"id": written + 5}])

    for turn in (1, 2, 3):
        await world.tier(table, turn, watch=write)
        await world.check(table)
