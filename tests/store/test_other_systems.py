"""Headwater without what only Linux has: the suites that touch files and sockets, once more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_SYSTEM = ROOT / "tests" / "other_systems"
FILES = (
    "tests/store/test_disk_contract.py",
    *(f"tests/log/test_{name}.py" for name in ("append", "sync", "recovery", "faults")),
    "tests/catalog/test_durability.py",
    "tests/lake/paimon/test_files.py",
    "tests/lake/iceberg/test_lake_files.py",
)
SERVERS = ("tests/server/test_listener.py", "tests/flows/test_keyed_restart.py")
LONGER = (
    *("tests/flows/test_crashes.py", "tests/flows/test_cursors.py"),
    *("tests/embedded", "tests/lake/contract/test_commit.py"),
)
PROBE = """
import os, socket
from headwater.store import local
print(hasattr(os, "fdatasync"), hasattr(socket, "TCP_QUICKACK"), local._full_sync)
"""


def run_elsewhere(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as another system would have it; so do all processes that it starts."""
    environment = {**os.environ, "PYTHONPATH": str(OTHER_SYSTEM)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def run_suites(suites: tuple[str, ...]) -> None:
    done = run_elsewhere("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *suites)

    assert done.returncode == 0, done.stdout[-4000:]


def test_the_other_system_lacks_what_only_linux_has():
    done = run_elsewhere("-c", PROBE)

    assert done.stdout == "False False 51\n", done.stderr


def test_a_sync_that_leaves_bytes_in_the_drive_is_noticed():
    done = run_elsewhere(
        "-c", "import os; exec('os.fsync(1)', {'os': os, '__name__': 'headwater'})"
    )

    assert "leaves bytes in the drive" in done.stderr


def test_logs_catalogs_and_lakes_work_on_another_system():
    run_suites(FILES)


def test_servers_work_on_another_system():
    run_suites(SERVERS)


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_kills_and_cursors_work_on_another_system():
    run_suites(LONGER)
