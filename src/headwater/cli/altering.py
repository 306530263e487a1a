"""Changes of a table in a fixed order, with an account of what was done before a failure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import typer

from headwater.cli.session import note
from headwater.errors import HeadwaterError


class Alterable(Protocol):
    """Be a table that can be changed."""

    def add_column(self, name: str, data_type: str) -> None:
        """Add a column."""
        ...

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column."""
        ...

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        ...

    def set_options(self, options: Mapping[str, str]) -> None:
        """Set options."""
        ...

    def reset_options(self, keys: tuple[str, ...]) -> None:
        """Take options back to their defaults."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """Hold what is to be changed."""

    add: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    reset: tuple[str, ...] = ()


def alter(table: Alterable, alteration: Alteration) -> list[str]:
    """Change the table step by step, and return what was done in words."""
    done: list[str] = []
    try:
        for words, step in _steps(table, alteration):
            step()
            done.append(words)
    except HeadwaterError:
        if done:
            note(f"done before the error: {', '.join(done)}")
        raise
    if not done:
        raise typer.BadParameter("Say what to change: --add-column, --set, …")
    return done


def _steps(table: Alterable, change: Alteration) -> Iterator[tuple[str, Callable[[], None]]]:
    for name, kind in change.add.items():
        yield f"added column {name}", partial(table.add_column, name, kind)
    for old, new in change.rename.items():
        yield f"renamed column {old} to {new}", partial(table.rename_column, old, new)
    for name in change.drop:
        yield f"dropped column {name}", partial(table.drop_column, name)
    if change.options:
        yield f"set {', '.join(change.options)}", partial(table.set_options, change.options)
    if change.reset:
        yield f"reset {', '.join(change.reset)}", partial(table.reset_options, change.reset)
