"""A view of a table, by whatever an engine is given for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from headwater.client.reading.log_batch import Place
from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.client.sync.view import View
from headwater.client.union.split import FileGroup, UnionSplit
from headwater.engines.storages import opened
from headwater.errors import RequestError

Source: TypeAlias = View | Table | Client | str | Path
"""A view, a table, or a storage: a client, `host:port`, or a data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Say which rows of a table are read; nothing of it: those that are there now."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    offsets: Mapping[Place | int, int] | None = None
    mode: str = "union"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Say which table of a storage is read, and at which position."""

    table: str | None = None
    position: Position = field(default_factory=Position)
    lake: Mapping[str, str] | None = field(default=None, repr=False)


def view_of(source: Source, asked: Asked) -> View:
    """Return a view of what was asked for, or say what is missing."""
    if isinstance(source, View):
        if asked.table is not None or asked.position != Position():
            raise RequestError(
                "A view has its table and its position.",
                hint="Give the table instead of the view, or nothing beside the view.",
            )
        return source
    table = source if isinstance(source, Table) else _table(source, asked)
    if isinstance(source, Table) and asked.table is not None:
        raise RequestError(f"Two tables are named: {source.path} and {asked.table}.")
    position = asked.position
    return table.view(
        token=position.token,
        snapshot_id=position.snapshot_id,
        as_of=position.as_of,
        offsets=position.offsets,
        mode=position.mode,
    )


def _table(source: Client | str | Path, asked: Asked) -> Table:
    if asked.table is None:
        raise RequestError(
            "No table is named.", hint="Give a table, or a storage and the name of a table in it."
        )
    return opened(source, lake=asked.lake).table(asked.table)


def told(fault: Exception) -> str:
    """Return what happened and what to do about it, in one text."""
    hint = getattr(fault, "hint", "")
    text = str(fault)
    return text if not hint or hint in text else f"{text} {hint}"


def changed_in(tail: Sequence[UnionSplit], group: FileGroup) -> tuple[UnionSplit, ...]:
    """Return the splits whose changes can be of rows in files: fewer keys are found faster."""
    if group.bucket < 0:
        return tuple(tail)
    return tuple(
        split
        for split in tail
        if split.lake is not None
        and split.bucket == group.bucket
        and split.lake.partition == group.partition
    )
