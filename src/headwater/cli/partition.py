"""`headwater partition`: list, create and drop the partitions of a table."""

from typing import Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName
from headwater.cli.output import Document
from headwater.cli.pairs import named_values
from headwater.cli.session import Session, confirm
from headwater.errors import NotPartitionedError

app = typer.Typer(help="List, create and drop the partitions of a table.", no_args_is_help=True)

Spec = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE", help="The value of every partition column."),
]


@app.command("list")
@command()
def list_partitions(session: Session, table: TableName) -> None:
    """List the partitions of a table.

    Example: headwater partition list clicks --at ./data
    """
    found = session.client.table(table)
    keys = found.info.descriptor.partition_keys
    if not keys:
        raise NotPartitionedError(f"{found.path} is not partitioned.")
    session.documents(found.partitions(), columns=dict.fromkeys(keys, pa.string()))


@app.command("create")
@command()
def create_partition(
    session: Session,
    table: TableName,
    spec: Spec,
    *,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if it is there already.")
    ] = False,
) -> None:
    """Create a partition; writing rows creates those that are missing by itself.

    Example: headwater partition create clicks day=20260301 --at ./data
    """
    values = named_values(spec, what="partition value")
    found = session.client.table(table)
    found.create_partition(values, exists_ok=if_not_exists)
    document: Document = {"table": str(found.path), "partition": values, "status": "created"}
    session.done(f"Partition {_shown(values)} of {found.path} is there.", document)


@app.command("drop")
@command()
def drop_partition(
    session: Session,
    table: TableName,
    spec: Spec,
    *,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing if it is not there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop a partition and its rows.

    Example: headwater partition drop clicks day=20260301 --yes --at ./data
    """
    values = named_values(spec, what="partition value")
    found = session.client.table(table)
    confirm(f"Drop partition {_shown(values)} of {found.path} and its rows?", yes=yes)
    found.drop_partition(values, missing_ok=if_exists)
    document: Document = {"table": str(found.path), "partition": values, "status": "dropped"}
    session.done(f"Partition {_shown(values)} of {found.path} is gone.", document)


def _shown(values: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
