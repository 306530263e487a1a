"""Copies by Spark that are killed on purpose: the process, its parts, and how far it has come."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.engines.spark.copy_job import Copy, CopyJob

ROOT = Path(__file__).parents[3]
POLL_S = 0.02
WITHIN_S = 300  # sessions take their time where others use the machine as well
TASK_WORKER = "pyspark.worker"


class Stage(StrEnum):
    """Name the moments of a micro-batch at which to kill."""

    PLANNED = "planned"
    LANDING = "landing"
    COMMITTED = "committed"


class Victim(StrEnum):
    """Name what is killed."""

    TASKS = "tasks"
    """The Python processes that run tasks, which Spark then runs again."""
    WORKER = "worker"
    """Any of the Python processes that Spark has forked, one that plans among them."""
    DRIVER = "driver"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job: what /proc tells of it."""

    pid: int
    parent: int
    command: tuple[str, ...]

    @property
    def is_java(self) -> bool:
        return bool(self.command) and self.command[0].endswith("java")


class CopyProcess:
    """A running copy job, with the processes that belong to it."""

    def __init__(self, job: CopyJob, log: Path) -> None:
        self._log = log
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                job.command(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
                cwd=ROOT,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self, victim: Victim) -> bool:
        """Kill -9 a part of the job, and tell whether there was one to kill."""
        match victim:
            case Victim.EVERYTHING:
                found = list(self._processes())
            case Victim.DRIVER:
                found = [each for each in self._processes() if each.is_java]
            case Victim.TASKS:
                found = [each for each in self._workers() if TASK_WORKER in each.command]
            case Victim.WORKER:
                found = self._workers()[-1:]
        for process in found:
            _kill(process.pid)
        return bool(found)

    def stop(self) -> None:
        """Leave nothing of the job behind."""
        self.kill(Victim.EVERYTHING)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        while left := list(self._processes()):
            for process in left:
                _kill(process.pid)

    def finish(self) -> None:
        """Wait until the job has ended by itself."""
        code = self._process.wait(WITHIN_S * 2)
        assert code == 0, self._log.read_text()[-5000:]

    def _workers(self) -> list[Process]:
        """Return the Python processes that others of their kind forked."""
        pythons = {each.pid: each for each in self._processes() if not each.is_java}
        leader = self._process.pid
        return [each for each in pythons.values() if each.parent in pythons.keys() - {leader}]

    def _processes(self) -> Iterator[Process]:
        """Yield the processes of the session that the job leads, which all its children are in."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent, session = status[0], int(status[1]), int(status[3])
            if session == self._process.pid and state != "Z":
                yield Process(int(entry.name), parent, tuple(command.split("\0")))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch one copy through the files of its checkpoint and the log of its target."""

    copy: Copy
    log_end: Callable[[], int]

    def until(self, stage: Stage, process: CopyProcess) -> None:
        """Return when a new micro-batch is at a stage, or the process has ended."""
        planned, committed, end = self._last("offsets"), self._last("commits"), self.log_end()
        deadline = time.monotonic() + WITHIN_S
        while process.is_running:
            assert time.monotonic() < deadline, f"{self.copy.target} is not {stage}"
            match stage:
                case Stage.PLANNED:
                    is_there = self._last("offsets") > planned
                case Stage.LANDING:
                    is_there = self.log_end() > end
                case Stage.COMMITTED:
                    is_there = self._last("commits") > committed
            if is_there:
                return
            time.sleep(POLL_S)

    def forget_last_commit(self) -> None:
        """Have Spark run the last micro-batch again; one that was not finished is anyhow."""
        last = self._last("commits")
        if last >= 0 and last == self._last("offsets"):
            (Path(self.copy.checkpoint) / "commits" / str(last)).unlink()

    def _last(self, folder: str) -> int:
        directory = Path(self.copy.checkpoint) / folder
        if not directory.is_dir():
            return -1
        names = (each.name for each in directory.iterdir())
        return max((int(name) for name in names if name.isdigit()), default=-1)
