"""The example scripts run as they are: in a process of their own, and against a server."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import serving

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_WITHIN_S = 60
DEMO = EXAMPLES / "demo.py"
PYFLUSS = EXAMPLES / "with_pyfluss.py"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path not in (DEMO, PYFLUSS))


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("examples") / "data") as server:
        yield server.address


def run(script: Path, *arguments: str) -> str:
    """Run a script and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_does_the_same_embedded_and_against_a_server(script, address):
    embedded = run(script)
    served = run(script, address)

    assert embedded.strip()
    assert served == embedded


def test_the_official_client_runs_against_a_server(address):
    pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")

    assert "{'station': 'Oslo', 'height': 94}" in run(PYFLUSS, address)
