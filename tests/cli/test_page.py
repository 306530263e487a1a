"""The page about the command line shows what happens."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "command-line.md"
RUN_WITHIN_S = 60
_FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, str]]:
    """Return the commands of the page and what each prints, where the page shows it."""
    blocks = [match[1] for match in _FENCE.finditer(PAGE.read_text(encoding="utf-8"))]
    shown = [block for block in blocks if re.search(r"^[^$]", block, re.MULTILINE)]
    typed = [step for block in shown for step in block.removeprefix("$ ").split("\n$ ")]
    return [(step.partition("\n")[0], step.partition("\n")[2].rstrip("\n")) for step in typed]


@pytest.fixture
def shell(tmp_path):
    """Return a shell in an empty folder that knows `headwater` and where to work."""
    command = tmp_path / "bin" / "headwater"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headwater "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HEADWATER_AT": "./data", "NO_COLOR": "1"}

    def run(line: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_WITHIN_S,
            check=False,
        ).stdout.rstrip("\n")

    return run


@pytest.mark.timeout(400)  # as many processes as there are commands
def test_the_commands_of_the_page_print_what_it_shows(shell):
    printed = [(line, shell(line)) for line, _ in steps()]

    assert printed == steps()
