"""What ruff cannot see: file and function length, nesting, weak names, leftovers."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
FILES = sorted(path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
NESTING_MAX = 3
WEAK_NAMES = re.compile(r"(^|_)(utils?|help(?:ers?)|common|misc|manager|impl|base)(_|$)")
LEFTOVER = re.compile(r"\b(FIXME|XXX|HACK)\b|\bTODO\b(?! #\d+)")
MOCKS = re.compile(r"\bunittest" + r"\.mock\b|\bimport mock\b|\bmocker\b")
NESTING = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)
# Joined here so that this file does not contain what it looks for.
MACHINE_PATHS = tuple("/" + place + "/" for place in ("work", "root"))
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("maven", "org"),
        ("maven", "apache", "org/maven2"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("debian", "org"),
    )
)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def nesting(node: ast.AST) -> int:
    return isinstance(node, NESTING) + max(map(nesting, inner_blocks(node)), default=0)


def inner_blocks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield children, looking through an elif so that a chain counts as one level."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If):
            yield from inner_blocks(child)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each tracked file that is present and is text."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    for name in filter(None, names.decode().split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            yield name, content.decode("utf-8", errors="replace")


@pytest.fixture(params=FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def file(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_a_file_is_short_enough_to_read_in_one_sitting(file):
    assert len(file.read_text().splitlines()) <= FILE_LINES_MAX


def test_a_function_fits_a_screen_and_stays_shallow(file):
    for function in functions(ast.parse(file.read_text())):
        assert function.end_lineno - function.lineno < FUNCTION_LINES_MAX, function.name
        assert nesting(function) <= NESTING_MAX, function.name


def test_a_file_is_named_after_what_it_is(file):
    assert not WEAK_NAMES.search(file.stem)


def test_nothing_is_left_over(file):
    assert not LEFTOVER.search(file.read_text())


def test_tests_use_fakes_and_never_mocks():
    mocking = [path.name for path in TESTS.rglob("*.py") if MOCKS.search(path.read_text())]

    assert mocking == []


def test_no_tracked_file_names_a_path_of_one_machine():
    named = [
        (name, path) for name, text in tracked_texts() for path in MACHINE_PATHS if path in text
    ]

    assert named == []


def test_no_tracked_file_names_the_host_of_a_package_registry():
    named = [(name, host) for name, text in tracked_texts() for host in REGISTRIES if host in text]

    assert named == []
