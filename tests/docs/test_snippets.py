"""What the pages show is true: Python blocks run, commands exist, links lead somewhere."""

import ast
import asyncio
import codeop
import contextlib
import io
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, takewhile, zip_longest
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headwater.cli.main import app
from tests.cases import cases
from tests.serving import ServerProcess

ROOT = Path(__file__).parents[2]
# Pages write the default address; here every server takes a free port.
DEFAULT_ADDRESS = "127.0.0.1:9123"
RUN_WITHIN_S = 60
SPARK_WITHIN_S = 300  # its first page waits for the session
SILENT_S_MAX = 120
PASTED_BYTES = 256  # at once, so that writing never waits for a reader
AWAITS = re.compile(r"\bawait ")
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
                self.stop()

    def blocks_before_spark(self) -> list[Block]:
        """Return the blocks before the first that needs Spark, which takes its time.

        Those that await are for notebooks, as their page says.
        """
        blocks = [block for block in blocks_of(self._path) if not AWAITS.search(block.text)]
        return list(takewhile(lambda block: "headwater import spark" not in block.text, blocks))

    def run_commands(self, block: Block, place: str) -> None:
        """Run the commands of a block on the server, once there is one, but no other server."""
        lines = re.findall(r"^\$ (.*\bheadwater (?!serve).*)$", block.text, re.MULTILINE)
        for line in [] if self._server is None else lines:
            said = re.match(r"echo '(.*)' \| ", line)
            (words,) = commands_in(f"$ {line}")
            env = {"HEADWATER_AT": self._server.address, "NO_COLOR": "1"}
            done = CliRunner().invoke(app, words, input=said[1] if said else "", env=env)
            assert done.exit_code == 0, f"{place}: {line}\n{done.stderr}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def _run_block(self, block: Block, runner: asyncio.Runner) -> str:
        # Blank lines in front make a traceback point to the line of the page.
        source = "\n" * block.line + self._with_paths(self.with_server(block.text))
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

    def with_server(self, text: str) -> str:
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


def faults_when_pasted(text: str) -> list[str]:
    """Return the lines that a prompt of Python 3.11 refuses, which is given one after the other."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    faults, lines = [], list[str]()
    for line in [*text.splitlines(), ""]:
        lines.append(line)
        try:
            is_whole = compiler("\n".join(lines), "<pasted>", "single") is not None
        except SyntaxError as fault:
            faults.append(f"{line}: {fault.msg}")
            is_whole = True
        if is_whole:
            lines = []
    return faults + lines


def test_every_python_block_can_be_pasted_into_a_prompt():
    faults = {
        f"{name_of(page)}:{block.line}": faults_when_pasted(block.text)
        for page in pages_with("python")
        for block in blocks_of(page)
        # A block with tests goes into a file.
        if block.language == "python" and "def test_" not in block.text
    }

    assert {place: found for place, found in faults.items() if found} == {}
    assert faults_when_pasted("for n in [1]:\n    print(n)\nprint(2)\n")


def test_no_example_has_a_column_that_sql_takes_in_quotes_only():
    column = re.compile(r"""["'](?:at|order|end|desc)["']: *["'][A-Z]|--column (?:at|order|end):""")

    assert [name_of(page) for page in PAGES if column.search(page.read_text())] == []


class Prompt:
    """A prompt of Python on a terminal of its own, into which blocks are pasted."""

    READY = "-=ready=-"

    def __init__(self, directory: Path) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-q", "-i"],
            cwd=directory,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "PYTHONSTARTUP": ""},
        )
        os.close(theirs)

    def paste(self, text: str) -> str:
        """Paste a block, and return all that the terminal shows up to its end."""
        # A person presses Enter after the last line, which ends an indented block.
        left = f"{text.rstrip()}\n\nprint('-=' + 'ready=-')\n".encode()
        seen = ""
        while self.READY not in seen:
            # Both ways at once: a terminal that nobody reads takes no more after a while.
            wanted = [self._ours] if left else []
            ready, writable, _ = select.select([self._ours], wanted, [], SILENT_S_MAX)
            assert ready or writable, seen
            if ready:
                seen += os.read(self._ours, 65536).decode(errors="replace")
            elif writable:
                left = left[os.write(self._ours, left[:PASTED_BYTES]) :]
        return seen.replace("\r", "")

    def close(self) -> None:
        os.close(self._ours)
        self._process.kill()
        self._process.wait()


def paste_page(page: Page, blocks: list[Block], directory: Path) -> None:
    """Paste the Python blocks of a page, and run its commands between them."""
    prompt = Prompt(directory)
    try:
        for block in blocks:
            if block.language == "console":
                page.run_commands(block, f"line {block.line}")
            if block.language != "python":
                continue
            shown = prompt.paste(page.with_server(block.text))
            fault = re.search(r"^(Traceback|\w*Error\b)", shown, re.MULTILINE)
            assert not fault, f"line {block.line}\n{shown}"
            for line in (block.output or "").splitlines():
                assert line in shown, f"line {block.line}\n{shown}"
    finally:
        prompt.close()
        page.stop()


def check_audit(directory: Path) -> None:
    done = CliRunner().invoke(app, ["audit", "--at", str(directory)], env={"NO_COLOR": "1"})
    assert done.exit_code == 0, done.stdout


@pytest.mark.parametrize(
    "name", ["README.md", "docs/tour.md", "docs/tutorial.md", "docs/tutorial-primary-keys.md"]
)
def test_a_page_can_be_pasted_into_a_prompt_block_by_block(name, tmp_path):
    page = Page(ROOT / name, tmp_path)

    paste_page(page, page.blocks_before_spark(), tmp_path)

    check_audit(tmp_path / "data")


@pytest.mark.spark
@pytest.mark.timeout(SPARK_WITHIN_S)
@pytest.mark.parametrize("name", ["docs/tutorial-spark.md", "docs/tutorial-lake.md"])
def test_a_page_on_spark_can_be_pasted_into_a_prompt_block_by_block(name, tmp_path, request):
    if request.config.getoption("--spark") != "classic":
        pytest.skip("a prompt makes a session of its own")
    page = Page(ROOT / name, tmp_path)

    paste_page(page, blocks_of(ROOT / name), tmp_path)

    check_audit(tmp_path / "data")


@cases("page", pages_with("console"))
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


@cases("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link[0]]

    assert [link for link in links if not leads_somewhere(page, *link)] == []


def test_a_link_that_leads_nowhere_is_noticed():
    readme = ROOT / "README.md"

    assert leads_somewhere(readme, "docs/tutorial.md", "follow")
    assert not leads_somewhere(readme, "docs/tutorial.md", "nothing-of-this-name")
    assert not leads_somewhere(readme, "docs/nothing.md", "")
