"""One seed is one run: the same seed gives the same trace."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.run import run_seed

SEED = 5
ROOT = Path(__file__).parents[2]
PROGRAM = f"""
from tests.simulation.run import run_seed
from tests.simulation.test_same_trace import print_of
print(print_of(run_seed({SEED}).trace))
"""


def print_of(trace: list[str]) -> str:
    """Return a few characters that stand for a trace."""
    return hashlib.sha256("\n".join(trace).encode()).hexdigest()


def test_the_same_seed_gives_the_same_trace():
    first, second = run_seed(SEED), run_seed(SEED)

    assert first.trace == second.trace
    assert first.steps == second.steps


def print_elsewhere(hash_seed: str) -> str:
    """Run the seed in a process of its own, in which nothing else has left anything behind."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip()


def test_another_process_with_other_hashes_gives_the_same_trace():
    assert print_elsewhere("12345") == print_elsewhere("1")


def test_another_seed_gives_another_trace():
    assert run_seed(SEED).trace != run_seed(SEED + 1).trace
