"""Names of tables and servers as users write them, and suggestions for misspelt ones."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Protocol

from headwater import errors
from headwater.cluster.links import Address
from headwater.model import TablePath
from headwater.model.path import check_table_path
from headwater.wire import fluss_pb2 as pb

DEFAULT_DATABASE = "fluss"
DEFAULT_PORT = 9123
PORT_MAX = 65535
_PARTS = 2


def table_path(name: str | TablePath) -> TablePath:
    """Parse a table name."""
    if isinstance(name, TablePath):
        return check_table_path(name)
    parts = name.split(".")
    if len(parts) > _PARTS:
        raise errors.InvalidTableError(
            f"{name!r} is not a table name.", hint="Write database.table, with one dot."
        )
    database, table = parts if len(parts) == _PARTS else (DEFAULT_DATABASE, name)
    return check_table_path(TablePath(database, table))


def wire_path(path: TablePath) -> pb.TablePath:
    """Convert a path to its protobuf message."""
    return pb.TablePath(database_name=path.database, table_name=path.table)


def parse_addresses(given: str | Sequence[str]) -> tuple[Address, ...]:
    """Parse servers, given as `host:port` or several of these."""
    texts = given.split(",") if isinstance(given, str) else list(given)
    addresses = tuple(_address(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise errors.RequestError("No server is given.", hint="Give one as host:port.")
    return addresses


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon:
        return Address(text, DEFAULT_PORT)
    if not host or not port.isdigit() or int(port) > PORT_MAX:
        raise errors.RequestError(
            f"{text!r} is not a server address.", hint="Give one as host:port."
        )
    return Address(host.strip("[]"), int(port))


Missing = errors.DatabaseMissingError | errors.TableMissingError

_NEAR_MAX = 3
_NEAR_ENOUGH = 0.5
_SHOWN_MAX = 5


class Lists(Protocol):
    """List databases and tables."""

    async def list_databases(self) -> list[str]:
        """List all databases."""
        ...

    async def list_tables(self, database: str) -> list[str]:
        """List the tables of a database."""
        ...


async def advised(fault: Missing, path: TablePath, lists: Lists) -> Missing:
    """Add a suggestion of existing names to a server's error about a missing table."""
    try:
        hint = await _hint(path, lists)
    except errors.HeadwaterError:
        return fault  # Listing failed; the original error matters more.
    return type(fault)(fault.message, hint=hint)


async def _hint(path: TablePath, lists: Lists) -> str:
    try:
        tables = await lists.list_tables(path.database)
    except errors.DatabaseMissingError:
        databases = await lists.list_databases()
        near = near_names(path.database, databases, what="databases")
        return f"There is no database '{path.database}'. {near}".rstrip()
    return near_names(path.table, tables, what="tables")


def near_names(wanted: str, there: list[str], *, what: str) -> str:
    """Suggest names similar to the one given, or else list some that exist."""
    near = get_close_matches(wanted, there, n=_NEAR_MAX, cutoff=_NEAR_ENOUGH)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    some = ", ".join(sorted(there)[:_SHOWN_MAX])
    return f"The {what} are {some}{', …' if len(there) > _SHOWN_MAX else '.'}" if some else ""
