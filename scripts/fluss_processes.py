"""Java processes of one cluster: started in one process group, and never left behind."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

LOG_TAIL_LINES = 40
# When this process ends, however it ends, the pipe to the guard closes and the group is killed.
GUARD = ("sh", "-c", "cat > /dev/null; kill -9 0")


class JavaProcess:
    """Hold one running process and the file that it logs to."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, group: int) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=group,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill -9: no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def log_tail(self) -> str:
        """Return the last lines that it logged."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join((f"--- {self.name} ({self.log})", *lines))


class ProcessGroup:
    """Start processes that end at the latest with the one that started them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._guard = subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=0)
        self.processes: dict[str, JavaProcess] = {}

    def start(self, name: str, command: Sequence[str]) -> JavaProcess:
        """Start a process, in the place of an earlier one of this name."""
        log = self._logs / f"{name}.log"
        process = JavaProcess(name, command, log=log, group=self._guard.pid)
        self.processes[name] = process
        return process

    def kill(self, name: str) -> None:
        """Kill -9 a process, and forget it."""
        self.processes.pop(name).kill()

    def ended(self) -> JavaProcess | None:
        """Return a process that ended by itself, if one did."""
        ended = (process for process in self.processes.values() if not process.is_running)
        return next(ended, None)

    def log_tails(self) -> str:
        """Return the last lines that each process logged."""
        return "\n".join(process.log_tail() for process in self.processes.values())

    def stop(self) -> None:
        """Kill the processes and the guard: their data is not kept, so there is nothing to tidy."""
        os.killpg(self._guard.pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
