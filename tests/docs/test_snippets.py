"""What the pages show is true: Python blocks run, commands exist, links lead somewhere."""

import ast
import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, zip_longest
from pathlib import Path

import pytest
import typer

from headwater.cli.main import app
from tests.serving import ServerProcess

ROOT = Path(__file__).parents[2]
# Pages write the default address; here every server takes a free port.
DEFAULT_ADDRESS = "127.0.0.1:9123"
RUN_WITHIN_S = 60
SPARK_WITHIN_S = 300  # its first page waits for the session
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "rfcs").glob("*.md")),
]


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `output` is the text block right behind a Python block."""

    language: str
    line: int
    text: str
    output: str | None = None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    blocks = []
    for match, following in zip_longest(found, found[1:]):
        output = None
        is_next = following is not None and not text[match.end() : following.start()].strip()
        if is_next and following[1] == "text":
            output = following[2]
        line = text[: match.start(2)].count("\n")
        blocks.append(Block(match[1], line, match[2], output))
    return blocks


def pages_with(language: str) -> list[Path]:
    is_user_page = [page for page in PAGES if page.parent.name != "rfcs"]
    return [p for p in is_user_page if any(b.language == language for b in blocks_of(p))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def uses_spark(page: Path) -> bool:
    code = (block.text for block in blocks_of(page) if block.language == "python")
    return any("from headwater import spark" in text for text in code)


def pages_to_run() -> list[object]:
    """Return the pages with Python; those that use Spark run where its other tests do."""
    pages = pages_with("python")
    of_spark = (pytest.mark.spark, pytest.mark.timeout(SPARK_WITHIN_S))
    marks = [of_spark if uses_spark(page) else () for page in pages]
    return [
        pytest.param(page, marks=mark, id=name_of(page))
        for page, mark in zip(pages, marks, strict=True)
    ]


class Page:
    """Run the Python blocks of a page in order, in one namespace and one working directory.

    The page may open `./data`. When a block mentions the address of a server, one serves that
    directory from then on, so such a block comes after the storage was closed.
    """

    def __init__(self, path: Path, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self._namespace: dict[str, object] = {"__name__": "page"}
        self._server: ServerProcess | None = None

    def run(self) -> None:
        blocks = [block for block in blocks_of(self._path) if block.language == "python"]
        with asyncio.Runner() as runner:
            try:
                for block in blocks:
                    printed = self._run_block(block, runner)
                    if block.output is not None:
                        place = f"{self._path}:{block.line}"
                        assert printed.strip() == block.output.strip(), place
            finally:
                if self._server is not None:
                    self._server.stop()

    def _run_block(self, block: Block, runner: asyncio.Runner) -> str:
        # Blank lines in front make a traceback point to the line of the page.
        source = "\n" * block.line + self._with_paths(self._with_server(block.text))
        code = compile(source, str(self._path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            running = eval(code, self._namespace)
            if asyncio.iscoroutine(running):
                runner.run(asyncio.wait_for(running, RUN_WITHIN_S))
        return printed.getvalue()

    def _with_paths(self, text: str) -> str:
        # A Spark that began before the page has another working directory.
        return text.replace('"./', f'"{self._directory}/')

    def _with_server(self, text: str) -> str:
        if DEFAULT_ADDRESS not in text:
            return text
        if self._server is None:
            self._server = ServerProcess(self._directory / "data")
        return text.replace(DEFAULT_ADDRESS, self._server.address)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words behind `headwater` wherever a line that is typed calls it."""
    typed = text.replace("\\\n", " ").splitlines()
    for line in typed:
        words = shlex.split(line[2:], comments=True) if line.startswith("$ ") else []
        while words:
            end = next((place for place, word in enumerate(words) if word in "|>"), len(words))
            call, words = words[:end], words[end + 1 :]
            # Variables of the environment may stand in front.
            call = list(dropwhile(lambda word: "=" in word, call))
            if call[:1] == ["headwater"]:
                yield call[1:]


def unknown_words(words: list[str]) -> list[str]:
    """Return what the command line does not know: a command, or flags of it."""
    command = typer.main.get_command(app)
    names = iter([word for word in words if not word.startswith("-")])
    while commands := getattr(command, "commands", None):
        name = next(names, None)
        if name is None:
            break
        if name not in commands:
            return [name]
        command = commands[name]
    spelled = ((*param.opts, *param.secondary_opts) for param in command.params)
    known = {"--help", *(option for options in spelled for option in options)}
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [flag for flag in flags if flag not in known]


@pytest.mark.parametrize("page", pages_to_run())
def test_the_python_blocks_of_a_page_run(page, tmp_path, monkeypatch, request):
    if "import fluss" in page.read_text():
        pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")
    if uses_spark(page):
        if request.config.getoption("--spark") != "classic":
            pytest.skip("pages are written for a session of this process")
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)

    Page(page, tmp_path).run()


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_the_commands_of_a_page_exist(page):
    shown = [block.text for block in blocks_of(page) if block.language == "console"]

    commands = [words for text in shown for words in commands_in(text)]

    assert {
        " ".join(words): unknown_words(words) for words in commands if unknown_words(words)
    } == {}


def test_commands_are_found_behind_variables_and_in_pipes():
    text = "$ pip install headwater\n$ AT=./data headwater scan a | headwater append b  # copies\n"

    assert list(commands_in(text)) == [["scan", "a"], ["append", "b"]]


def test_a_command_that_does_not_exist_is_noticed():
    assert unknown_words(["serve", "./data", "--port", "0"]) == []
    assert unknown_words(["serve", "./data", "--colour"]) == ["--colour"]
    assert unknown_words(["server"]) == ["server"]
    assert unknown_words(["table", "create", "clicks", "--at", "./data"]) == []
    assert unknown_words(["table", "invent"]) == ["invent"]


def anchors_of(page: Path) -> set[str]:
    """Return what links can point to: the headings, as GitHub names them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    place = (page.parent / target).resolve() if target else page
    return place.exists() and (not anchor or anchor in anchors_of(place))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link[0]]

    assert [link for link in links if not leads_somewhere(page, *link)] == []


def test_a_link_that_leads_nowhere_is_noticed():
    readme = ROOT / "README.md"

    assert leads_somewhere(readme, "docs/tutorial.md", "follow")
    assert not leads_somewhere(readme, "docs/tutorial.md", "nothing-of-this-name")
    assert not leads_somewhere(readme, "docs/nothing.md", "")
