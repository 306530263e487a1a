"""A shell for SQL on a terminal: lines, history, completion, and a few commands of its own."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Protocol

from headwater.cli.session import note, write
from headwater.cli.sql_text import completions, is_blank, is_complete


def _found_readline() -> ModuleType | None:
    """Return what edits lines; Python on some systems has none, and lines can still be typed."""
    return import_module("readline") if find_spec("readline") else None


readline = _found_readline()
_PROMPT = "headwater> "
_GOES_ON = "      ...> "
_HISTORY_LINES = 5_000
HELP = """\
End a statement with a semicolon. Tables are DATABASE.TABLE, each as it is at this moment, and are
only read here. A table or view of your own is made with CREATE TEMP, and gone when you leave.

  .tables            all tables
  .schema TABLE      the columns of a table
  .explain TABLE     what would be read of it, and from where
  .output FORM       table, json or csv
  .timer on|off      how long statements take
  .help              this text
  .quit              leave, as Ctrl-D does; Ctrl-C ends a statement

  select * from fluss_read('DATABASE', 'TABLE', as_of := now() - interval 1 hour);
  select * from fluss_snapshots('DATABASE', 'TABLE');
"""


class Statements(Protocol):
    """Do what is typed."""

    def run(self, text: str) -> None:
        """Run statements and print what they return; raises what is to be told."""
        ...

    def command(self, name: str, arguments: Sequence[str]) -> bool:
        """Do a command that begins with a dot; return whether there is such a one."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names that may be typed: tables, columns, functions."""
        ...


@dataclass(frozen=True, slots=True)
class Shell:
    """Read statements from a terminal until its user leaves."""

    statements: Statements
    tell: Callable[[BaseException], None]
    """Shows an error."""

    def run(self, greeting: str) -> None:
        """Greet, and do what is typed."""
        write(greeting)
        history = _history_file()
        _begin(history, self.statements)
        try:
            while (text := _typed()) is not None and self._go_on(text):
                continue
        finally:
            _end(history)

    def _go_on(self, text: str) -> bool:
        """Do what was typed; return whether to go on."""
        if text.lstrip().startswith("."):
            return self._do(text)
        if not is_blank(text):
            self._guarded(lambda: self.statements.run(text))
        return True

    def _do(self, text: str) -> bool:
        """Do a command of the shell; return whether to go on."""
        name, *arguments = text.strip().rstrip(";").split()
        match name:
            case ".quit" | ".exit":
                return False
            case ".help":
                write(HELP)
            case _:
                self._guarded(lambda: self._command(name, arguments))
        return True

    def _command(self, name: str, arguments: Sequence[str]) -> None:
        if not self.statements.command(name, arguments):
            note(f"there is no {name}; .help lists what there is")

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except KeyboardInterrupt:
            note("interrupted")
        except Exception as fault:  # noqa: BLE001 - a shell outlives what is typed into it
            self.tell(fault)


def _typed() -> str | None:
    """Return what is typed up to the end of a statement; None at the end of all."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input(_GOES_ON if lines else _PROMPT))
        except EOFError:
            write("\n")
            return "\n".join(lines) or None
        except KeyboardInterrupt:
            # What was begun is forgotten, as in every shell.
            write("\n")
            lines = []
            continue
        text = "\n".join(lines)
        if is_complete(text) or is_blank(text) or text.lstrip().startswith("."):
            return text


def _history_file() -> Path | None:
    """Return where lines are kept; None where the user does not want that."""
    given = os.environ.get("HEADWATER_SQL_HISTORY")
    if given is not None:
        return Path(given).expanduser() if given else None
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "headwater" / "sql_history"


def _begin(history: Path | None, statements: Statements) -> None:
    if readline is None:
        return
    if history is not None:
        _read(history, readline)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" \t\n()[]{},;=<>+-*/'")
    readline.set_completer(_completer(statements))
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


def _read(history: Path, readline: ModuleType) -> None:
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        if history.exists():
            readline.read_history_file(history)
    except OSError as fault:
        note(f"the history cannot be read: {fault}")


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
        note(f"the history cannot be kept: {fault}")


def _completer(statements: Statements) -> Callable[[str, int], str | None]:
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            try:
                found[:] = completions(word, statements.names())
            except Exception:  # noqa: BLE001 - a key press must not end the shell
                found.clear()
        return found[number] if number < len(found) else None

    return complete


def table_in(text: str) -> str:
    """Return a table as commands name it, whatever quotes it was typed with."""
    return re.sub(r'"([^"]*)"', r"\1", text)
