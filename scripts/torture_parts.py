"""The parts of `make torture`: which long tests belong together, and what they need."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Name tests that are run, timed and counted together."""

    name: str
    tests: tuple[str, ...]
    """Files or folders, as patterns; what an earlier part named is not run again."""
    processes: int = 2
    tools: tuple[str, ...] = ()
    """Programs without which nothing of it can be run."""


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
    Part(name="Spark", tests=("tests/engines/spark",), processes=0),
)


def files_of(parts: tuple[Part, ...], *, root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Return the test files of each part, each file in the first part that names it."""
    taken: set[Path] = set()
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        files = {file for pattern in part.tests for file in _files(root, pattern)} - taken
        taken |= files
        found[part.name] = tuple(str(file.relative_to(root)) for file in sorted(files))
    return found


def _files(root: Path, pattern: str) -> list[Path]:
    within = pattern if pattern.endswith(".py") else f"{pattern}/**/test_*.py"
    return list(root.glob(within))
