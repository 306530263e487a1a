"""Tables that change, come back under their name, or have partitions of every kind."""

from collections import Counter
from datetime import UTC, date, datetime, time

import pytest

from headwater.errors import HeadwaterError, LakeTableDiffersError, TableMissingError
from headwater.tiering.progress import RoundStep
from tests.tiering.world import SCHEMA, rows

PARTITIONS = {
    "STRING": ["a", "b_c"],
    "INT": [7, -3],
    "BIGINT": [2**60, 0],
    "SMALLINT": [1, 2],
    "TINYINT": [1, -2],
    "BOOLEAN": [True, False],
    "DATE": [date(2026, 1, 31), date(1969, 12, 31)],
    "TIME(3)": [time(1, 2, 3), time(23, 59, 59, 999000)],
    "TIMESTAMP(6)": [datetime(2026, 1, 31, 1, 2, 3, 4), datetime(2000, 1, 1)],
    "TIMESTAMP_LTZ(6)": [datetime(2026, 1, 31, tzinfo=UTC), datetime(2000, 1, 1, 5, tzinfo=UTC)],
    "DOUBLE": [1.5, -2e20],
    "BYTES": [b"\x01\xff", b"ab"],
}


@pytest.mark.parametrize("kind", PARTITIONS)
async def test_04_rows_of_partitions_of_every_type_are_there_once(world, kind):
    schema = {"id": "BIGINT", "p": kind}
    try:
        table = await world.table(schema=schema, partition_by="p")
    except HeadwaterError as fault:
        pytest.skip(f"no such partitions: {fault.message}")
    given = [{"id": n, "p": PARTITIONS[kind][n % 2]} for n in range(20)]
    await table.append(given[:10])
    await world.tier(table, 1)
    await table.append(given[10:])
    await world.tier(table, 2)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 20


async def test_08_a_table_that_is_dropped_and_made_anew_meanwhile_is_not_mixed(world, hw):
    table = await world.table()
    await table.append(rows(1, 2))
    await world.tier(table, 1)
    await table.append(rows(3))
    work, pause = await world.paused(table, 2, RoundStep.WRITE)
    before = world.lake_rows(table)
    await hw.drop_table("t")
    again = await world.table()
    await again.append(rows(9))

    pause.let_go()
    with pytest.raises(TableMissingError):
        await work
    with pytest.raises(LakeTableDiffersError, match="headwater lake drop"):
        await world.tier(again, 1)

    assert world.lake_rows(again) == before


async def test_08_a_table_that_was_made_anew_is_tiered_once_its_lake_table_is_gone(world, hw):
    table = await world.table()
    await table.append(rows(1, 2))
    await world.tier(table, 1)
    await hw.drop_table("t")
    again = await world.table()
    await again.append(rows(9))

    world.lakes.of(again.info).catalog().drop(again.path)
    await world.tier(again, 1)

    await world.check(again)
    assert sum(world.lake_rows(again).values()) == 1


async def test_14_a_storage_that_was_made_anew_is_not_taken_for_the_old_one(world):
    table = await world.table()
    await table.append(rows(1, 2))
    await world.tier(table, 1, storage="old")

    with pytest.raises(LakeTableDiffersError, match="another storage"):
        await world.tier(table, 1, storage="new")

    await world.check(table)


async def test_a_partition_that_is_dropped_leaves_its_rows_in_the_lake(world):
    table = await world.table(schema={**SCHEMA, "p": "STRING"}, partition_by="p")
    await table.append([{**row, "p": "x"} for row in rows(1, 2)])
    await table.append([{**row, "p": "y"} for row in rows(3)])
    await world.tier(table, 1)
    old = Counter({row: n for row, n in world.lake_rows(table).items() if ("p", "x") in row})
    await table.drop_partition({"p": "x"})
    await table.append([{**row, "p": "z"} for row in rows(4, 5)])

    await world.tier(table, 2)

    head = await world.check(table, kept=old)
    assert set(head.boundary.partitions.values()) == {"y", "z"}


async def test_a_key_that_was_deleted_in_a_partition_made_anew_is_deleted_in_the_lake(world):
    schema = {**SCHEMA, "p": "STRING"}
    table = await world.table(schema=schema, partition_by="p", primary_key=("id", "p"))
    await table.upsert([{**row, "p": "x"} for row in rows(1, 2)])
    await world.tier(table, 1)
    await table.drop_partition({"p": "x"})
    await world.tier(table, 2)
    await table.upsert([{**row, "p": "x"} for row in rows(1, 3)])
    await table.delete([{"id": 1, "p": "x"}])

    await world.tier(table, 3)

    assert sorted(dict(row)["id"] for row in world.lake_rows(table)) == [2, 3]


async def test_a_partition_that_is_dropped_under_a_round_leaves_the_round(world):
    table = await world.table(schema={**SCHEMA, "p": "STRING"}, partition_by="p")
    await table.append([{**row, "p": "x"} for row in rows(1, 2)])
    await table.append([{**row, "p": "y"} for row in rows(3)])
    work, pause = await world.paused(table, 1, RoundStep.WRITE)
    await table.drop_partition({"p": "x"})

    pause.let_go()
    report = await work

    assert report.row_count == 1
    await world.check(table)


async def test_columns_that_come_and_go_between_rounds_are_carried_over(world):
    table = await world.table(schema={**SCHEMA, "n": "INT"})
    await table.append([{**row, "n": 1} for row in rows(1, 2)])
    await world.tier(table, 1)
    await table.append([{**row, "n": 2} for row in rows(3)])
    await table.add_column("extra", "DOUBLE")
    await table.rename_column("text", "words")
    await table.drop_column("n")
    await table.append([{"id": 4, "words": "w", "extra": 1.5}])

    await world.tier(table, 2)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 4


@pytest.mark.parametrize(
    "step", [RoundStep.LAKE_TABLE, RoundStep.HEAD, RoundStep.LOGS, RoundStep.PLAN, RoundStep.WRITE]
)
async def test_a_column_that_comes_during_a_round_loses_no_values(world, step):
    table = await world.table()
    await table.append(rows(1, 2))

    async def evolve(now: RoundStep) -> None:
        if now is step and "extra" not in table.schema.names:
            await table.add_column("extra", "BIGINT")
            await table.append([{"id": 3, "text": "c", "extra": 33}])

    await world.tier(table, 1, watch=evolve)
    await world.check(table)
    await world.tier(table, 2)

    await world.check(table)
    assert (("id", 3), ("text", "c"), ("extra", 33)) in world.lake_rows(table)


async def test_the_lake_table_of_another_table_is_refused_before_its_columns_change(world, hw):
    table = await world.table()
    await table.append(rows(1))
    await world.tier(table, 1)
    await hw.drop_table("t")
    again = await world.table(schema={**SCHEMA, "extra": "INT"})

    with pytest.raises(LakeTableDiffersError):
        await world.tier(again, 1)

    catalog = world.lakes.of(again.info).catalog()
    assert "extra" not in catalog.column_names(again.path)


async def test_a_lake_that_was_rolled_back_gets_what_it_lost_again(world, hw):
    table = await world.table(buckets=1)
    await table.append(rows(1, 2))
    await world.tier(table, 1)
    world.lakes.of(table.info).catalog().drop(table.path)
    await table.append(rows(3))

    await world.tier(table, 2)

    head = await world.check(table)
    known = await hw.lake.snapshot(table.path)
    assert known.snapshot_id == head.snapshot_id
    assert sum(world.lake_rows(table).values()) == 3
