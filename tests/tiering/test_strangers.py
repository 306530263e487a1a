"""A server that knows no wishes and tells no states, as Apache Fluss is one."""

from dataclasses import dataclass, field, replace

import pytest

from headwater.errors import InvalidOptionError, LakeUnreachableError, TableMissingError
from headwater.model.path import TablePath
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.tiering.world import rows

QUICK = TieringSettings(poll_interval_s=0.01)
FRESH = {"table.datalake.freshness": "300ms"}
LATER = {"table.datalake.freshness": "1h"}
WISHES = {"only_tables": (), "ignore_freshness": False, "list_states": False}


@pytest.fixture(params=["plain"])
def lake_format(request):
    return request.param


@dataclass
class Stranger:
    """Be a server that passes over what Apache Fluss does not know."""

    client: object
    given_back: list[str] = field(default_factory=list)
    refused: str = ""
    """A table of which it wants to hear of no snapshot."""
    dropped: object = None
    """A table that loses a partition as soon as somebody asks for a table."""

    def __getattr__(self, name):
        return getattr(self.client, name)

    @property
    def lake(self):
        return StrangeLake(self, self.client.lake)


@dataclass
class StrangeLake:
    server: Stranger
    lake: object

    def __getattr__(self, name):
        return getattr(self.lake, name)

    async def heartbeat(self, *, finished=(), request=False, **told):
        if request and self.server.dropped is not None:
            await self.server.dropped.drop_partition({"day": "one"}, missing_ok=True)
        forced = [each.assignment.path.table for each in finished if each.is_forced]
        self.server.given_back += forced
        answer = await self.lake.heartbeat(finished=finished, request=request, **(told | WISHES))
        return replace(answer, storage_id=None, states=())

    async def prepare(self, path, *offsets, **wishes):
        if path.table == self.server.refused:
            raise LakeUnreachableError("It cannot be written down.")
        return await self.lake.prepare(path, *offsets, **wishes)


@pytest.fixture
def server(world):
    return Stranger(world.hw)


async def once(world, server, *tables):
    """Tier once, and return what was heard of each table in the end."""
    heard = {}

    def hear(news):
        if isinstance(news, TurnEnded | TurnFailed):
            heard[news.path.table] = news

    service = TieringService(
        server, LocalRunner(world.hw), settings=QUICK, lakes=world.lakes, listener=hear
    )
    await service.run_once(tables=[TablePath("fluss", name) for name in tables])
    return heard


async def test_once_waits_for_tables_that_are_not_handed_out_yet(world, server):
    table = await world.table("a", options=FRESH)
    for number in range(3):
        await table.append(rows(number))

        await once(world, server)

        await world.check(table)
        assert world.lake_rows(table).total() == number + 1


async def test_once_waits_for_no_table_that_is_in_the_lake_already(world, server):
    table = await world.table("a", options=LATER)
    await table.append(rows(1, 2, 3))
    await TieringService(world.hw, LocalRunner(world.hw), lakes=world.lakes).run_once()
    await world.table("empty", options=LATER)

    assert await once(world, server) == {}


async def test_a_table_that_is_not_wanted_is_given_back(world, server):
    tables = {name: await world.table(name, options=FRESH) for name in "abc"}
    for table in tables.values():
        await table.append(rows(1, 2, 3))

    heard = await once(world, server, "b")

    assert set(heard) == {"b"}
    assert set(server.given_back) <= {"a", "c"}
    assert [world.has_lake_table(table) for table in tables.values()] == [False, True, False]


async def test_once_goes_on_without_a_table_that_fails(world, server):
    good, bad = await world.table("good", options=FRESH), await world.table("bad", options=FRESH)
    await good.append(rows(1))
    await bad.append(rows(1))
    server.refused = "bad"

    heard = await once(world, server)

    assert isinstance(heard["bad"], TurnFailed)
    await world.check(good)


async def test_tables_that_cannot_be_tiered_are_told(world, server):
    await world.hw.create_table("plain", {"id": "BIGINT"})

    heard = await once(world, server, "plain", "missing")

    assert isinstance(heard["plain"].fault, InvalidOptionError)
    assert isinstance(heard["missing"].fault, TableMissingError)


async def test_once_does_not_wait_for_a_partition_that_was_dropped(world, server):
    schema = {"id": "BIGINT", "day": "STRING"}
    table = await world.table("a", schema=schema, partition_by="day", options=FRESH)
    await table.append([{"id": 1, "day": "one"}, {"id": 2, "day": "two"}])
    server.dropped = table

    await once(world, server)

    assert world.lake_rows(table).total() == 1
