"""The options of remote storage, and telling the address of one from other arguments."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

_PANEL = "Remote storage"
_COMMITS = "commits"
_CATALOG = "catalog.sqlite"

RemoteAddress = Annotated[
    str,
    typer.Option(
        "--remote",
        metavar="ADDRESS",
        help="Ship everything to a directory, or to s3://BUCKET/PREFIX, gs://… or az://….",
        show_default="off",
        rich_help_panel=_PANEL,
    ),
]
RemoteOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--remote-option",
        metavar="NAME=VALUE",
        help="Option of the object store, such as region=eu-central-1 or endpoint=…; may be "
        "repeated. Pass secrets as NAME=@FILE or NAME=env:VARIABLE.",
        rich_help_panel=_PANEL,
    ),
]
RemoteInterval = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="Time between two moments that are shipped.",
        rich_help_panel=_PANEL,
    ),
]
RemoteHistory = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How far back earlier moments can be restored.",
        rich_help_panel=_PANEL,
    ),
]
RemoteLagMax = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Reject writes for a while when the remote storage is further behind than this.",
        show_default="off",
        rich_help_panel=_PANEL,
    ),
]
RestoreFrom = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Restore the newest state from a remote storage first, if the directory is new.",
        show_default="off",
        rich_help_panel=_PANEL,
    ),
]
Moment = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="Restore the last state up to this time, such as 2026-03-01T12:30:00Z.",
        show_default="the newest",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteChoice:
    """The options of remote storage of `headwater serve`."""

    address: str
    options: tuple[str, ...]
    interval: str
    history: str
    lag_max: str | None
    restore_from: str


def _parameter(name: str, default: str | None, annotation: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


PARAMETERS = (
    _parameter("remote_address", "", RemoteAddress),
    _parameter("remote_option", None, RemoteOptions),
    _parameter("remote_interval", "1 s", RemoteInterval),
    _parameter("remote_history", "1 h", RemoteHistory),
    _parameter("remote_lag_max", None, RemoteLagMax),
    _parameter("restore_from", "", RestoreFrom),
)


def choice_of(given: Mapping[str, object]) -> RemoteChoice:
    """Take the values of these parameters together."""
    options, lag_max = given["remote_option"], given["remote_lag_max"]
    return RemoteChoice(
        address=str(given["remote_address"]),
        options=tuple(map(str, options)) if isinstance(options, list) else (),
        interval=str(given["remote_interval"]),
        history=str(given["remote_history"]),
        lag_max=None if lag_max is None else str(lag_max),
        restore_from=str(given["restore_from"]),
    )


def is_remote(text: str) -> bool:
    """Tell whether an argument names a remote storage: an address, or a directory that is one."""
    if urlsplit(text).scheme and "://" in text:
        return True
    place = Path(text)
    return (place / _COMMITS).is_dir() and not (place / _CATALOG).exists()
