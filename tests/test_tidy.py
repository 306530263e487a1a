"""What ruff cannot see: the size of files, folders and functions, nesting, weak names, leftovers.

Each check looks at every file and tells every place that it finds.
"""

import ast
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
FILES = sorted(path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
FILE_LINES_MAX = 700
# A module that is shorter and has one importer belongs into that importer.
FILE_LINES_MIN = 80
FOLDER_FILES_MAX = 25
FILES_MAX = 580
# Files that are too small, or that take too much from each other, begin with long imports.
IMPORTS_PERCENT_MAX = 7
# What others start or import by name, so that our own importers say nothing.
ENTRIES = {
    "headwater.cli.entry",
    "headwater.duckdb",
    "headwater.engines.spark.daemon",
    "headwater.engines.spark.tiering.daemon",
    "headwater.testing.plugin",
    "headwater.lake.iceberg.plugin",
    "headwater.lake.paimon.plugin",
}
FUNCTION_LINES_MAX = 60
NESTING_MAX = 3
WEAK_NAMES = re.compile(r"(^|_)(utils?|help(?:ers?)|common|misc|manager|impl|base)(_|$)")
GERUND = re.compile(r"(^|_)(\w{3,}ing)$")
NOUNS_IN_ING = {"blocking", "string", "setting", "settings", "testing", "tiering"}
# The tail that blocks has the name of the one that is awaited: both are public.
SHARED_CLASSES = {"Tail"}
GLOSSARY_WORDS_MIN = 40
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


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def name_of(file: Path) -> str:
    return str(file.relative_to(SOURCE))


def test_a_file_is_short_enough_to_read_in_one_sitting():
    long = [(name_of(file), lines(file)) for file in FILES if lines(file) > FILE_LINES_MAX]

    assert long == []


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield all that could be modules among what a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_a_short_file_has_more_than_one_user():
    importers = Counter(name for tree in TREES.values() for name in set(imported(tree)))
    short = [module_of(each) for each in FILES if lines(each) < FILE_LINES_MIN]
    alone = [each for each in short if importers[each] == 1 and each not in ENTRIES]

    assert [each for each in alone if not each.endswith("__init__")] == []


def test_folders_and_the_whole_have_few_files():
    modules = [each for each in FILES if each.name != "__init__.py"]
    folders = Counter(name_of(each.parent) for each in modules)

    assert {name: n for name, n in folders.items() if n > FOLDER_FILES_MAX} == {}
    assert len(modules) <= FILES_MAX


def test_little_of_the_code_is_imports():
    found = [each for tree in TREES.values() for each in ast.walk(tree)]
    imports = [each for each in found if isinstance(each, ast.Import | ast.ImportFrom)]
    import_lines = sum(each.end_lineno - each.lineno + 1 for each in imports)

    assert 100 * import_lines / sum(map(lines, FILES)) <= IMPORTS_PERCENT_MAX


def test_a_function_fits_a_screen_and_stays_shallow():
    every = [(name_of(file), each) for file, tree in TREES.items() for each in functions(tree)]
    long = [
        (name, each.name)
        for name, each in every
        if each.end_lineno - each.lineno >= FUNCTION_LINES_MAX
    ]
    deep = [(name, each.name) for name, each in every if nesting(each) > NESTING_MAX]

    assert (long, deep) == ([], [])


def test_a_file_is_named_after_what_it_is():
    assert [name_of(file) for file in FILES if WEAK_NAMES.search(file.stem)] == []


def test_a_module_is_a_noun_or_a_plain_verb():
    gerunds = [name_of(file) for file in FILES if GERUND.search(file.stem)]

    assert [each for each in gerunds if Path(each).stem not in NOUNS_IN_ING] == []


def test_a_public_class_has_a_name_of_its_own():
    names = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} <= SHARED_CLASSES


def test_the_glossary_has_each_word_once_in_order():
    words = re.findall(r"^\| \*\*([^*]+)\*\*", (ROOT / "GLOSSARY.md").read_text(), re.MULTILINE)

    assert words == sorted(set(words))
    assert len(words) >= GLOSSARY_WORDS_MIN


def test_nothing_is_left_over():
    assert [name_of(file) for file in FILES if LEFTOVER.search(file.read_text())] == []


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


# What runs code that it was given, and the places where that is our own; why is said there.
RUNS_CODE = {"pickle.loads", "pickle.load", "pickle.Unpickler", "cloudpickle.loads"} | {
    *("marshal.loads", "marshal.load", "shelve.open", "dill.loads", "joblib.load"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "eval", "exec", "compile"),
    *("os.system", "os.popen", "subprocess.getoutput"),
}
OWN_CODE = {("headwater/engines/spark/tiering/runner.py", "pickle.loads")}


def test_nothing_that_came_from_outside_is_run():
    found = {
        (name_of(path), ast.unparse(node.func))
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in RUNS_CODE
    }
    imported = {
        (name_of(path), f"{node.module}.{each.name}")
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if f"{node.module}.{each.name}" in RUNS_CODE
    }

    assert found | imported == OWN_CODE
