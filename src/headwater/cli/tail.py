"""`headwater tail`: the rows of a table in the order of its log, as they are written."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName
from headwater.cli.offsets import parse_time
from headwater.cli.pairs import listed
from headwater.cli.read import Columns, Limit, WhereOption
from headwater.cli.session import Session, write
from headwater.cli.where import conditions
from headwater.client.reading.log_batch import LogBatch, Offsets, Place
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.client.sync.table import Table
    from headwater.client.sync.tail import Tail

POLL_S = 0.5
CURSOR = "cursor:"
CHANGELOG = "$changelog"
CHANGE_COLUMNS = ("_change_type", "_log_offset", "_commit_timestamp")

Start = Literal["earliest", "latest"] | datetime | dict[Place, int]


@command()
def tail(
    session: Session,
    table: TableName,
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="START",
            help="earliest, latest, an offset, a timestamp, or cursor:NAME.",
        ),
    ] = "earliest",
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more rows, until Ctrl-C.")
    ] = True,
    changes: Annotated[
        bool | None,
        typer.Option(
            "--changes/--no-changes",
            help="Show the change, offset and time of each row.",
            show_default="for primary-key tables",
        ),
    ] = None,
    columns: Columns = None,
    where: WhereOption = None,
    buckets: Annotated[
        str | None, typer.Option(help="Only these buckets, with commas between them.")
    ] = None,
    limit: Limit = None,
) -> None:
    """Print the rows of a table as they were and are written; Ctrl-C ends it with exit code 0.

    Example: headwater tail clicks --from latest --where "country = 'de'" --at localhost:9123
    """
    found = session.client.table(table)
    chosen = listed([columns]) if columns else None
    if "$" not in table and (found.is_keyed if changes is None else changes):
        found = session.client.table(f"{table}{CHANGELOG}")
        chosen = None if chosen is None else (*CHANGE_COLUMNS, *chosen)
    start = _start(session, found, from_)
    ends = None if follow else found.offsets("latest")
    with (
        suppress(KeyboardInterrupt),
        found.tail(
            start,
            columns=chosen,
            where=conditions(where, found.schema) if where else None,
        ) as followed,
    ):
        batches = _batches(followed, ends)
        _print(session, _chosen(batches, _numbers(buckets)), limit=limit)


def _start(session: Session, table: "Table", text: str) -> Start:
    if not text.startswith(CURSOR):
        return start_of(table, text, option="--from")
    state = session.client.cursors.describe(text.removeprefix(CURSOR), str(table.path))
    return {each.place: each.position for each in state.places}


def start_of(table: "Table", text: str, *, option: str) -> Start:
    """Return the place in a table that a text names, or say how one is written."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.isdigit():
        return clipped(int(text), table.offsets("earliest"), table.offsets("latest"))
    try:
        return parse_time(text)
    except RequestError:
        raise RequestError(
            f"{option} {text!r} is no start.",
            hint="Give earliest, latest, an offset, or a timestamp like 2026-03-01T12:30:00Z.",
        ) from None


def clipped(offset: int, earliest: Offsets, latest: Offsets) -> dict[Place, int]:
    """Return the offset for every bucket, or the nearest that a bucket has."""
    return {place: max(first, min(offset, latest[place])) for place, first in earliest.items()}


def _numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    parts = listed([text])
    if not parts or not all(part.isdigit() for part in parts):
        raise RequestError(f"--buckets {text!r} are no numbers of buckets.")
    return frozenset(map(int, parts))


def _batches(followed: "Tail", ends: Offsets | None) -> Iterator[LogBatch]:
    """Yield batches for ever, or until every bucket was read up to its end."""
    while True:
        yield from followed.poll(timeout_s=POLL_S)
        if ends is not None and is_over(followed.position, ends):
            return


def is_over(position: Mapping[Place, int], ends: Mapping[Place, int]) -> bool:
    """Tell whether reading got to all ends; a bucket that is gone has none any more."""
    return all(at >= ends.get(place, 0) for place, at in position.items())


def _chosen(
    batches: Iterator[LogBatch], numbers: frozenset[int] | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if numbers is None or batch.bucket.bucket in numbers:
            yield batch.rows


def _print(session: Session, batches: Iterator[pa.RecordBatch], *, limit: int | None) -> None:
    form = session.form(streams=True)
    for rows in batches if limit is None else limited(batches, limit):
        if rows.num_rows:
            write(form.rows(rows))


def limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield no more rows than a limit, and wait for none behind it."""
    left = limit
    while left > 0:
        rows = next(batches, None)
        if rows is None:
            return
        yield rows.slice(0, left)
        left -= min(left, rows.num_rows)
