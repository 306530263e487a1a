"""Errors that name line and column and show the line with a caret."""

from collections.abc import Iterable
from difflib import get_close_matches

from headwater.errors import StatementError
from headwater.pipelines.sql.statements import SourceText

_LINE_CHARACTERS_MAX = 160
_LIKENESS_MIN = 0.6


def fault(source: SourceText, message: str, *, hint: str = "", at: int = 0) -> StatementError:
    """Make an error about a piece of a script; `at` counts characters from its start.

    The message shows the line and a caret below the character.
    """
    line, column = place_of(source, at)
    shown = _line(source, line)
    start = max(0, min(column - 1, len(shown)) - _LINE_CHARACTERS_MAX // 2)
    cut = shown[start : start + _LINE_CHARACTERS_MAX]
    # A tab stays a tab, so that the caret stands below its character.
    before = "".join("\t" if each == "\t" else " " for each in shown[start : column - 1])
    found = StatementError(
        f"Line {line}, column {column}: {message}", hint=hint, shown=f"\n\n  {cut}\n  {before}^"
    )
    found.line, found.column = line, column
    return found


def place_of(source: SourceText, at: int) -> tuple[int, int]:
    """Return line and column of a character of a piece, in its script."""
    before = source.text[:at]
    lines = before.count("\n")
    if not lines:
        return source.line, source.column + at
    return source.line + lines, at - before.rfind("\n")


def _line(source: SourceText, line: int) -> str:
    lines = (source.script or source.text).split("\n")
    index = line - 1 if source.script else line - source.line
    return lines[index].rstrip("\r") if index < len(lines) else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, if one is near."""
    lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=_LIKENESS_MIN)
    return lower[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?`, or nothing."""
    found = nearest(name, known)
    return f"Did you mean '{found}'?" if found is not None else ""
