"""Arguments of the form name=value, name:TYPE, a,b,c and '5 s'."""

import math
from collections.abc import Iterable, Sequence

import typer

from headwater.cli.session import note
from headwater.config.lake import exposed_secrets, value_or_file
from headwater.config.values import DURATION
from headwater.errors import RequestError

SECONDS_MIN = 0.05


def named_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Return name=value arguments by name, or say which is none or comes twice."""
    return _paired(texts, mark="=", what=what)


def secret_values(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Return name=value arguments by name; a value of @FILE is what the file says.

    Other users of a machine see what is on a command line, so secrets are better in files.
    """
    named = named_values(texts, what=what)
    if exposed := exposed_secrets(named):
        note(
            f"warning: other users of this machine can see the value of {', '.join(exposed)} in"
            f" the list of processes; write it to a file and give {exposed[0]}=@FILE"
        )
    return {name: value_or_file(name, value) for name, value in named.items()}


def named_types(texts: Iterable[str]) -> dict[str, str]:
    """Return name:TYPE arguments by name, or say which is none or comes twice."""
    return _paired(texts, mark=":", what="column")


def listed(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Return names that were given one by one, or several with commas between them."""
    return tuple(part for text in texts or () for part in map(str.strip, text.split(",")) if part)


def seconds(text: str | float) -> float:
    """Return a length of time in seconds: a number of them, or a text such as '5 s' or '2 min'."""
    milliseconds = DURATION.read(str(text))
    try:
        found = float(text) if milliseconds is None else milliseconds / 1000
    except ValueError:
        found = math.nan
    if not SECONDS_MIN <= found < math.inf:
        raise typer.BadParameter(
            f"{text!r} is no length of time from {SECONDS_MIN:g} s on: write seconds, as 5 or 0.5,"
            " or an amount with its unit, as '5 s' or '2 min'."
        )
    return found


def _paired(texts: Iterable[str], *, mark: str, what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition(mark)
        name = name.strip()
        if not name or not separator:
            raise RequestError(
                f"{text!r} is no {what}.",
                hint=f"Write it as name{mark}{'TYPE' if mark == ':' else 'value'}.",
            )
        if name in found:
            raise RequestError(f"The {what} '{name}' is given twice.")
        found[name] = value.strip() if mark == ":" else value
    return found
