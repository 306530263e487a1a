"""Apache Fluss before 1.0: lake tables with columns of its own, and turns that begin anew."""

from dataclasses import dataclass

import pytest

from headwater.cluster.lake import HeartbeatAnswer, TieringAssignment
from headwater.errors import TieringFencedError
from headwater.lake.lakes import lake_spec
from headwater.lake.spi import SYSTEM_COLUMNS
from headwater.model.boundary import Boundary, TableIdentity, TieringEpoch
from headwater.model.path import TablePath
from headwater.tiering.progress import TieringTurn
from headwater.tiering.round import confirmed
from headwater.tiering.target import with_system_columns
from tests.tiering.world import rows

TABLE_ID = 7


@dataclass
class Server:
    """Answer heartbeats, for some tables with a refusal."""

    fenced: frozenset[int] = frozenset()
    asked: int = 0

    @property
    def lake(self):
        return self

    async def heartbeat(self, *, tiering):
        self.asked += len(tiering)
        return HeartbeatAnswer(coordinator_epoch=0, fenced=self.fenced)


def turn(number, *, storage_id=None):
    epoch = TieringEpoch(0, number)
    assignment = TieringAssignment(path=TablePath("fluss", "t"), table_id=TABLE_ID, epoch=epoch)
    return TieringTurn(assignment, storage_id)


def held_in(number):
    identity = TableIdentity("created-1", TABLE_ID)
    return Boundary(table=identity, epoch=TieringEpoch(0, number), round_id="r")


async def test_a_turn_that_the_lake_has_seen_goes_on_after_the_last_one():
    server = Server()

    found = await confirmed(turn(1), held_in(57), client=server)

    assert found.epoch == TieringEpoch(0, 58)
    assert server.asked == 1


async def test_a_turn_that_the_server_took_back_is_over():
    with pytest.raises(TieringFencedError):
        await confirmed(turn(1), held_in(57), client=Server(frozenset({TABLE_ID})))


@pytest.mark.parametrize(
    ("given", "held"),
    [(turn(58), held_in(57)), (turn(1), None), (turn(1, storage_id="ours"), held_in(57))],
    ids=["newer", "nothing held", "a server that remembers"],
)
async def test_other_turns_are_taken_as_they_are(given, held):
    server = Server()

    assert await confirmed(given, held, client=server) is given
    assert server.asked == 0


def system_values(world, table):
    spec = with_system_columns(lake_spec(table.info))
    source = world.lakes.of(table.info).source(spec)
    splits = source.plan(source.snapshot().snapshot_id)
    found = [row for split in splits for batch in source.read(split) for row in batch.to_pylist()]
    return {row["id"]: [row[name] for name in SYSTEM_COLUMNS] for row in found}


async def test_rows_of_a_log_come_with_bucket_offset_and_time(world):
    table = await world.table(buckets=1)
    spec = with_system_columns(lake_spec(table.info))
    world.lakes.of(table.info).catalog().ensure(spec)
    for number in (5, 6):
        await table.append(rows(number))

    await world.tier(table)

    found = system_values(world, table)
    assert {key: values[:2] for key, values in found.items()} == {5: [0, 0], 6: [0, 1]}
    assert all(values[2].year > 2000 for values in found.values())


async def test_rows_of_a_state_come_with_what_is_known_of_them(world):
    table = await world.keyed(buckets=1)
    spec = with_system_columns(lake_spec(table.info))
    world.lakes.of(table.info).catalog().ensure(spec)
    await table.upsert(rows(5))

    await world.tier(table, 1)
    await table.upsert(rows(6))
    await world.tier(table, 2)

    found = system_values(world, table)
    assert {key: values[:2] for key, values in found.items()} == {5: [0, -1], 6: [0, 1]}


def lake_columns(world, table):
    names = world.lakes.of(table.info).catalog().column_names(table.path)
    return [name for name in names if name in SYSTEM_COLUMNS]


async def test_a_lake_table_is_made_with_the_columns_that_flink_needs_where_it_needs_them(world):
    table = await world.table()
    await table.append(rows(5))

    await world.tier(table)

    assert lake_columns(world, table) == (list(SYSTEM_COLUMNS) if world.format == "paimon" else [])


@pytest.mark.parametrize("wanted", [True, False])
async def test_an_option_says_whether_a_lake_table_has_these_columns(world, wanted):
    table = await world.table(options={"table.datalake.system-columns": wanted})
    await table.append(rows(5))

    await world.tier(table)

    assert lake_columns(world, table) == (list(SYSTEM_COLUMNS) if wanted else [])
