"""`headwater sql`: queries over all tables of a storage, and SQL as people type it."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.command import CommandSession, command
from headwater.errors import RequestError, UnsupportedError

# SQL as people type it: where a statement ends, and how a word can be completed.

_KEYWORDS = """
    ALL ANALYZE AND AS ASC BETWEEN BY CASE CAST COUNT CREATE DESC DESCRIBE DISTINCT DROP ELSE END
    EXCEPT EXISTS EXPLAIN FALSE FROM GROUP HAVING IN INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT
    MACRO MAX MIN NOT NULL OFFSET ON OR ORDER OVER PARTITION PIVOT QUALIFY SELECT SET SHOW SUM
    SUMMARIZE TABLE TABLES THEN TRUE UNION USING VALUES VIEW WHEN WHERE WINDOW WITH
"""
KEYWORDS = tuple(_KEYWORDS.split())
_RESERVED = """
    all analyse analyze and anti any array as asc asof asymmetric at authorization binary both
    by case cast check collate collation column columns concurrently constraint create cross
    default deferrable desc describe distinct do else end except false fetch for foreign
    freeze from full generated glob group having ilike in initially inner intersect into is
    isnull join lambda lateral leading left like limit map natural not notnull null offset on
    only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary
    qualify references returning right select semi show similar some struct summarize
    symmetric table tablesample then to trailing true try_cast tuple union unique unpack
    unpivot using variadic verbose when where window with
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that DuckDB accepts as column names only in quotes."""
# What hides a semicolon: strings, quoted names, dollar-quoted text, and both kinds of comments.
_HIDING = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<dollar>\$\w*\$).*?(?P=dollar)"""
    r""" | --[^\n]*(?:\n|\Z) | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_OPEN = re.compile(r"""['"] | \$\w*\$ | /\*""", re.VERBOSE)
_WORD = re.compile(r"""[\w.$"]*\Z""")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def is_complete(text: str) -> bool:
    """Tell whether the text ends with a semicolon that ends a statement."""
    bare = _HIDING.sub(" ", text)
    return _OPEN.search(bare) is None and bare.rstrip().endswith(";")


def is_blank(text: str) -> bool:
    """Tell whether a text is only whitespace, comments and semicolons."""
    return not re.sub(r"--[^\n]*(?:\n|\Z)|/\*.*?\*/|[\s;]", "", text, flags=re.DOTALL)


def quoted_name(name: str) -> str:
    """Quote a name if it needs quotes."""
    if _PLAIN.match(name) and name not in RESERVED and name.upper() not in KEYWORDS:
        return name
    return '"{}"'.format(name.replace('"', '""'))


def hint_in(text: str) -> str | None:
    """Find the first planner hint in a text, such as `/*+ OPTIONS(...) */`."""
    found = (match.group() for match in _HIDING.finditer(text))
    return next((each for each in found if each.startswith("/*+")), None)


def completions(typed: str, names: Iterable[str]) -> list[str]:
    """Complete the last word of a line: names first, then keywords."""
    found = _WORD.search(typed)
    word = "" if found is None else found.group()
    lower = word.lower()
    fitting = [name for name in dict.fromkeys(names) if name.lower().startswith(lower)]
    if not word:
        return fitting
    written = str.lower if word == lower else str.upper
    return fitting + [written(key) for key in KEYWORDS if key.startswith(word.upper())]


# ---- statements that would write

_TEMP = r"(?P<temp>(?:temp|temporary)\s+)?"
_TARGET = re.compile(
    r"\b(?P<verb>"
    rf"create\s+(?:or\s+replace\s+)?{_TEMP}(?P<made>table|view|schema|sequence|type|(?:unique\s+)?index)"
    r"|insert\s+(?:or\s+\w+\s+)?into|merge\s+into|update|delete\s+from|truncate(?:\s+table)?"
    r"|(?:drop|alter)\s+\w+|comment\s+on\s+\w+|copy"
    r")\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"(?P<name>(?:\w+|\"(?:[^\"]|\"\")+\")(?:\s*\.\s*(?:\w+|\"(?:[^\"]|\"\")+\"))*)",
    re.IGNORECASE,
)
_COPY_FROM = re.compile(r"\s*(?:\([^)]*\)\s*)?from\b", re.IGNORECASE)
_SAID = re.compile(r"'(?:[^']|'')*'|--[^\n]*(?:\n|\Z)|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SqlWrite:
    """What a statement would write to."""

    verb: str
    """In capital letters, such as CREATE TABLE."""
    name: tuple[str, ...]
    """The parts of the name of what is written."""
    is_temporary: bool


def write_in(text: str) -> SqlWrite | None:
    """Find what a statement would write to; None if it only reads, or exports to a file."""
    bare = _SAID.sub(" ", text)
    found = _TARGET.search(bare)
    if found is None:
        return None
    verb = " ".join(found["verb"].upper().split())
    if verb == "COPY" and _COPY_FROM.match(bare, found.end()) is None:
        return None
    parts = re.findall(r'"((?:[^"]|"")+)"|(\w+)', found["name"])
    name = tuple(quoted.replace('""', '"') or plain for quoted, plain in parts)
    return SqlWrite(verb=verb, name=name, is_temporary=found["temp"] is not None)


_DUCKDB = "duckdb"


@command(reads_lakes=True)
def sql(
    session: CommandSession,
    statements: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STATEMENT]...", help="Statements to run; without any, a shell is started."
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run the statements of this file.")
    ] = None,
) -> None:
    """Query tables with SQL, each as lake and log together at this moment.

    The SQL is DuckDB's; tables are named DATABASE.TABLE. Without a statement it is a shell on a
    terminal, with history and completion; otherwise it runs standard input.

    Example: headwater sql "select city, sum(amount) from shop.orders group by city" --at ./data
    """
    texts = _texts(statements, file)
    try:
        running = import_module("headwater.cli.sql_console")
    except ModuleNotFoundError as fault:
        if fault.name != _DUCKDB:
            raise
        raise UnsupportedError(
            "SQL needs the package 'duckdb', which is not installed.",
            hint="Run: pip install 'headwater[duckdb]'",
        ) from fault
    running.run_sql(session, texts)


def _texts(statements: list[str] | None, file: Path | None) -> list[str] | None:
    """Collect what to run; None for an interactive shell."""
    if statements and file is not None:
        raise RequestError("There are statements both on the command line and in a file.")
    if statements:
        return statements
    if file is not None:
        return [file.read_text(encoding="utf-8")]
    if sys.stdin.isatty() and sys.stdout.isatty():
        return None
    return [sys.stdin.read()]
