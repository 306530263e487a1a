"""`headwater lake`: inspect lake tables and maintain them by hand."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import At, CommandSession, Debug, command, confirm, listed, secret_values
from headwater.cli.commands import ending
from headwater.cli.names import TableName, table_names
from headwater.cli.target import ADDRESS_DEFAULT, DataDirectory, check_directory, parse_target
from headwater.cli.tier import LakeOptions
from headwater.config.values import DURATION
from headwater.errors import InvalidOptionError, RequestError

if TYPE_CHECKING:
    from headwater.cli.lake_run import LakeTables

lake_app = typer.Typer(help="Inspect lake tables and maintain them by hand.", no_args_is_help=True)

STATUS_TYPES = {
    "table": pa.string(),
    "format": pa.string(),
    "state": pa.string(),
    "lag_rows": pa.int64(),
    "lag_s": pa.float64(),
    "snapshot": pa.int64(),
    "age_s": pa.float64(),
    "files": pa.int64(),
    "rows": pa.int64(),
    "bytes": pa.int64(),
    "failures": pa.int64(),
    "error": pa.string(),
}
SNAPSHOT_TYPES = {
    "snapshot": pa.int64(),
    "parent": pa.int64(),
    "time": pa.string(),
    "rows": pa.int64(),
    "files": pa.int64(),
    "bytes": pa.int64(),
    "offsets": pa.int64(),
    "epoch": pa.string(),
}


@lake_app.command("status")
@command()
def lake_status(
    session: CommandSession,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these tables; default: all with table.datalake.enabled.",
            autocompletion=table_names,
        ),
    ] = None,
    *,
    lake: LakeOptions = None,
) -> None:
    """Show how far lake tables lag behind, their contents, and their errors.

    Example: headwater lake status --at ./data
    """
    rows = _tables(session, lake).status(listed(tables))
    session.documents(rows, columns=STATUS_TYPES)


@lake_app.command("snapshots")
@command()
def lake_snapshots(session: CommandSession, table: TableName, *, lake: LakeOptions = None) -> None:
    """List the snapshots of a lake table, oldest first, with the offsets tiered so far.

    Example: headwater lake snapshots clicks --at ./data
    """
    session.documents(_tables(session, lake).snapshots(table), columns=SNAPSHOT_TYPES)


@lake_app.command("where")
@command()
def lake_where(session: CommandSession, table: TableName, *, lake: LakeOptions = None) -> None:
    """Show what other programs need to read a lake table: format, name, and catalog options.

    For pyiceberg these are the arguments of load_catalog, for pypaimon those of
    CatalogFactory.create. Secrets are left out.

    Example: headwater lake where clicks --at ./data
    """
    rows = _tables(session, lake).where(table)
    session.documents(rows, columns={"property": pa.string(), "value": pa.string()})


@lake_app.command("create")
@command()
def create_lake_table(
    session: CommandSession,
    table: TableName,
    *,
    system_columns: Annotated[
        bool,
        typer.Option(
            "--system-columns",
            help="Add the columns that the Flink tiering service of Apache Fluss 0.9 fills.",
        ),
    ] = False,
    lake: LakeOptions = None,
) -> None:
    """Create the lake table of a table, or update its columns; no rows are copied.

    headwater tier does this by itself; other tiering services need the lake table to exist.

    Example: headwater lake create clicks --system-columns --at db.internal:9123
    """
    _tables(session, lake).create(table, has_system_columns=system_columns)
    session.done(f"The lake table of {table} is ready.", {"table": table, "status": "ready"})


@lake_app.command("relocate")
def relocate_lake(*, at: At = ADDRESS_DEFAULT, debug: Debug = False) -> None:
    """Update the file paths in the Iceberg lake of a directory that was moved or copied.

    Iceberg stores full paths, so such a lake is rejected until then. Nothing outside of the
    directory is touched: the original, if there is one, stays as it is. headwater restore does this
    by itself.

    Example: headwater lake relocate --at ./copy-of-data
    """
    with ending(debug=debug):
        target = parse_target(at)
        if not isinstance(target, DataDirectory):
            raise RequestError(
                "Only a data directory can be relocated, not a server.",
                hint="Stop the server, and pass its directory with --at.",
            )
        check_directory(target, creates=False)
        moved = import_module("headwater.backup.archive").relocate(target.path)
        told = f"Relocated {', '.join(moved)}." if moved else "Nothing needs to be relocated."
        typer.echo(told)


@lake_app.command("compact")
@command()
def compact_lake_table(
    session: CommandSession, table: TableName, *, lake: LakeOptions = None
) -> None:
    """Merge small files of a lake table, and those with replaced rows, into fewer ones.

    Example: headwater lake compact clicks --at ./data
    """
    files = _tables(session, lake).compact(table)
    rewritten = "1 file" if files == 1 else f"{files} files"
    words = f"Rewrote {rewritten} of {table}." if files else f"{table} is already compact."
    session.done(words, {"table": table, "status": "compacted", "files": files})


@lake_app.command("expire")
@command()
def expire_lake_snapshots(
    session: CommandSession,
    table: TableName,
    *,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Newest snapshots to keep; default: as the lake table says."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Age after which others are dropped, such as 12h; default: as the lake table says."
        ),
    ] = None,
    lake: LakeOptions = None,
) -> None:
    """Drop old snapshots of a lake table, and delete the files that only they use.

    Example: headwater lake expire clicks --keep 10 --older-than 12h --at ./data
    """
    age_ms = None if older_than is None else _duration_ms(older_than)
    done = _tables(session, lake).expire(table, keep=keep, age_ms=age_ms)
    words = f"Dropped {done['snapshots']} snapshots and {done['files']} files of {table}."
    session.done(words, {"table": table, "status": "expired", **done})


@lake_app.command("clean")
@command()
def clean_lake_table(
    session: CommandSession,
    table: TableName,
    *,
    older_than: Annotated[
        str, typer.Option(help="Age after which they are deleted; younger ones may be in use.")
    ] = "3d",
    lake: LakeOptions = None,
) -> None:
    """Delete files of a lake table that no snapshot uses, as left by interrupted rounds.

    Example: headwater lake clean clicks --older-than 1d --at ./data
    """
    done = _tables(session, lake).clean(table, age_ms=_duration_ms(older_than))
    words = f"Deleted {done['files']} unused files of {table}."
    session.done(words, {"table": table, "status": "cleaned", **done})


@lake_app.command("drop")
@command()
def drop_lake_table(
    session: CommandSession,
    table: TableName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of a lake table whose table was dropped; pass its catalog with --lake.",
        ),
    ] = None,
    lake: LakeOptions = None,
) -> None:
    """Drop the lake table of a table; the table itself stays, and is tiered again from the start.

    Rows that are no longer in its log are lost; tiering then needs --begin-anew. To drop the lake
    table of a table that was dropped, pass --format and --lake.

    Example: headwater lake drop clicks --yes --at ./data
    """
    tables = _tables(session, lake)
    confirm(f"Drop the lake table of {table} and its rows in the lake?", yes=yes)
    tables.drop(table, form=form)
    session.done(f"Dropped the lake table of {table}.", {"table": table, "status": "dropped"})


def _tables(session: CommandSession, lake: list[str] | None) -> "LakeTables":
    config = secret_values(lake or (), what="lake option")
    # Imported here because other commands do not need it.
    tables: LakeTables = import_module("headwater.cli.lake_run").LakeTables(session.client, config)
    return tables


def _duration_ms(text: str) -> int:
    found = DURATION.read(text)
    if found is None:
        raise InvalidOptionError(
            f"{text!r} is not a valid value of --older-than.", hint=f"Expected {DURATION.expected}."
        )
    return found
