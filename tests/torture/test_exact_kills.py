"""Kill -9 right before the n-th system call of a kind, while the server works or recovers."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest
from scripts.torture_tools import why_not

from tests import figures
from tests.serving import ServerNotStartedError
from tests.torture.chance import chance
from tests.torture.processes import wait_until
from tests.torture.proof import prove
from tests.torture.world import BOTH, World

# All that changes files: rows, states, checkpoints, catalog, and the names of all of them.
# Python's `os.pwritev` makes the newer call.
CALLS = ("pwritev2", "fdatasync", "fsync", "rename", "pwrite64", "unlink", "ftruncate", "mkdir")
FIRST = range(1, 1 + figures.times(4))
LATER = figures.times(15)
REACHED_WITHIN_S = 8.0  # each thread counts its own calls
# Whoever traces ends as what it traces.
KILLED = -signal.SIGKILL

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not(("strace",))), reason="needs strace, and root"),
]


def tracing(call: str, number: int) -> list[str]:
    """Return what stands before a command so that it is killed before a system call."""
    # With --seccomp-bpf, which is faster, strace 6.1 never counts beyond the first call.
    quiet = ["strace", "-f", "-qq", "-o", "/dev/null"]
    return [*quiet, "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]


def run_until_killed(world: World, call: str, number: int) -> bool:
    """Serve until the call is reached, or for a while; tell whether it was."""
    port = world.server.port
    try:
        world.server = world.start(port=port, before=tracing(call, number))
    except ServerNotStartedError as fault:
        assert fault.code == KILLED, f"not killed at {call} {number}, but {fault}"
        return True  # while it recovered
    try:
        code = world.server.wait(REACHED_WITHIN_S)
    except subprocess.TimeoutExpired:
        kill_traced(world)
        return False
    assert code == KILLED, f"not killed at {call} {number}: exit code {code}"
    return True


def kill_traced(world: World) -> None:
    """Kill the server itself, since whoever traces it lets it go on when killed."""
    with suppress(ProcessLookupError):
        os.kill(int((world.data / "LOCK").read_text()), signal.SIGKILL)
    world.server.wait(REACHED_WITHIN_S)


def kill_rounds(world: World, places: list[tuple[str, int]]) -> Counter[str]:
    """Kill the server at each of these places, and return how many of each call were reached."""
    world.start_clients(BOTH)
    world.start_tierer()
    wait_until(lambda: (world.place / "tierers.log").stat().st_size)
    world.server.kill()
    reached = Counter(call for call, number in places if run_until_killed(world, call, number))
    world.restart()
    world.stop_clients()
    world.stop_tierers()
    return reached


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_before_any_of_the_first_calls_loses_nothing(make_world, call):
    world = make_world()

    reached = kill_rounds(world, [(call, number) for number in FIRST])

    figures.note("exact kills", rounds=len(FIRST), places=reached.total())
    assert reached[call] > 1
    prove(world)


def test_a_kill_before_later_calls_loses_nothing(make_world):
    world, luck = make_world(checkpoint=5_000), chance()
    places = [(luck.choice(CALLS), luck.randrange(9, 300)) for _ in range(LATER)]

    reached = kill_rounds(world, places)

    figures.note("exact kills", rounds=LATER, places=reached.total())
    assert reached
    prove(world)


def test_a_process_is_killed_at_the_call_that_is_meant_and_no_other(tmp_path):
    script = "import os, sys\nfor each in range(9): os.mkdir(f'{sys.argv[1]}/{each}')"

    done = subprocess.run(
        [*tracing("mkdir", 3), sys.executable, "-c", script, str(tmp_path)], check=False
    )

    assert done.returncode == KILLED
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0", "1"]


def test_a_start_that_fails_otherwise_is_not_taken_for_a_kill(make_world):
    world = make_world()
    world.server.kill()

    with pytest.raises(AssertionError, match="not killed at no_such_call 1"):
        run_until_killed(world, "no_such_call", 1)
