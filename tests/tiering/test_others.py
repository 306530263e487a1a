"""A lake table that the tiering service of Apache Fluss fills is left to it."""

import json

import pytest

from headwater.errors import LakeTableDiffersError
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.tiering.status import lake_status
from tests.tiering.world import World, rows


@pytest.fixture(params=["paimon"])
def lake_format(request):
    return request.param


def make_foreign(world: World) -> None:
    """Take our boundary out of the newest snapshot, as if Apache Fluss had made it."""
    *_, path = sorted(world.directory.rglob("snapshot/snapshot-*"))
    snapshot = json.loads(path.read_text())
    del snapshot["properties"][BOUNDARY_PROPERTY]
    path.write_text(json.dumps(snapshot))


@pytest.mark.parametrize("rounds", [1, 2], ids=["from the start", "later"])
@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
async def test_rows_of_another_tierer_do_not_come_twice(world, rounds, is_keyed):
    table = await (world.keyed() if is_keyed else world.table())
    write = table.upsert if is_keyed else table.append
    for number in range(rounds):
        await write(rows(number))
        await world.tier(table, number + 1)
    make_foreign(world)
    before = world.lake_rows(table)
    await write(rows(7))

    with pytest.raises(LakeTableDiffersError, match="tiering service of Apache Fluss"):
        await world.tier(table, rounds + 1)

    assert world.lake_rows(table) == before


async def test_it_is_shown_how_far_another_tierer_is(world, hw):
    table = await world.table()
    await table.append(rows(1, 2, 3))
    await world.tier(table)
    make_foreign(world)
    await table.append(rows(4))

    (status,) = await lake_status(hw, [table.path], lakes=world.lakes)

    assert status.lag_rows == 1


async def test_partitions_that_another_tierer_does_not_name_are_read(world):
    schema = {"id": "BIGINT", "text": "STRING", "day": "STRING"}
    table = await world.table(schema=schema, partition_by="day")
    for day in ("one", "two"):
        await table.append([{**row, "day": day} for row in rows(1, 2)])
    await world.tier(table)
    make_foreign(world)
    await table.drop_partition({"day": "two"})

    found = table.scan(mode="lake")

    assert sorted(row["day"] for row in await found.to_pylist()) == ["one"] * 2 + ["two"] * 2
    assert {place.partition for place in found.offsets} == {"one"}


async def test_a_lake_table_that_was_made_anew_is_ours_again(world):
    table = await world.table()
    await table.append(rows(1))
    await world.tier(table)
    make_foreign(world)
    world.lakes.of(table.info).catalog().drop(table.path)

    await world.tier(table, 2)

    await world.check(table)
