"""`headwater table`: create, list, describe, alter and drop tables."""

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from headwater.cli.altering import Alteration, alter
from headwater.cli.command import command
from headwater.cli.description import describe, page
from headwater.cli.inputs import schema_of_source
from headwater.cli.naming import All, TableName, alterable_names, option_names, shown_databases
from headwater.cli.offsets import offset_rows
from headwater.cli.output import Output
from headwater.cli.pairs import listed, named_types, named_values
from headwater.cli.session import Session, confirm, look, write
from headwater.cli.sources import Format, source_of
from headwater.client.schema_in import schema_of
from headwater.model.schema import check_schema

app = typer.Typer(help="Create, list, describe, alter and drop tables.", no_args_is_help=True)

Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option of the table; may be repeated.",
        autocompletion=option_names,
    ),
]


@app.command("create")
@command(creates=True)
def create_table(
    session: Session,
    table: TableName,
    *,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TYPE", help="A column, in order; may be repeated."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Take the columns of a file instead of --column."
        ),
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Format of that file, if its name lies.")
    ] = None,
    primary_key: Annotated[
        list[str] | None, typer.Option(help="Columns of the primary key, with commas.")
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Columns that choose the partition, with commas.")
    ] = None,
    bucket_by: Annotated[
        list[str] | None, typer.Option(help="Columns that choose the bucket, with commas.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Number of buckets.")] = None,
    auto_increment: Annotated[
        list[str] | None, typer.Option(help="A column that is numbered by the storage.")
    ] = None,
    option: Options = None,
    comment: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it is there already.")
    ] = False,
) -> None:
    """Create a table; with a primary key it keeps the last row of each, without it is a log.

    Example: headwater table create orders --column id:BIGINT --column "price:DECIMAL(10,2) NOT
    NULL" --primary-key id --buckets 4 --at ./data
    """
    schema, options = _columns(column, like, format_), named_values(option or (), what="option")
    key, numbered = listed(primary_key), listed(auto_increment)
    # Refused here, before a directory is made for it.
    check_schema(schema_of(schema, primary_key=key, auto_increment=numbered))
    created = session.client.create_table(
        table,
        schema,
        primary_key=key,
        partition_by=listed(partition_by),
        bucket_by=listed(bucket_by),
        buckets=buckets,
        auto_increment=numbered,
        options=options,
        comment=comment,
        exists_ok=if_not_exists,
    )
    document = {"table": str(created.path), "status": "created"}
    session.done(f"Table {created.path} is there.", document)


def _columns(
    columns: list[str] | None, like: Path | None, given: Format | None
) -> pa.Schema | dict[str, str]:
    if (like is None) == (not columns):
        raise typer.BadParameter("Give either --column NAME:TYPE or --like FILE.")
    return (
        named_types(columns or ())
        if like is None
        else schema_of_source(source_of(like, given=given))
    )


@app.command("list")
@command()
def list_tables(
    session: Session,
    database: Annotated[str | None, typer.Argument(help="Only the tables of this one.")] = None,
    *,
    shows_all: All = False,
) -> None:
    """List tables.

    Example: headwater table list --output json --at ./data
    """
    databases = [database] if database else shown_databases(session.client, shows_all=shows_all)
    rows = [
        {"database": each, "table": name}
        for each in databases
        for name in session.client.list_tables(each)
    ]
    session.documents(rows, columns={"database": pa.string(), "table": pa.string()})


@app.command("describe")
@command()
def describe_table(session: Session, table: TableName) -> None:
    """Show columns, keys, buckets, options, partitions, number of rows and offsets of a table.

    Example: headwater table describe orders --at ./data
    """
    found = session.client.table(table)
    document = describe(
        found.info,
        partitions=found.partitions() if found.info.is_partitioned else [],
        rows=found.count(),
        offsets=offset_rows(
            {"earliest": found.offsets("earliest"), "latest": found.offsets("latest")}
        ),
    )
    if session.output is Output.TABLE:
        write(page(found.info, document, look()))
    else:
        session.document(document)


@app.command("alter")
@command()
def alter_table(
    session: Session,
    table: TableName,
    *,
    add_column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TYPE", help="Add a column; may be repeated."),
    ] = None,
    rename_column: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename a column; may be repeated."),
    ] = None,
    drop_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Drop a column; may be repeated.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set an option; may be repeated.",
            autocompletion=option_names,
        ),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Take an option back to its default; may be repeated.",
            autocompletion=alterable_names,
        ),
    ] = None,
) -> None:
    """Change a table: columns and options, one after the other in the order of this page.

    Example: headwater table alter orders --add-column note:STRING --set table.log.ttl=30d
    """
    alteration = Alteration(
        add=named_types(add_column or ()),
        rename=named_values(rename_column or (), what="renaming"),
        drop=listed(drop_column),
        options=named_values(set_ or (), what="option"),
        reset=listed(reset),
    )
    found = session.client.table(table)
    done = alter(found, alteration)
    document = {"table": str(found.path), "status": "altered", "changes": done}
    session.done(f"Table {found.path} is changed: {', '.join(done)}.", document)


@app.command("drop")
@command()
def drop_table(
    session: Session,
    table: TableName,
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it is not there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop a table and its rows.

    Example: headwater table drop orders --yes --at ./data
    """
    confirm(f"Drop table {table} and its rows?", yes=yes)
    session.client.drop_table(table, missing_ok=if_exists)
    session.done(f"Table {table} is gone.", {"table": table, "status": "dropped"})
