"""The parts of `make torture`: which long tests belong together, and what they need."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG, SHORT = "torture", "not torture and not interop"
"""Which tests are run, as marks of pytest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Name tests that are run, timed and counted together."""

    name: str
    tests: tuple[str, ...]
    """Files or folders, as patterns; what an earlier part named is not run again."""
    processes: int = 2
    tools: tuple[str, ...] = ()
    """Programs without which nothing of it can be run."""
    marks: str | None = None
    """Which tests of these files, as marks of pytest; without it, the long ones."""


PARTS = (
    Part(name="simulation", tests=("tests/simulation",)),
    Part(name="faults", tests=("tests/crashes/test_*fault*.py",)),
    Part(name="corruption", tests=("tests/crashes/test_*corrupt*.py",)),
    Part(name="crash images", tests=("tests/crashes",)),
    Part(name="fuzz", tests=("tests/fuzz",)),
    Part(name="histories", tests=("tests/testing", "tests/audit")),
    Part(
        name="tablets",
        tests=("tests/tablet", "tests/log", "tests/kv", "tests/server", "tests/store"),
    ),
    Part(name="exact kills", tests=("tests/torture/test_exact_kills.py",), tools=("strace",)),
    Part(name="pauses", tests=("tests/torture/test_pauses.py",)),
    Part(name="disk", tests=("tests/torture/test_disk*.py",), tools=("mount",)),
    Part(name="small machine", tests=("tests/torture/test_small_machine.py",)),
    Part(name="half-open", tests=("tests/torture/test_half_open.py",)),
    Part(name="wire", tests=("tests/torture/test_wire.py",)),
    Part(name="network", tests=("tests/torture/test_net*.py",), tools=("ip", "nft")),
    Part(name="clock", tests=("tests/torture/test_clock.py",), tools=("faketime",)),
    Part(name="restores", tests=("tests/torture/test_restores.py",)),
    Part(name="kills", tests=("tests/torture", "tests/flows")),
    Part(name="cursors", tests=("tests/client",)),
    Part(name="lakes", tests=("tests/lake",)),
    Part(name="tiering", tests=("tests/tiering", "tests/cli")),
    Part(name="union", tests=("tests/union",)),
    # One session of Spark takes all the cores that there are.
    Part(name="Spark", tests=("tests/engines/spark", "tests/pipelines"), processes=0),
    # `make test` runs the short tests on one format and storage each, with few examples.
    Part(name="every choice", tests=("tests",), marks=f"not spark and {SHORT}"),
    Part(name="every choice on Spark", tests=("tests",), marks=f"spark and {SHORT}", processes=0),
)


def files_of(parts: tuple[Part, ...], *, root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Return the test files of each part: its long tests are run by the first that names a file."""
    taken: dict[str | None, set[Path]] = defaultdict(set)
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        named = {file for pattern in part.tests for file in _files(root, pattern)}
        files = named - taken[part.marks]
        taken[part.marks] |= files
        found[part.name] = tuple(str(file.relative_to(root)) for file in sorted(files))
    return found


def _files(root: Path, pattern: str) -> list[Path]:
    within = pattern if pattern.endswith(".py") else f"{pattern}/**/test_*.py"
    return list(root.glob(within))
