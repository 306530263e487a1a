"""Talk with a process that runs other people's readers: one line of JSON asks, one answers.

The process may have other versions of packages than we have, so it shares nothing with us but
these lines, and files of Arrow's format where rows are many.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
# What others print goes to the same place.
MARK = "answer: "
STOPS_WITHIN_S = 30
TAIL_LINES = 30

Answer = dict[str, object]


class ForeignError(RuntimeError):
    """Tell what went wrong on the other side."""


class Foreign:
    """Ask a process that was started for it."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, action: str, **parts: object) -> Answer:
        """Have something done, and return what came of it."""
        _pipe(self._process.stdin).write(json.dumps({"do": action, **parts}) + "\n")
        _pipe(self._process.stdin).flush()
        for line in _pipe(self._process.stdout):
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                if "error" in answer:
                    raise ForeignError(answer["error"])
                return answer
        tail = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        raise ForeignError("\n".join(["It ended.", *tail]))


@contextmanager
def foreign(
    module: str, *, log: Path, packages: Path | None = None, **variables: str
) -> Iterator[Foreign]:
    """Run a module that serves, with packages of its own before ours."""
    environment = {**os.environ, **variables}
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
    try:
        yield Foreign(process, log)
    finally:
        _pipe(process.stdin).close()
        try:
            process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _pipe(process.stdout).close()


def serve(actions: Mapping[str, Callable[..., Answer]]) -> None:
    """Do what is asked, line by line, until nobody asks any more."""
    for line in sys.stdin:
        parts = json.loads(line)
        try:
            answer = actions[parts.pop("do")](**parts)
        except Exception:  # noqa: BLE001, told to the one who asked
            answer = {"error": traceback.format_exc()}
        print(f"{MARK}{json.dumps(answer)}", flush=True)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
