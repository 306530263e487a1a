"""A network that is cut, half-open, slow or lossy between real machines, as far as IP goes."""

import asyncio
import subprocess
import time

import pytest
from scripts.torture_tools import why_not

from headwater.aio import connect
from headwater.config.client import ClientSettings
from headwater.errors import RetryLaterError
from tests import figures
from tests.torture.chance import chance, work_goes_on
from tests.torture.namespace import namespace
from tests.torture.processes import wait_until
from tests.torture.proof import prove
from tests.torture.worker import LOG
from tests.torture.world import BOTH, World

ROUNDS_TORTURE = figures.times(8)
GONE_WITHIN_S = 30
HASTY = ClientSettings(deadline_s=4.0, request_timeout_s=1.5, connect_timeout_s=3.0)

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(why_not(("ip", "nft"))), reason="needs ip, nft, and root"),
]


@pytest.fixture
def link():
    with namespace() as made:
        yield made


@pytest.fixture
def world(tmp_path, link):
    options = ("--host", link.address, "--insecure")
    quick = {"keep_alive": "1 1 3"}
    world = World(
        tmp_path / "world", host=link.address, options=options, before=link.before, **quick
    )
    world.make_tables()
    yield world
    link.heal()
    world.close()


async def append_while_cut(world: World, cut, heal) -> tuple[float, int]:
    """Append over a link that is cut, then healed; return how long that took, and the rows."""
    async with await connect(world.address, settings=HASTY) as client:
        table = await client.table(LOG)
        await table.append([("lane", "before")])
        cut()
        began = time.monotonic()
        with pytest.raises(RetryLaterError):
            await table.append([("lane", "during")])
        took_s = time.monotonic() - began
        heal()
        await table.append([("lane", "after")])
        found = (await table.scan().to_arrow())["value"].to_pylist()
        return took_s, sorted(found)


@pytest.mark.parametrize("what", ["cut_requests", "cut_answers", "cut"])
def test_a_cut_link_is_an_error_in_time_and_the_row_is_there_once_at_most(world, link, what):
    took_s, found = asyncio.run(append_while_cut(world, getattr(link, what), link.heal))

    figures.note("network", rounds=1)
    assert took_s < 3 * HASTY.deadline_s
    assert found in (["after", "before"], ["after", "before", "during"])
    assert what == "cut_answers" or len(found) == 2, "a row came through a link that was cut"


def sockets_of(world: World, link) -> int:
    """Return how many connections the server has."""
    asked = [*link.before, "ss", "-Htn", "state", "established", "sport", "=", f":{world.port}"]
    told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    return len(told.splitlines())


def test_a_client_that_is_gone_without_a_word_is_let_go(world, link):
    client = world.start_client("append", "a", {})
    wait_until(lambda: sockets_of(world, link))

    link.cut()
    client.kill()

    wait_until(lambda: not sockets_of(world, link), within_s=GONE_WITHIN_S)
    link.heal()
    figures.note("network", rounds=1)


@pytest.mark.parametrize("what", ["lose", "slow", "cut", "cut_answers", "cut_requests"])
def test_links_that_fail_again_and_again_lose_nothing(world, link, what):
    luck = chance(what)
    world.start_clients(BOTH)

    for _ in range(ROUNDS_TORTURE):
        getattr(link, what)()
        work_goes_on(luck, 0.2, 2.0)
        link.heal()
        work_goes_on(luck, 0.1, 0.5)
    world.stop_clients()

    figures.note("network", rounds=ROUNDS_TORTURE)
    prove(world)
