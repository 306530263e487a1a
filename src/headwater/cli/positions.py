"""Options that say at which position a table is read, for every command that reads one."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.offsets import parse_time
from headwater.client.reading.log_batch import Place
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.client.sync.table import Table
    from headwater.client.sync.view import View

_PANEL = "At which position"
_OFFSET = re.compile(r"(?:(?P<partition>[^/=]+)/)?(?P<bucket>[0-9]+)=(?P<offset>[0-9]+)\Z")


class Mode(StrEnum):
    """Name what a table is read from."""

    UNION = "union"
    LAKE = "lake"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Hold the position that somebody asks for; by default the newest."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    offsets: dict[Place, int] | None = None
    mode: Mode = Mode.UNION

    def view(self, table: "Table") -> "View":
        """Return a table at the position."""
        return table.view(
            token=self.token,
            snapshot_id=self.snapshot_id,
            as_of=self.as_of,
            offsets=self.offsets,
            mode=str(self.mode),
        )


def _flags(
    *,
    token: Annotated[
        str | None,
        typer.Option(help="As a token says, which a view or a plan gave.", rich_help_panel=_PANEL),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIMESTAMP",
            help="As it was at this time, or at these milliseconds since 1970.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    snapshot_id: Annotated[
        int | None,
        typer.Option(help="As one lake snapshot holds it.", rich_help_panel=_PANEL),
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PARTITION/]BUCKET=OFFSET",
            help="Of this bucket only what is before an offset; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(help="Lake and log together, or one of them alone.", rich_help_panel=_PANEL),
    ] = Mode.UNION,
) -> None:
    """Declare the options of a position, once."""


_FLAGS = inspect.signature(_flags).parameters


def positioned(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a position, and hand it a `position` in place of them."""

    @wraps(function)
    def run(
        *given: object,
        token: str | None,
        as_of: str | None,
        snapshot_id: int | None,
        offset: list[str] | None,
        mode: Mode,
        **arguments: object,
    ) -> None:
        position = Position(
            token=token,
            snapshot_id=snapshot_id,
            as_of=None if as_of is None else _moment(as_of),
            offsets=offsets_of(offset) if offset else None,
            mode=mode,
        )
        function(*given, **arguments, position=position)

    own = [
        each for each in inspect.signature(function).parameters.values() if each.name != "position"
    ]
    run.__dict__["__signature__"] = inspect.Signature([*own, *_FLAGS.values()])
    return run


def offsets_of(texts: Sequence[str]) -> dict[Place, int]:
    """Return offsets by bucket, or say how they are written."""
    offsets: dict[Place, int] = {}
    for text in texts:
        found = _OFFSET.match(text.strip())
        if found is None:
            raise RequestError(
                f"--offset {text!r} is none.",
                hint="Write it as BUCKET=OFFSET, such as 0=1500, or PARTITION/BUCKET=OFFSET.",
            )
        place = Place(found["partition"], int(found["bucket"]))
        if place in offsets:
            raise RequestError(f"--offset names bucket {found['bucket']} twice.")
        offsets[place] = int(found["offset"])
    return offsets


def _moment(text: str) -> datetime | int:
    return int(text) if text.strip().isdigit() else parse_time(text)
