"""A clock that leaps, goes back or stands still under a running server."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from scripts.torture_tools import why_not

from headwater.aio import connect
from tests import figures
from tests.torture.chance import chance, work_goes_on
from tests.torture.processes import run_command, wait_until
from tests.torture.proof import prove
from tests.torture.worker import LOG
from tests.torture.world import BOTH, World

ROUNDS_TORTURE = figures.times(10)
LEAPS = ("+1h", "-1h", "+365d", "-365d", "+10m", "+0")
LOOKS_S = 1.0

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not(("faketime",))), reason="needs faketime"),
]


class Hands:
    """Set the clock of a server that runs; what only counts how much time passes is left alone."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set("+0")

    def set(self, leap: str) -> None:
        draft = self._file.with_suffix(".draft")
        draft.write_text(leap)
        draft.rename(self._file)

    def freeze(self) -> None:
        self.set(time.strftime("%Y-%m-%d %H:%M:%S"))

    @property
    def variables(self) -> dict[str, str]:
        (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


@pytest.fixture
def hands(tmp_path):
    return Hands(tmp_path / "time")


@pytest.fixture
def world(tmp_path, hands):
    world = World(tmp_path / "world", variables=hands.variables, retention_check_interval_s=0.2)
    world.make_tables()
    yield world
    world.close()


def test_leaps_of_the_clock_change_no_offset_and_lose_nothing(world, hands):
    luck = chance()
    world.start_clients(BOTH)
    world.start_tierer()

    for _ in range(ROUNDS_TORTURE):
        hands.set(luck.choice(LEAPS))
        work_goes_on(luck, 0.1, 1.5)
    hands.freeze()
    time.sleep(LOOKS_S)
    hands.set("+0")
    world.stop_clients()
    world.stop_tierers()

    figures.note("clock", rounds=ROUNDS_TORTURE + 1)
    prove(world)


async def starts(world: World) -> set[int]:
    async with await connect(world.address) as client:
        first = await (await client.table("torture.short")).offsets("earliest")
        return set(first.values())


async def make_short(world: World) -> None:
    """Make a table whose rows live for a week, in several segments."""
    async with await connect(world.address) as client:
        options = {"table.log.ttl": "7 d"}
        table = await client.create_table("torture.short", {"text": "STRING"}, options=options)
        for _ in range(40):
            await table.append([(os.urandom(2000).hex(),)])


def test_a_leap_of_a_year_deletes_no_rows(world, hands):
    asyncio.run(make_short(world))

    hands.set("+365d")
    wait_until(lambda: "clock jumped" in world.server.events())
    time.sleep(LOOKS_S)

    assert asyncio.run(starts(world)) == {0}
    hands.set("+0")
    figures.note("clock", rounds=1)


async def write_at(world: World, hands: Hands, leaps: tuple[str, ...]) -> None:
    async with await connect(world.address) as client:
        table = await client.table(LOG)
        for leap in leaps:
            hands.set(leap)
            await table.append([("lane", leap + str(time.monotonic()))])


async def values_in_order(world: World) -> list[str]:
    async with await connect(world.address) as client:
        rows = await (await client.table(LOG)).scan().to_arrow()
        return [text[:2] for text in rows["value"].to_pylist()]


def test_rows_written_in_the_future_and_then_today_keep_their_order(world, hands):
    asyncio.run(write_at(world, hands, ("+365d", "+0", "-365d", "+0")))

    before = asyncio.run(values_in_order(world))
    world.server.kill()
    world.restart()

    assert before == ["+3", "+0", "-3", "+0"]
    assert asyncio.run(values_in_order(world)) == before
    run_command("audit", "--deep", "--at", world.address)
    figures.note("clock", rounds=4)
