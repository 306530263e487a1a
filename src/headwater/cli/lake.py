"""`headwater lake`: look at lake tables, and keep them in order by hand."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import At, Debug, command
from headwater.cli.exits import ending
from headwater.cli.naming import TableName, table_names
from headwater.cli.pairs import listed, secret_values
from headwater.cli.session import Session, confirm
from headwater.cli.target import ADDRESS_DEFAULT, Directory, check_directory, parse_target
from headwater.cli.tier import LakeOptions
from headwater.config.values import DURATION
from headwater.errors import InvalidOptionError, RequestError

if TYPE_CHECKING:
    from headwater.cli.lake_tables import LakeTables

app = typer.Typer(help="Look at lake tables, and keep them in order by hand.", no_args_is_help=True)

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


@app.command("status")
@command()
def lake_status(
    session: Session,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Only these; else all with table.datalake.enabled.",
            autocompletion=table_names,
        ),
    ] = None,
    *,
    lake: LakeOptions = None,
) -> None:
    """Show how far lake tables are behind, what they hold, and what went wrong with them.

    Example: headwater lake status --at ./data
    """
    rows = _tables(session, lake).status(listed(tables))
    session.documents(rows, columns=STATUS_TYPES)


@app.command("snapshots")
@command()
def lake_snapshots(session: Session, table: TableName, *, lake: LakeOptions = None) -> None:
    """List the snapshots of a lake table, the oldest first; offsets are those tiered so far.

    Example: headwater lake snapshots clicks --at ./data
    """
    session.documents(_tables(session, lake).snapshots(table), columns=SNAPSHOT_TYPES)


@app.command("where")
@command()
def lake_where(session: Session, table: TableName, *, lake: LakeOptions = None) -> None:
    """Show what other programs need to read a lake table: format, name, and the catalog's options.

    For pyiceberg these are the arguments of load_catalog, for pypaimon those of
    CatalogFactory.create. Secrets are left out.

    Example: headwater lake where clicks --at ./data
    """
    rows = _tables(session, lake).where(table)
    session.documents(rows, columns={"property": pa.string(), "value": pa.string()})


@app.command("create")
@command()
def create_lake_table(
    session: Session,
    table: TableName,
    *,
    system_columns: Annotated[
        bool,
        typer.Option(
            "--system-columns",
            help="With the columns that the Flink tiering service of Apache Fluss 0.9 fills.",
        ),
    ] = False,
    lake: LakeOptions = None,
) -> None:
    """Make the lake table of a table, or bring its columns up to date; rows do not come with it.

    headwater tier does so by itself; other tierers want to find it.

    Example: headwater lake create clicks --system-columns --at db.internal:9123
    """
    _tables(session, lake).create(table, has_system_columns=system_columns)
    session.done(f"The lake table of {table} is ready.", {"table": table, "status": "ready"})


@app.command("relocate")
def relocate_lake(*, at: At = ADDRESS_DEFAULT, debug: Debug = False) -> None:
    """Let the Iceberg lake of a directory that was moved or copied name its files where they are.

    Iceberg notes full paths, so such a lake is refused until then. Nothing outside of the
    directory is touched: the original, if there is one, stays as it is. headwater restore
    does this by itself.

    Example: headwater lake relocate --at ./copy-of-data
    """
    with ending(debug=debug):
        target = parse_target(at)
        if not isinstance(target, Directory):
            raise RequestError(
                "Only a data directory can be relocated, not one behind a server.",
                hint="Stop the server, and give its directory with --at.",
            )
        check_directory(target, creates=False)
        moved = import_module("headwater.backup.archive").relocate(target.path)
        told = f"Relocated {', '.join(moved)}." if moved else "No lake table had to be relocated."
        typer.echo(told)


@app.command("compact")
@command()
def compact_lake_table(session: Session, table: TableName, *, lake: LakeOptions = None) -> None:
    """Turn small files of a lake table, and those with replaced rows, into fewer ones.

    Example: headwater lake compact clicks --at ./data
    """
    files = _tables(session, lake).compact(table)
    rewritten = f"1 file of {table} was" if files == 1 else f"{files} files of {table} were"
    words = f"{rewritten} rewritten." if files else f"{table} is compact."
    session.done(words, {"table": table, "status": "compacted", "files": files})


@app.command("expire")
@command()
def expire_lake_snapshots(
    session: Session,
    table: TableName,
    *,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Newest snapshots that stay; else as the lake table says."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Age from which others go, such as 12h; else as the lake table says."),
    ] = None,
    lake: LakeOptions = None,
) -> None:
    """Drop old snapshots of a lake table, and delete the files that only they held.

    Example: headwater lake expire clicks --keep 10 --older-than 12h --at ./data
    """
    age_ms = None if older_than is None else _duration_ms(older_than)
    done = _tables(session, lake).expire(table, keep=keep, age_ms=age_ms)
    words = f"{done['snapshots']} snapshots and {done['files']} files of {table} are gone."
    session.done(words, {"table": table, "status": "expired", **done})


@app.command("clean")
@command()
def clean_lake_table(
    session: Session,
    table: TableName,
    *,
    older_than: Annotated[
        str, typer.Option(help="Age from which they go; younger ones may be in use.")
    ] = "3d",
    lake: LakeOptions = None,
) -> None:
    """Delete files of a lake table that no snapshot holds, as rounds leave that did not end.

    Example: headwater lake clean clicks --older-than 1d --at ./data
    """
    done = _tables(session, lake).clean(table, age_ms=_duration_ms(older_than))
    words = f"{done['files']} files of {table} that no snapshot held are gone."
    session.done(words, {"table": table, "status": "cleaned", **done})


@app.command("drop")
@command()
def drop_lake_table(
    session: Session,
    table: TableName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of a lake table whose table is gone; its catalog is given by --lake.",
        ),
    ] = None,
    lake: LakeOptions = None,
) -> None:
    """Drop the lake table of a table; the table itself stays, and is tiered anew.

    Rows that its log does not hold any more are lost with it; tiering then has to be told
    --begin-anew. The lake table of a table that was dropped goes with --format and --lake.

    Example: headwater lake drop clicks --yes --at ./data
    """
    tables = _tables(session, lake)
    confirm(f"Drop the lake table of {table} and its rows in the lake?", yes=yes)
    tables.drop(table, form=form)
    session.done(f"The lake table of {table} is gone.", {"table": table, "status": "dropped"})


def _tables(session: Session, lake: list[str] | None) -> "LakeTables":
    config = secret_values(lake or (), what="option of the lake")
    # Loaded here and not above: other commands need none of it.
    tables: LakeTables = import_module("headwater.cli.lake_tables").LakeTables(
        session.client, config
    )
    return tables


def _duration_ms(text: str) -> int:
    found = DURATION.read(text)
    if found is None:
        raise InvalidOptionError(
            f"--older-than cannot be {text!r}.", hint=f"Expected {DURATION.expected}."
        )
    return found
