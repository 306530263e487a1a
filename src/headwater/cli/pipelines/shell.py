"""A shell on a terminal: lines, history, completion, and a few commands of its own."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Protocol

from headwater.cli.command import note, write
from headwater.cli.sql import is_blank


def _found_readline() -> ModuleType | None:
    """Import readline, which some systems lack; lines can be typed without it."""
    return import_module("readline") if find_spec("readline") else None


readline = _found_readline()
_HISTORY_LINES = 5_000
_LEAVING = ("quit", "exit")


class Statements(Protocol):
    """Runs what is typed."""

    def run(self, text: str) -> None:
        """Run statements and print their results; raises errors to be shown."""
        ...

    def command(self, name: str, arguments: Sequence[str]) -> bool:
        """Run a command that starts with a dot; return whether it exists."""
        ...

    def names(self) -> Iterable[str]:
        """List the names that may be typed: tables, columns, functions."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTexts:
    """What differs between shells."""

    prompt: str
    help: str
    history: str
    """Name of the file with what was typed before."""
    is_complete: Callable[[str], bool]
    """Tells whether a text ends with a whole statement."""
    completions: Callable[[str, Iterable[str]], Sequence[str]]
    """Completes the last word of a line, given the names that there are."""


@dataclass(frozen=True, slots=True)
class Shell:
    """Read statements from a terminal until its user leaves."""

    statements: Statements
    tell: Callable[[BaseException], None]
    """Shows an error."""
    texts: ShellTexts

    def run(self, greeting: str) -> None:
        """Print the greeting, and run what is typed."""
        write(greeting)
        history = _history_file(self.texts.history)
        _begin(history, self.statements, self.texts)
        try:
            while (text := self._typed()) is not None and self._go_on(text):
                continue
        finally:
            _end(history)

    def _go_on(self, text: str) -> bool:
        """Run what was typed; return whether to continue."""
        if _leaves(text):
            return False
        if text.lstrip().startswith("."):
            return self._do(text)
        if not is_blank(text):
            self._guarded(lambda: self.statements.run(text))
        return True

    def _do(self, text: str) -> bool:
        """Run a command of the shell; return whether to continue."""
        name, *arguments = text.strip().rstrip(";").split()
        match name:
            case ".quit" | ".exit":
                return False
            case ".help":
                write(self.texts.help)
            case _:
                self._guarded(lambda: self._command(name, arguments))
        return True

    def _command(self, name: str, arguments: Sequence[str]) -> None:
        if not self.statements.command(name, arguments):
            note(f"there is no {name}; .help lists the commands")

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except KeyboardInterrupt:
            note("interrupted")
        except Exception as fault:  # noqa: BLE001 - a shell outlives what is typed into it
            self.tell(fault)

    def _typed(self) -> str | None:
        """Read up to the end of a statement; None at the end of input."""
        lines: list[str] = []
        before = _history_length()
        goes_on = "...> ".rjust(len(self.texts.prompt))
        while True:
            try:
                lines.append(input(goes_on if lines else self.texts.prompt))
            except EOFError:
                write("\n")
                return "\n".join(lines) or None
            except KeyboardInterrupt:
                # The statement is discarded, as in every shell.
                write("\n")
                lines, before = [], _history_length()
                continue
            text = "\n".join(lines)
            if is_blank(text) or _leaves(text) or text.lstrip().startswith("."):
                return text
            if self.texts.is_complete(text):
                _join_history(lines, since=before)
                return text


def _leaves(text: str) -> bool:
    """Tell whether somebody wants to leave, with or without a semicolon."""
    return text.strip().rstrip(";").lower() in _LEAVING


def _history_file(name: str) -> Path | None:
    """Return the history file; None if the user does not want one."""
    given = os.environ.get("HEADWATER_SQL_HISTORY")
    if given is not None:
        return Path(given).expanduser() if given else None
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "headwater" / name


def _history_length() -> int:
    return readline.get_current_history_length() if readline is not None else 0


def _join_history(lines: Sequence[str], *, since: int) -> None:
    """Keep a statement of several lines as one, unless a comment would then hide the rest."""
    if readline is None or not lines[1:] or any("--" in line for line in lines):
        return
    for place in reversed(range(since, _history_length())):
        readline.remove_history_item(place)
    readline.add_history(" ".join(line.strip() for line in lines))


def _begin(history: Path | None, statements: Statements, texts: ShellTexts) -> None:
    if readline is None:
        return
    if history is not None:
        _read(history, readline)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" \t\n()[]{},;=<>+*/'`")
    readline.set_completer(_completer(statements, texts))
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


def _read(history: Path, readline: ModuleType) -> None:
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        if history.exists():
            readline.read_history_file(history)
    except OSError as fault:
        note(f"cannot read the history: {fault}")


def _end(history: Path | None) -> None:
    if readline is None:
        return
    readline.set_completer(None)
    if history is None:
        return
    try:
        readline.write_history_file(history)
        history.chmod(0o600)
    except OSError as fault:
        note(f"cannot save the history: {fault}")


def _completer(statements: Statements, texts: ShellTexts) -> Callable[[str, int], str | None]:
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            try:
                found[:] = texts.completions(word, statements.names())
            except Exception:  # noqa: BLE001 - a key press must not end the shell
                found.clear()
        return found[number] if number < len(found) else None

    return complete
