"""`headwater acl`: grant, revoke, list and test permissions."""

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer

from headwater.cli.command import CommandSession, command, listed, write
from headwater.cli.commands import BRANCHES
from headwater.cli.output import Document, Output
from headwater.cli.values import Condition, conditions
from headwater.client.sync.client import Client
from headwater.errors import AccessError, RequestError
from headwater.model.acl import ANYTHING, Acl, ResourceKind, parse_resource

acl_app = typer.Typer(
    help="Grant, revoke, list and test permissions of users and groups.", no_args_is_help=True
)

Who = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="User:NAME, Group:NAME, or * for everybody.")
]
What = Annotated[
    str,
    typer.Argument(
        metavar="OPERATIONS",
        help="ALL, READ, WRITE, CREATE, DROP, ALTER or DESCRIBE; several with commas.",
    ),
]
On = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE", help="cluster, a database, or DATABASE.TABLE; table:* is every table."
    ),
]
Host = Annotated[
    str | None, typer.Option(help="IP address that the client must have.", show_default="any")
]
ENTRY_TYPES = {
    "principal": pa.string(),
    "operation": pa.string(),
    "resource": pa.string(),
    "host": pa.string(),
    "rule": pa.string(),
}


def conditions_on(client: Client, resource: str, where: Sequence[str]) -> list[Condition]:
    """Read conditions on the rows of the table that a permission is for."""
    what = parse_resource(resource)
    if what.kind is not ResourceKind.TABLE or what.name == ANYTHING:
        raise RequestError(
            f"Rows can be named for one table, not for {what}.", hint="Name DATABASE.TABLE."
        )
    return conditions(where, client.table(what.name).schema)


@acl_app.command("grant")
@command()
def grant(
    session: CommandSession,
    principal: Who,
    operations: What,
    resource: On,
    *,
    host: Host = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="READ these columns of a table only, separated by commas."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="READ only such rows: \"region = 'EU'\"; all must hold."),
    ] = None,
) -> None:
    """Allow somebody to do something.

    Example: headwater acl grant User:ada READ,WRITE shop.orders --at localhost:9123

    Example: headwater acl grant User:ann READ shop.orders --columns id,price --where "price < 10"
    """
    granted = session.client.acls.grant(
        principal,
        listed([operations]),
        resource,
        host=host or "*",
        columns=listed(columns) if columns else None,
        where=conditions_on(session.client, resource, where) if where else None,
    )
    _tell(session, granted, "Granted")


@acl_app.command("revoke")
@command()
def revoke(
    session: CommandSession,
    principal: Annotated[
        str | None, typer.Argument(metavar="[PRINCIPAL]", help="User:NAME, Group:NAME, or *.")
    ] = None,
    operations: Annotated[
        str | None, typer.Argument(metavar="[OPERATIONS]", help="As they were granted.")
    ] = None,
    resource: Annotated[
        str | None, typer.Argument(metavar="[RESOURCE]", help="As it was granted.")
    ] = None,
    *,
    host: Host = None,
    on: Annotated[
        str | None, typer.Option("--resource", help="The same, without a principal.")
    ] = None,
) -> None:
    """Take back what was granted; what is left out matches everything.

    Example: headwater acl revoke User:ada WRITE shop.orders --at localhost:9123
    """
    if resource is not None and on is not None:
        raise RequestError("The resource is given twice.")
    wanted = listed([operations]) if operations else ()
    revoked = session.client.acls.revoke(principal, wanted, resource or on, host=host)
    _tell(session, revoked, "Revoked")


@acl_app.command("list")
@command()
def list_acls(
    session: CommandSession,
    *,
    principal: Annotated[str | None, typer.Option(help="Only of this principal.")] = None,
    operation: Annotated[str | None, typer.Option(help="Only this operation.")] = None,
    resource: Annotated[str | None, typer.Option(help="Only on this very resource.")] = None,
    host: Annotated[str | None, typer.Option(help="Only for this host.")] = None,
) -> None:
    """List permissions on what you may see.

    Example: headwater acl list --resource shop.orders --at localhost:9123
    """
    found = session.client.acls.list(principal, operation or (), resource, host=host)
    session.documents([_document(each) for each in found], columns=ENTRY_TYPES)


@acl_app.command("test")
@command()
def tried(
    session: CommandSession,
    principal: Annotated[str, typer.Argument(metavar="USER", help="User:NAME.")],
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="Such as READ.")],
    resource: On,
    *,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the user; may be repeated.")
    ] = None,
    host: Annotated[str, typer.Option(help="IP address of the client.")] = "",
) -> None:
    """Tell whether a user may do something, and by which entry; exits with 8 if not.

    Example: headwater acl test User:ada READ shop.orders --group analysts --at localhost:9123
    """
    found = session.client.acls.test(
        principal, operation, resource, groups=tuple(group or ()), host=host
    )
    if session.output is not Output.TABLE:
        by = None if found is None else _document(found)
        session.document({"allowed": found is not None, "by": by})
    elif found is not None:
        write(f"Yes: {found}.\n")
    else:
        write("No: no entry that you may see allows it. Super users may do everything.\n")
    if found is None:
        raise typer.Exit(BRANCHES[AccessError])


def _tell(session: CommandSession, acls: list[Acl], done: str) -> None:
    if session.output is not Output.TABLE:
        session.documents([_document(each) for each in acls], columns=ENTRY_TYPES)
        return
    for each in acls:
        write(f"{done}: {each}\n")
    if not acls:
        write("Nothing to revoke: no entry matches.\n")


def _document(acl: Acl) -> Document:
    return {
        "principal": str(acl.principal),
        "operation": acl.operation.name,
        "resource": str(acl.resource),
        "host": acl.host,
        "rule": "" if acl.rule is None else acl.rule.text,
    }
