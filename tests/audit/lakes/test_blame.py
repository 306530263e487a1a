"""What is wrong with a lake is an error, unless others did it or an earlier partition left it."""

import pytest

from headwater.audit.report import Check
from headwater.errors import LakeRowsDeletedError
from tests.audit.lakes.auditing import audited
from tests.tiering.world import rows

SCHEMA = {"id": "BIGINT", "day": "STRING", "text": "STRING"}
ICEBERG = pytest.mark.parametrize("lake_format", ["iceberg"])
IMAGES = pytest.mark.parametrize("image", ["full", "wal"])


def of_day(*ids: int) -> list[dict[str, object]]:
    return [{**row, "day": "mon"} for row in rows(*ids)]


@pytest.fixture
async def in_days(world):
    table = await world.table("l", SCHEMA, partition_by="day", buckets=1)
    await world.rounds(table, of_day(1, 2, 3), of_day(5))
    return table


@pytest.fixture
async def changed_by_others(world):
    """Return a table by key from which others deleted a row."""
    table = await world.keyed(buckets=1)
    await world.rounds(table, rows(*range(10)))
    world.iceberg(table).delete("id = 7")
    await table.upsert(rows(20))
    return table


@IMAGES
async def test_a_delete_that_a_round_left_out_of_a_partition_is_an_error(world, image):
    options = {"table.changelog.image": image}
    key = ["id", "day"]
    table = await world.table(
        "k", SCHEMA, primary_key=key, partition_by="day", buckets=1, options=options
    )
    await world.rounds(table, of_day(1, 2, 3))
    await table.delete([{"id": 2, "day": "mon"}])
    await table.upsert(of_day(4))

    world.commit_more(table, of_day(4), offsets=2)

    (finding,) = (await audited(table, deep=True)).errors
    assert finding.check is Check.LAKE_ROWS
    assert "'id': 2" in finding.message


async def test_rows_that_came_twice_to_a_partition_are_an_error_when_no_step_tells_it(
    world, in_days
):
    world.commit_more(in_days, of_day(1, 2, 3))
    world.expire(in_days, keep=1)

    (finding,) = (await audited(in_days, deep=True)).errors

    assert (finding.check, finding.offset) == (Check.LAKE_ROWS, 0)
    assert "3 rows too many" in finding.message


@ICEBERG
async def test_rows_by_key_that_others_delete_are_an_error(changed_by_others):
    found = (await audited(changed_by_others, deep=True)).errors

    assert any("removed tiered rows" in each.message for each in found)


@ICEBERG
async def test_no_round_goes_on_above_what_others_deleted(world, changed_by_others):
    with pytest.raises(LakeRowsDeletedError):
        await world.tier(changed_by_others, 9)
    with pytest.raises(LakeRowsDeletedError):
        world.commit_more(changed_by_others, rows(21), offsets=1)


@ICEBERG
async def test_rows_that_others_appended_hide_no_row_that_a_round_left_out(world):
    table = await world.table(buckets=1)
    await world.rounds(table, rows(1, 2, 3))
    lake = world.iceberg(table)
    lake.append(lake.scan().to_arrow().slice(0, 1))
    touched = await audited(table)
    await table.append(rows(4, 5, 6))

    world.commit_more(table, rows(4), offsets=3)

    assert touched.errors == []
    found = (await audited(table)).errors
    assert {each.check for each in found} == {Check.TIERS}
    assert len(found) == 2
