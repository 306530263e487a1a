"""`headwater cursor`: look after the cursors that readers share."""

from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName, cursor_names
from headwater.cli.output import Document, Output
from headwater.cli.session import Session, confirm, write
from headwater.cli.tail import start_of

if TYPE_CHECKING:
    from headwater.client.cursors.states import CursorState

app = typer.Typer(help="List, describe, reset and delete cursors.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="CURSOR", help="Name of the cursor.", autocompletion=cursor_names),
]
Force = Annotated[bool, typer.Option("--force", help="Even while members are at work.")]
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


@app.command("list")
@command()
def list_cursors(session: Session) -> None:
    """List the cursors, with their members and how many rows they have not read.

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


@app.command("describe")
@command()
def describe_cursor(session: Session, cursor: Name, table: TableName) -> None:
    """Show who reads which bucket of a table, from where, and how far that is behind.

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
    """Return all that is known of a cursor."""
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


@app.command("reset")
@command()
def reset_cursor(
    session: Session,
    cursor: Name,
    table: TableName,
    *,
    to: Annotated[
        str, typer.Option(metavar="START", help="earliest, latest, an offset, or a timestamp.")
    ],
    force: Force = False,
) -> None:
    """Set a cursor to another place in its table, and make it if there is none.

    Example: headwater cursor reset billing orders --to 2026-03-01T00:00:00Z --at localhost:9123
    """
    found = session.client.table(table)
    session.client.cursors.reset(cursor, table, to=start_of(found, to, option="--to"), force=force)
    document = {"cursor": cursor, "table": str(found.path), "status": "reset"}
    session.done(f"Cursor {cursor} over {found.path} is set to {to}.", document)


@app.command("delete")
@command()
def delete_cursor(
    session: Session,
    cursor: Name,
    table: TableName,
    *,
    force: Force = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a cursor with all its positions.

    Example: headwater cursor delete billing orders --yes --at localhost:9123
    """
    confirm(f"Delete cursor {cursor} over {table}?", yes=yes)
    session.client.cursors.delete(cursor, table, force=force)
    session.done(
        f"Cursor {cursor} over {table} is gone.",
        {"cursor": cursor, "table": table, "status": "deleted"},
    )
