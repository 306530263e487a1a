"""Kill -9 of server, tierer and clients at any moment: nothing lost, nothing twice."""

import time

import pytest

from tests import figures
from tests.torture.chance import chance, work_goes_on
from tests.torture.proof import prove
from tests.torture.world import BOTH, CLIENTS, FORMATS, World

ROUNDS = 2
KILLS = ("tierer", "server", "server and tierer", "server", "server")
ROUNDS_TORTURE = figures.times(120)
ROUNDS_PER_WORLD = 50
DELAY_S = (0.05, 2.0)
DELAY_SHORT_S = (0.05, 0.7)
NO_DISK_IS_AS_LARGE_BYTES = 1 << 60
BACK_WITHIN_S = 30.0  # with all that is started beside it


def kill_rounds(world: World, *, rounds: int, clients=CLIENTS, delay_s=DELAY_S) -> None:
    """Let all work, and kill the server, the tierer or both, and now and then a client."""
    luck = chance()
    world.start_clients(clients)
    world.start_tierer()
    for number in range(1, rounds + 1):
        work_goes_on(luck, *delay_s)
        kills = KILLS[number % len(KILLS)]
        dead = [world.tierers.pop()] if "tierer" in kills else []
        for tierer in dead:
            tierer.kill()
        if "server" in kills:
            kill_server(world)
        for _ in dead:
            world.start_tierer()
        if number % 5 == 0:
            replace_client(world, clients, at=luck.randrange(len(clients)))
    world.stop_clients()
    world.stop_tierers()


def kill_server(world: World) -> None:
    world.server.kill()
    began = time.monotonic()
    world.restart()
    assert time.monotonic() - began < BACK_WITHIN_S, "the server took long to come back"


def replace_client(world: World, clients, *, at: int) -> None:
    """Kill a client, and start another as patient as it was, under another name."""
    world.clients.pop(at).kill()
    kind, name, settings = clients[at]
    world.clients.insert(at, world.start_client(kind, name, settings))


@pytest.mark.timeout(300)
def test_kills_of_server_and_tierer_lose_nothing_and_double_nothing(make_world):
    world = make_world(formats=FORMATS[:1])

    kill_rounds(world, rounds=ROUNDS, clients=BOTH, delay_s=DELAY_SHORT_S)

    prove(world)


def test_a_server_that_takes_no_rows_after_a_kill_is_not_taken_for_one_that_works(make_world):
    world = make_world(formats=FORMATS[:1])
    world.start_clients(BOTH)

    world.server.kill()
    world.restart(disk_free_bytes_min=NO_DISK_IS_AS_LARGE_BYTES)

    with pytest.raises(AssertionError, match=r"no progress .*append-a1, .*upsert-a1"):
        world.stop_clients(progress_within_s=3.0)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("turn", range(max(1, ROUNDS_TORTURE // ROUNDS_PER_WORLD)))
def test_hundreds_of_kills_lose_nothing_and_double_nothing(make_world, turn):
    world = make_world(formats=FORMATS[:: 1 if turn % 2 else -1])

    kill_rounds(world, rounds=min(ROUNDS_TORTURE, ROUNDS_PER_WORLD))

    figures.note("kills", rounds=min(ROUNDS_TORTURE, ROUNDS_PER_WORLD))
    prove(world)
