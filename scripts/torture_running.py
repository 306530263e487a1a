"""One part of `make torture` in a process group of its own, and what became of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET

from scripts.torture_parts import LONG, ROOT, Part

PART_S_MAX = 3 * 3600.0
END_WITHIN_S = 20.0
NOTHING_COLLECTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Say how a part went."""

    name: str
    tests: int = 0
    failed: int = 0
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0
    reason: str = ""
    """Why it was not run, or came to no end."""
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Tell whether nothing was found; that of a part that was not run is no proof."""
        return not self.failed

    @property
    def was_run(self) -> bool:
        """Tell whether any test of it came to an end, so that there was something to find."""
        return bool(self.failed) or self.tests > len(self.skipped)

    @property
    def result(self) -> str:
        """Say it in a word or two."""
        reasons = "; ".join(sorted({*self.skipped, self.reason} - {""}))
        if self.failed:
            return f"**{self.failed} failed**" + (f": {self.reason}" if self.reason else "")
        if not self.was_run:
            return f"not run: {reasons}"
        if self.skipped:
            return f"passed, {len(self.skipped)} skipped: {reasons}"
        return "passed"


class Group:
    """A process with all that it starts, so that all of it can be ended."""

    running: ClassVar[set["Group"]] = set()

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; what it prints goes to a log, or is shown at once where none is given."""
        self._output = log.open("wb") if log is not None else None
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT if self._output is not None else None,
            start_new_session=True,
        )
        self.running.add(self)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end, and leave nothing behind; return the exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            self.end()

    def end(self) -> None:
        """End what still runs: first asked, then killed."""
        if self._process.poll() is None:
            self._signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_WITHIN_S)
        # Also what outlived its parent.
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._output is not None:
            self._output.close()
        self.running.discard(self)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def run_part(
    part: Part, files: Sequence[str], *, place: Path, marker: str, variables: Mapping[str, str]
) -> Outcome:
    """Run the tests of a part, and count them."""
    report, log = place / f"{_slug(part.name)}.xml", place / f"{_slug(part.name)}.log"
    report.unlink(missing_ok=True)
    beside = ["-n", str(part.processes), "--dist", "worksteal"] if part.processes > 1 else []
    command = [sys.executable, "-m", "pytest", "-q", "-m", marker, f"--junitxml={report}"]
    began = time.monotonic()
    code = Group([*command, *beside, *files], log=log, variables=variables).wait(PART_S_MAX)
    seconds = time.monotonic() - began
    if not report.exists():
        return Outcome(name=part.name, failed=1, seconds=seconds, reason=f"exit code {code}")
    outcome = _counted(part.name, report, seconds=seconds, code=code)
    return _nothing_collected(outcome, marker=marker) if code == NOTHING_COLLECTED else outcome


def _nothing_collected(outcome: Outcome, *, marker: str) -> Outcome:
    """A part is there for its long tests; without any, and none skipped, something is wrong."""
    is_fault = marker == LONG and not outcome.skipped
    reason = "" if outcome.skipped else "there are no such tests"
    return replace(outcome, failed=int(is_fault), reason=reason)


def _counted(name: str, report: Path, *, seconds: float, code: int) -> Outcome:
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    skips = [each.get("message", "") for suite in suites for each in suite.iter("skipped")]
    faults = sum(int(suite.get(kind, 0)) for suite in suites for kind in ("failures", "errors"))
    return Outcome(
        name=name,
        tests=sum(int(suite.get("tests", 0)) for suite in suites),
        failed=faults or int(code != 0),
        skipped=tuple(skips),
        seconds=seconds,
    )


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
