"""Running commands, in this process and in others."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from typer.testing import CliRunner, Result

from headwater.cli.main import app

RUN_WITHIN_S = 60
PLAIN = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}


@dataclass(frozen=True)
class Storage:
    """Name a storage, and run commands on it."""

    at: str

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(
            app, arguments, input=stdin, env={**PLAIN, "HEADWATER_AT": self.at}
        )

    def rows(self, *arguments: str) -> list[dict[str, object]]:
        """Run a command that prints rows, and return them."""
        result = self(*arguments, "--output", "json")
        assert result.exit_code == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment of commands in other processes."""
        return {**os.environ, **PLAIN, "HEADWATER_AT": self.at}

    def process(self, *arguments: str, **given) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        command = [sys.executable, "-m", "headwater", *arguments]
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | given
        return subprocess.Popen(command, env=self.env, **given)


def ok(result: Result) -> str:
    """Return what a command printed, which must have gone well."""
    assert result.exit_code == 0, result.stderr or repr(result.exception)
    return result.stdout
