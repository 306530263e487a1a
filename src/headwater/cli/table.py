"""`headwater database`, `table` and `partition`: list, create, describe, alter and drop them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import pyarrow as pa
import typer

from headwater.cli.command import (
    CommandSession,
    command,
    confirm,
    listed,
    look,
    named_types,
    named_values,
    note,
    write,
)
from headwater.cli.inputs import schema_of_source
from headwater.cli.names import (
    All,
    TableName,
    alterable_names,
    describe,
    option_names,
    page,
    shown_databases,
)
from headwater.cli.output import Document, Output
from headwater.cli.read import offset_rows
from headwater.cli.target import Format, source_of
from headwater.cluster.schema_in import schema_of
from headwater.errors import HeadwaterError, NotPartitionedError
from headwater.model.schema import check_schema

database_app = typer.Typer(help="List, create and drop databases.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="DATABASE", help="Name of the database.")]


@database_app.command("list")
@command()
def list_databases(session: CommandSession, *, shows_all: All = False) -> None:
    """List the databases.

    Example: headwater database list --at ./data
    """
    names = shown_databases(session.client, shows_all=shows_all)
    session.documents([{"database": name} for name in names], columns={"database": pa.string()})


@database_app.command("create")
@command(creates=True)
def create_database(
    session: CommandSession,
    name: Name,
    *,
    comment: Annotated[str | None, typer.Option(help="What the database is for.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it already exists.")
    ] = False,
) -> None:
    """Create a database.

    Example: headwater database create shop --at ./data
    """
    properties = named_values(option or (), what="option")
    session.client.create_database(
        name, exists_ok=if_not_exists, comment=comment, properties=properties
    )
    session.done(f"Created database {name}.", {"database": name, "status": "created"})


@database_app.command("drop")
@command()
def drop_database(
    session: CommandSession,
    name: Name,
    *,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables as well.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drop a database.

    Example: headwater database drop shop --cascade --yes --at ./data
    """
    confirm(f"Drop database {name}{' with all its tables' if cascade else ''}?", yes=yes)
    session.client.drop_database(name, missing_ok=if_exists, cascade=cascade)
    session.done(f"Dropped database {name}.", {"database": name, "status": "dropped"})


# Changes of a table in a fixed order, with a record of what was done before a failure.


class Alterable(Protocol):
    """A table that can be altered."""

    def add_column(self, name: str, data_type: str) -> None:
        """Add a column."""
        ...

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column."""
        ...

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        ...

    def set_options(self, options: Mapping[str, str]) -> None:
        """Set options."""
        ...

    def reset_options(self, keys: tuple[str, ...]) -> None:
        """Reset options to their defaults."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The changes to make."""

    add: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    reset: tuple[str, ...] = ()


def alter(table: Alterable, alteration: Alteration) -> list[str]:
    """Change the table step by step, and describe what was done."""
    done: list[str] = []
    try:
        for words, step in _steps(table, alteration):
            step()
            done.append(words)
    except HeadwaterError:
        if done:
            note(f"done before the error: {', '.join(done)}")
        raise
    if not done:
        raise typer.BadParameter("Say what to change: --add-column, --set, …")
    return done


def _steps(table: Alterable, change: Alteration) -> Iterator[tuple[str, Callable[[], None]]]:
    for name, kind in change.add.items():
        yield f"added column {name}", partial(table.add_column, name, kind)
    for old, new in change.rename.items():
        yield f"renamed column {old} to {new}", partial(table.rename_column, old, new)
    for name in change.drop:
        yield f"dropped column {name}", partial(table.drop_column, name)
    if change.options:
        yield f"set {', '.join(change.options)}", partial(table.set_options, change.options)
    if change.reset:
        yield f"reset {', '.join(change.reset)}", partial(table.reset_options, change.reset)


# `headwater table`: create, list, describe, alter and drop tables.

table_app = typer.Typer(help="Create, list, describe, alter and drop tables.", no_args_is_help=True)

Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option of the table; may be repeated.",
        autocompletion=option_names,
    ),
]


@table_app.command("create")
@command(creates=True)
def create_table(
    session: CommandSession,
    table: TableName,
    *,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TYPE", help="A column, in order; may be repeated."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Take the columns from a file instead of --column."
        ),
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Format of that file, if not by its name.")
    ] = None,
    primary_key: Annotated[
        list[str] | None, typer.Option(help="Primary-key columns, separated by commas.")
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Partition columns, separated by commas.")
    ] = None,
    bucket_by: Annotated[
        list[str] | None, typer.Option(help="Bucket columns, separated by commas.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Number of buckets.")] = None,
    auto_increment: Annotated[
        list[str] | None, typer.Option(help="A column that the storage numbers.")
    ] = None,
    option: Options = None,
    comment: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it already exists.")
    ] = False,
) -> None:
    """Create a table; with a primary key it keeps the last row of each key, without it is a log.

    Example: headwater table create orders --column id:BIGINT --column "price:DECIMAL(10,2) NOT
    NULL" --primary-key id --buckets 4 --at ./data
    """
    schema, options = _columns(column, like, format_), named_values(option or (), what="option")
    key, numbered = listed(primary_key), listed(auto_increment)
    # Rejected here, before a directory is created for it.
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
    session.done(f"Created table {created.path}.", document)


def _columns(
    columns: list[str] | None, like: Path | None, given: Format | None
) -> pa.Schema | dict[str, str]:
    if (like is None) == (not columns):
        raise typer.BadParameter("Pass either --column NAME:TYPE or --like FILE.")
    return (
        named_types(columns or ())
        if like is None
        else schema_of_source(source_of(like, given=given))
    )


@table_app.command("list")
@command()
def list_tables(
    session: CommandSession,
    database: Annotated[
        str | None, typer.Argument(help="Only the tables of this database.")
    ] = None,
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


@table_app.command("describe")
@command()
def describe_table(session: CommandSession, table: TableName) -> None:
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


@table_app.command("alter")
@command()
def alter_table(
    session: CommandSession,
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
            help="Reset an option to its default; may be repeated.",
            autocompletion=alterable_names,
        ),
    ] = None,
) -> None:
    """Change columns and options of a table, one after the other in the order of this page.

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
    session.done(f"Changed table {found.path}: {', '.join(done)}.", document)


@table_app.command("drop")
@command()
def drop_table(
    session: CommandSession,
    table: TableName,
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drop a table and its rows.

    Example: headwater table drop orders --yes --at ./data
    """
    confirm(f"Drop table {table} and its rows?", yes=yes)
    session.client.drop_table(table, missing_ok=if_exists)
    session.done(f"Dropped table {table}.", {"table": table, "status": "dropped"})


# `headwater partition`: list, create and drop the partitions of a table.

partition_app = typer.Typer(
    help="List, create and drop the partitions of a table.", no_args_is_help=True
)

Spec = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE", help="The value of every partition column."),
]


@partition_app.command("list")
@command()
def list_partitions(session: CommandSession, table: TableName) -> None:
    """List the partitions of a table.

    Example: headwater partition list clicks --at ./data
    """
    found = session.client.table(table)
    keys = found.info.descriptor.partition_keys
    if not keys:
        raise NotPartitionedError(f"{found.path} is not partitioned.")
    session.documents(found.partitions(), columns=dict.fromkeys(keys, pa.string()))


@partition_app.command("create")
@command()
def create_partition(
    session: CommandSession,
    table: TableName,
    spec: Spec,
    *,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it already exists.")
    ] = False,
) -> None:
    """Create a partition; writing rows creates missing ones by itself.

    Example: headwater partition create clicks day=20260301 --at ./data
    """
    values = named_values(spec, what="partition value")
    found = session.client.table(table)
    found.create_partition(values, exists_ok=if_not_exists)
    document: Document = {"table": str(found.path), "partition": values, "status": "created"}
    session.done(f"Created partition {_shown(values)} of {found.path}.", document)


@partition_app.command("drop")
@command()
def drop_partition(
    session: CommandSession,
    table: TableName,
    spec: Spec,
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drop a partition and its rows.

    Example: headwater partition drop clicks day=20260301 --yes --at ./data
    """
    values = named_values(spec, what="partition value")
    found = session.client.table(table)
    confirm(f"Drop partition {_shown(values)} of {found.path} and its rows?", yes=yes)
    found.drop_partition(values, missing_ok=if_exists)
    document: Document = {"table": str(found.path), "partition": values, "status": "dropped"}
    session.done(f"Dropped partition {_shown(values)} of {found.path}.", document)


def _shown(values: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
