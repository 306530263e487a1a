"""What the pages show is true: Python blocks run, commands exist, links lead somewhere."""

import ast
import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest
import typer

from headwater.cli.main import app
from tests.serving import serving

ROOT = Path(__file__).parents[2]
# Pages write the default address; here every server takes a free port.
DEFAULT_ADDRESS = "127.0.0.1:9123"
RUN_WITHIN_S = 60
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
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


async def run_page(page: Path, address: str) -> None:
    """Run the Python blocks of a page in order, in one namespace."""
    namespace: dict[str, object] = {"__name__": "page", "address": address}
    for block in blocks_of(page):
        if block.language == "python":
            printed = await run_block(block, page, address, namespace)
            if block.output is not None:
                assert printed.strip() == block.output.strip(), f"{page}:{block.line}"


async def run_block(block: Block, page: Path, address: str, namespace: dict[str, object]) -> str:
    # Blank lines in front make a traceback point to the line of the page.
    source = "\n" * block.line + block.text.replace(DEFAULT_ADDRESS, address)
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        running = eval(code, namespace)
        if asyncio.iscoroutine(running):
            async with asyncio.timeout(RUN_WITHIN_S):
                await running
    return printed.getvalue()


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words behind `headwater` of every line that is typed."""
    typed = text.replace("\\\n", " ").splitlines()
    for line in typed:
        words = shlex.split(line[2:]) if line.startswith("$ ") else []
        if "headwater" in words:
            yield words[words.index("headwater") + 1 :]


def unknown_words(words: list[str]) -> list[str]:
    """Return what the command line does not know: a command, or flags of it."""
    group = typer.main.get_command(app)
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in group.commands:
        return [name]
    command = group if name is None else group.commands[name]
    known = {option for param in command.params for option in param.opts} | {"--help"}
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [flag for flag in flags if flag not in known]


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
async def test_the_python_blocks_of_a_page_run(page, tmp_path):
    pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")

    with serving(tmp_path / "data") as server:
        await run_page(page, server.address)


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_the_commands_of_a_page_exist(page):
    shown = [block.text for block in blocks_of(page) if block.language == "console"]

    commands = [words for text in shown for words in commands_in(text)]

    assert {
        " ".join(words): unknown_words(words) for words in commands if unknown_words(words)
    } == {}


def test_a_command_that_does_not_exist_is_noticed():
    assert unknown_words(["serve", "./data", "--port", "0"]) == []
    assert unknown_words(["serve", "./data", "--colour"]) == ["--colour"]
    assert unknown_words(["server"]) == ["server"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]

    assert [link for link in links if not (page.parent / link).exists()] == []
