"""Processes of a story: clients, tierers and commands, each of which may be killed or paused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

END_WITHIN_S = 60
COMMAND_WITHIN_S = 300
BEGIN_WITHIN_S = 60.0
POLL_S = 0.02
# One that was just started may not listen to signals yet, and has begun nothing.
WELL = (0, -signal.SIGTERM)
NOT_NOW = 7


class Process:
    """Run one program until it is stopped or killed."""

    def __init__(
        self, *arguments: str, log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._output = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdout=self._output,
            stderr=self._output,
            env={**os.environ, **(variables or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Tell how it ended; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def stop(self, *, expect: tuple[int, ...] = WELL) -> None:
        """Ask it to end, and expect that it ends well."""
        if self.is_running:
            self.send(signal.SIGTERM)
        code = self._process.wait(END_WITHIN_S)
        self._output.close()
        assert code in expect, f"exit code {code}: {self.told()}"

    def told(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def wait_until(is_true: Callable[[], object], *, within_s: float = BEGIN_WITHIN_S) -> None:
    """Wait for something that other processes bring about."""
    deadline = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < deadline, f"it did not come about within {within_s} s"
        time.sleep(POLL_S)


def run_command(*arguments: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run a command of `headwater` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "headwater", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_WITHIN_S,
        check=False,
    )
    if expect is not None:
        told = f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
        assert done.returncode == expect, f"{arguments}: exit code {done.returncode}\n{told}"
    return done
