"""Tables whose catalog is a server come to the lake, also after it was away."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from scripts.postgres import PASSWORD

from headwater.errors import HeadwaterError, LakeUnreachableError
from headwater.lake.lakes import open_lake
from headwater.model.types import BigIntType
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import RoundStep, TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.status import lake_status
from headwater.tiering.task import LocalRunner
from tests.cli.commanding import Storage
from tests.interop.catalogs.conftest import CATALOGS, OTHER_FORMATS
from tests.lake.formats import in_database
from tests.lake.tables import Tables
from tests.tiering.world import rows

QUICK = TieringSettings(poll_interval_s=0.01, heartbeat_interval_s=0.02)
DRIVERS = 6


async def run_once(world):
    """Tier all tables once, and return what is told of each."""
    heard = []
    service = TieringService(
        world.hw, LocalRunner(world.hw), settings=QUICK, lakes=world.lakes, listener=heard.append
    )
    await service.run_once()
    return {each.path.table: each for each in heard if isinstance(each, TurnEnded | TurnFailed)}


async def test_a_log_table_comes_to_the_lake_in_rounds(world, name):
    table = await world.table(name)
    for turn in (1, 2, 3):
        await table.append(rows(*range(turn * 10, turn * 10 + 10)))
        await world.tier(table, turn)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 30
    world.lakes.of(table.info).catalog().drop(table.path)
    assert not world.has_lake_table(table)


async def test_a_table_by_key_comes_to_the_lake_with_updates_and_deletes(world, name):
    table = await world.keyed(name)
    await table.upsert(rows(*range(20)))
    await world.tier(table, 1)
    await table.upsert(rows(*range(5, 10), text="b"))
    await table.delete([{"id": number} for number in range(5)])
    await world.tier(table, 2)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 15


async def test_columns_are_added_later(world, name):
    table = await world.table(name)
    await table.append(rows(1))
    await world.tier(table, 1)

    await table.add_column("more", "STRING")
    await table.append([{"id": 2, "text": "b", "more": "c"}])
    await world.tier(table, 2)

    await world.check(table)


async def test_other_tables_go_on_while_a_catalog_is_away_and_it_is_made_up_for(
    world, name, server, lake_format
):
    other = {"table.datalake.format": OTHER_FORMATS[lake_format]}
    tables = [await world.table(name), await world.table("other", options=other)]
    for number in (1, 2):
        for table in tables:
            await table.append(rows(number))
        if number == 1:
            await run_once(world)
    server.stop()

    told = await run_once(world)
    server.start()
    after = await run_once(world)

    assert isinstance(told["other"], TurnEnded)
    assert isinstance(told[name].fault, LakeUnreachableError)
    assert "address of the warehouse or catalog" in told[name].fault.hint
    assert PASSWORD not in str(told[name].fault)
    assert isinstance(after[name], TurnEnded)
    for table in tables:
        await world.check(table)


async def test_a_round_waits_for_a_catalog_that_comes_back_soon(world, name, server):
    table = await world.table(name)
    await table.append(rows(1, 2, 3))
    await world.tier(table, 1)
    await table.append(rows(4))
    work, pause = await world.paused(table, 2, RoundStep.COMMIT)

    server.stop()
    server.start()
    pause.let_go()
    await work

    await world.check(table)


# Paimon asks a database only for the names of tables: what is under way goes on without.
@pytest.mark.parametrize("catalog", [each for each in CATALOGS if "iceberg" in each], indirect=True)
async def test_a_round_that_cannot_commit_is_done_by_the_next(world, name, server):
    table = await world.keyed(name)
    await table.upsert(rows(1, 2, 3))
    await world.tier(table, 1)
    await table.upsert(rows(3, 4, text="b"))
    work, pause = await world.paused(table, 2, RoundStep.COMMIT)

    server.stop()
    pause.let_go()
    with pytest.raises(HeadwaterError) as caught:
        await work
    server.start()
    await world.tier(table, 3)

    assert caught.value.retriable
    assert PASSWORD not in str(caught.value)
    await world.check(table)


async def test_the_state_of_a_table_tells_that_its_catalog_is_away(world, name, server):
    table = await world.table(name)
    await table.append(rows(1))
    await world.tier(table)
    server.stop()

    (away,) = await lake_status(world.hw, [table.path], lakes=world.lakes)
    server.start()
    (back,) = await lake_status(world.hw, [table.path], lakes=world.lakes)

    assert isinstance(away.fault, LakeUnreachableError)
    assert (back.fault, back.lag_rows) == (None, 0)


async def test_commands_find_the_catalog_that_they_are_given(world, name, config, tmp_path):
    table = await world.table(name)
    await table.append(rows(1, 2))
    await world.tier(table)
    await world.hw.close()
    given = [part for key, value in config.items() for part in ("--lake", f"{key}={value}")]
    at = Storage(str(tmp_path / "data"))

    (status,) = at.rows("lake", "status", *given)
    where = {row["property"]: row["value"] for row in at.rows("lake", "where", name, *given)}

    assert (status["lag_rows"], status["rows"], status["error"]) == (0, 2, None)
    assert where["table"] == f"fluss.{name}"
    assert PASSWORD not in str(where)


@pytest.mark.parametrize("lake_format", ["iceberg", "paimon"])
def test_drivers_that_open_an_empty_database_at_once_agree(postgres, lake_format, tmp_path, name):
    address = postgres.new_database(name)
    warehouse = {"warehouse": f"file://{tmp_path}/warehouse"}
    lake = open_lake(lake_format, in_database(lake_format, address, catalog="c") | warehouse)
    spec = Tables(lake).spec({"id": BigIntType()})

    def ensured(_) -> bool:
        try:
            lake.catalog().ensure(spec)
        except LakeUnreachableError:  # another one is about to make it
            return False
        return True

    with ThreadPoolExecutor(DRIVERS) as drivers:
        done = list(drivers.map(ensured, range(DRIVERS)))
    lake.catalog().ensure(spec)

    assert any(done)
    assert lake.catalog().list_tables() == [spec.path]
