"""The example scripts run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import serving

pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")

EXAMPLES = Path(__file__).parents[2] / "examples"
# The demo starts a server of its own and is run by `make demo`.
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "demo.py")
RUN_WITHIN_S = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("examples") / "data") as server:
        yield server.address


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs_against_a_server(script, address):
    command = [sys.executable, str(script), address]

    run = subprocess.run(command, capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False)

    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
