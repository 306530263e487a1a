"""`headwater tail` and `headwater cursor`: follow a table, and see where its readers are."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
import typer

from headwater.cli.command import CommandSession, command, confirm, listed, write
from headwater.cli.names import TableName, cursor_names
from headwater.cli.output import Document, Output
from headwater.cli.read import Columns, Limit, WhereOption, parse_time
from headwater.cli.values import conditions
from headwater.errors import RequestError
from headwater.read.offsets import LogBatch, Offsets, Place

if TYPE_CHECKING:
    from headwater.client.cursors.admin import CursorState
    from headwater.client.sync.table import Table
    from headwater.client.sync.tail import Tail

# `headwater tail`: the rows of a table in the order of its log, as they are written.

POLL_S = 0.5
CURSOR = "cursor:"
CHANGELOG = "$changelog"
CHANGE_COLUMNS = ("_change_type", "_log_offset", "_commit_timestamp")

Start = Literal["earliest", "latest"] | datetime | dict[Place, int]


@command()
def tail(
    session: CommandSession,
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
        str | None, typer.Option(help="Only these buckets, separated by commas.")
    ] = None,
    limit: Limit = None,
) -> None:
    """Print the rows of a table in the order they are written; Ctrl-C ends it with exit code 0.

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


def _start(session: CommandSession, table: "Table", text: str) -> Start:
    if not text.startswith(CURSOR):
        return start_of(table, text, option="--from")
    state = session.client.cursors.describe(text.removeprefix(CURSOR), str(table.path))
    return {each.place: each.position for each in state.places}


def start_of(table: "Table", text: str, *, option: str) -> Start:
    """Parse a start position in a table."""
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
            f"{text!r} is not a valid value of {option}.",
            hint="Use earliest, latest, an offset, or a timestamp like 2026-03-01T12:30:00Z.",
        ) from None


def clipped(offset: int, earliest: Offsets, latest: Offsets) -> dict[Place, int]:
    """Clip an offset to the range of each bucket."""
    return {place: max(first, min(offset, latest[place])) for place, first in earliest.items()}


def _numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    parts = listed([text])
    if not parts or not all(part.isdigit() for part in parts):
        raise RequestError(f"{text!r} is not a valid value of --buckets.")
    return frozenset(map(int, parts))


def _batches(followed: "Tail", ends: Offsets | None) -> Iterator[LogBatch]:
    """Yield batches forever, or until every bucket was read up to its end."""
    while True:
        yield from followed.poll(timeout_s=POLL_S)
        if ends is not None and is_over(followed.position, ends):
            return


def is_over(position: Mapping[Place, int], ends: Mapping[Place, int]) -> bool:
    """Tell whether all ends are reached; a bucket that was dropped has none."""
    return all(at >= ends.get(place, 0) for place, at in position.items())


def _chosen(
    batches: Iterator[LogBatch], numbers: frozenset[int] | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if numbers is None or batch.bucket.bucket in numbers:
            yield batch.rows


def _print(
    session: CommandSession, batches: Iterator[pa.RecordBatch], *, limit: int | None
) -> None:
    form = session.form(streams=True)
    for rows in batches if limit is None else limited(batches, limit):
        if rows.num_rows:
            write(form.rows(rows))


def limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, without waiting for more."""
    left = limit
    while left > 0:
        rows = next(batches, None)
        if rows is None:
            return
        yield rows.slice(0, left)
        left -= min(left, rows.num_rows)


# `headwater cursor`: manage the cursors that readers share.

cursor_app = typer.Typer(help="List, describe, reset and delete cursors.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="CURSOR", help="Name of the cursor.", autocompletion=cursor_names),
]
Force = Annotated[bool, typer.Option("--force", help="Even while members are reading.")]
SUMMARY_TYPES = {
    "cursor": pa.string(),
    "table": pa.string(),
    "members": pa.int32(),
    "lag_rows": pa.int64(),
}
PLACE_TYPES = {
    "partition": pa.string(),
    "bucket": pa.int32(),
    "owner": pa.string(),
    "position": pa.int64(),
    "end": pa.int64(),
    "lag_rows": pa.int64(),
    "lag_s": pa.float64(),
    "committed": pa.string(),
}


@cursor_app.command("list")
@command()
def list_cursors(session: CommandSession) -> None:
    """List the cursors, with their members and the number of unread rows.

    Example: headwater cursor list --at localhost:9123
    """
    rows = [
        {
            "cursor": each.name,
            "table": str(each.table),
            "members": each.members,
            "lag_rows": each.lag_rows,
        }
        for each in session.client.cursors.list()
    ]
    session.documents(rows, columns=SUMMARY_TYPES)


@cursor_app.command("describe")
@command()
def describe_cursor(session: CommandSession, cursor: Name, table: TableName) -> None:
    """Show who reads which bucket of a table, from where, and the lag.

    Example: headwater cursor describe billing orders --at localhost:9123
    """
    document = cursor_document(session.client.cursors.describe(cursor, table))
    if session.output is not Output.TABLE:
        session.document(document)
        return
    members = document["members"]
    assert isinstance(members, list)
    write(
        f"cursor    {document['cursor']}\ntable     {document['table']}\n"
        f"lag       {document['lag_rows']} rows, {document['lag_s']} s\n"
        f"members   {', '.join(each['name'] for each in members) or 'none'}\n\n"
    )
    places = document["places"]
    assert isinstance(places, list)
    session.documents(places, columns=PLACE_TYPES)


def cursor_document(state: "CursorState") -> Document:
    """Collect everything known of a cursor."""
    return {
        "cursor": state.name,
        "table": str(state.table),
        "lag_rows": state.lag_rows,
        "lag_s": round(state.lag_s, 3),
        "places": [
            {
                "partition": each.place.partition,
                "bucket": each.place.bucket,
                "owner": each.owner,
                "position": each.position,
                "end": each.end,
                "lag_rows": each.lag_rows,
                "lag_s": round(each.lag_s, 3),
                "committed": None if each.committed_at is None else each.committed_at.isoformat(),
            }
            for each in state.places
        ],
        "members": [
            {
                "name": each.name,
                "note": each.note,
                "seen": each.seen_at.isoformat(),
                "places": [{"partition": p.partition, "bucket": p.bucket} for p in each.places],
            }
            for each in state.members
        ],
    }


@cursor_app.command("reset")
@command()
def reset_cursor(
    session: CommandSession,
    cursor: Name,
    table: TableName,
    *,
    to: Annotated[
        str, typer.Option(metavar="START", help="earliest, latest, an offset, or a timestamp.")
    ],
    force: Force = False,
) -> None:
    """Move a cursor to another position in its table, creating it if necessary.

    Example: headwater cursor reset billing orders --to 2026-03-01T00:00:00Z --at localhost:9123
    """
    found = session.client.table(table)
    session.client.cursors.reset(cursor, table, to=start_of(found, to, option="--to"), force=force)
    document = {"cursor": cursor, "table": str(found.path), "status": "reset"}
    session.done(f"Set cursor {cursor} over {found.path} to {to}.", document)


@cursor_app.command("delete")
@command()
def delete_cursor(
    session: CommandSession,
    cursor: Name,
    table: TableName,
    *,
    force: Force = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a cursor with all its positions.

    Example: headwater cursor delete billing orders --yes --at localhost:9123
    """
    confirm(f"Delete cursor {cursor} over {table}?", yes=yes)
    session.client.cursors.delete(cursor, table, force=force)
    session.done(
        f"Deleted cursor {cursor} over {table}.",
        {"cursor": cursor, "table": table, "status": "deleted"},
    )
