"""Kill -9 right before the n-th system call of a kind, while the server works or recovers."""

import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest
from scripts.torture_tools import why_not

from tests import figures
from tests.torture.chance import chance
from tests.torture.proof import prove
from tests.torture.world import BOTH, World

# All that changes files: rows, states, checkpoints, catalog, and the names of all of them.
CALLS = ("pwritev", "fdatasync", "fsync", "rename", "pwrite64", "unlink", "ftruncate", "mkdir")
FIRST = range(1, 9)
LATER = 40
REACHED_WITHIN_S = 4.0

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not(("strace",))), reason="needs strace, and root"),
]


def tracing(call: str, number: int) -> list[str]:
    """Return what stands before a command so that it is killed before a system call."""
    quiet = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]
    return [*quiet, "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]


def run_until_killed(world: World, call: str, number: int) -> bool:
    """Serve until the call is reached, or for a while; tell whether it was."""
    port = world.server.port
    try:
        world.server = world.start(port=port, before=tracing(call, number))
    except RuntimeError:
        return True  # killed while it recovered
    try:
        world.server.wait(REACHED_WITHIN_S)
    except subprocess.TimeoutExpired:
        kill_traced(world)
        return False
    return True


def kill_traced(world: World) -> None:
    """Kill the server itself, since whoever traces it lets it go on when killed."""
    with suppress(ProcessLookupError):
        os.kill(int((world.data / "LOCK").read_text()), signal.SIGKILL)
    world.server.wait(REACHED_WITHIN_S)


def kill_rounds(world: World, places: list[tuple[str, int]]) -> int:
    """Kill the server at each of these places, and return how many were reached."""
    world.start_clients(BOTH)
    world.start_tierer()
    world.server.kill()
    reached = sum(run_until_killed(world, call, number) for call, number in places)
    world.restart()
    time.sleep(1.0)  # all have something to do once more
    world.stop_clients()
    world.stop_tierers()
    return reached


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_before_any_of_the_first_calls_loses_nothing(make_world, call):
    world = make_world()

    reached = kill_rounds(world, [(call, number) for number in FIRST])

    figures.note("exact kills", rounds=len(FIRST), places=reached)
    prove(world)


def test_a_kill_before_later_calls_loses_nothing(make_world):
    world, luck = make_world(checkpoint=5_000), chance()
    places = [(luck.choice(CALLS), luck.randrange(9, 300)) for _ in range(LATER)]

    reached = kill_rounds(world, places)

    figures.note("exact kills", rounds=LATER, places=reached)
    assert reached
    prove(world)
