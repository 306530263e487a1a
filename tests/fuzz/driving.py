"""Run targets in processes of their own, and read from what is left why one ended."""

import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.child import HEAD
from tests.fuzz.every import MODULE_OF

ROOT = Path(__file__).parents[2]
_OUTPUT_MAX = 4000


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the input that broke a target, and how."""

    target: str
    data: bytes
    why: str


def run_child(
    names: list[str], directory: Path, *, seed: int, count: int, within_s: float
) -> Failure | None:
    """Try inputs for each target; return the first failure."""
    note = directory / "note"
    command = [sys.executable, "-m", "tests.fuzz.child", str(note), str(seed), str(count), *names]
    done = _run(command, directory, within_s=within_s)
    if done.returncode == 0:
        return None
    number, length = HEAD.unpack_from(note.read_bytes())
    data = note.read_bytes()[HEAD.size : HEAD.size + length]
    name = names[number] if number >= 0 else "the child itself"
    return Failure(name, data, _reason(done))


def run_guided(name: str, directory: Path, *, seconds: int) -> tuple[int, Failure | None]:
    """Let atheris look for inputs; return how many it tried, and what broke."""
    options = (f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=3000", "-max_len=100000")
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.guided",
        MODULE_OF[name],
        name,
        str(directory),
        *options,
    ]
    done = _run(command, directory, within_s=seconds + 300)
    broken = [path for path in directory.iterdir() if path.is_file()]
    if done.returncode == 0 and not broken:
        return _runs_of(done.stderr), None
    data = broken[0].read_bytes() if broken else b""
    return 0, Failure(name, data, _reason(done))


def _run(
    command: list[str], directory: Path, *, within_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        # A process that dies leaves its files behind, where pytest clears them away.
        env={**os.environ, "PYTHONFAULTHANDLER": "", "TMPDIR": str(directory)},
        preexec_fn=_without_cores,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=within_s,
        check=False,
    )


def _without_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}"
    return f"ended with {done.returncode}:\n{done.stderr[-_OUTPUT_MAX:]}"


def _runs_of(output: str) -> int:
    """Return what libFuzzer says last, as in `Done 42891 runs in 16 second(s)`."""
    words = output[output.rindex("Done ") :].split()
    return int(words[1])
