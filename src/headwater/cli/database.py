"""`headwater database`: list, create and drop databases."""

from typing import Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import All, shown_databases
from headwater.cli.pairs import named_values
from headwater.cli.session import Session, confirm

app = typer.Typer(help="List, create and drop databases.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="DATABASE", help="Name of the database.")]


@app.command("list")
@command()
def list_databases(session: Session, *, shows_all: All = False) -> None:
    """List the databases.

    Example: headwater database list --at ./data
    """
    names = shown_databases(session.client, shows_all=shows_all)
    session.documents([{"database": name} for name in names], columns={"database": pa.string()})


@app.command("create")
@command(creates=True)
def create_database(
    session: Session,
    name: Name,
    *,
    comment: Annotated[str | None, typer.Option(help="What the database is for.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it is there already.")
    ] = False,
) -> None:
    """Create a database.

    Example: headwater database create shop --at ./data
    """
    properties = named_values(option or (), what="option")
    session.client.create_database(
        name, exists_ok=if_not_exists, comment=comment, properties=properties
    )
    session.done(f"Database {name} is there.", {"database": name, "status": "created"})


@app.command("drop")
@command()
def drop_database(
    session: Session,
    name: Name,
    *,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables as well.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it is not there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop a database.

    Example: headwater database drop shop --cascade --yes --at ./data
    """
    confirm(f"Drop database {name}{' with all its tables' if cascade else ''}?", yes=yes)
    session.client.drop_database(name, missing_ok=if_exists, cascade=cascade)
    session.done(f"Database {name} is gone.", {"database": name, "status": "dropped"})
