"""How people name tables and servers: `database.table`, `host:port`."""

from collections.abc import Sequence

from headwater.client.pool import Address
from headwater.errors import InvalidTableError, RequestError
from headwater.model.path import TablePath, check_table_path
from headwater.wire import fluss_pb2 as pb

DEFAULT_DATABASE = "fluss"
DEFAULT_PORT = 9123
PORT_MAX = 65535
_PARTS = 2


def table_path(name: str | TablePath) -> TablePath:
    """Return the path that a name stands for, or say what is wrong with it."""
    if isinstance(name, TablePath):
        return check_table_path(name)
    parts = name.split(".")
    if len(parts) > _PARTS:
        raise InvalidTableError(
            f"{name!r} names no table.", hint="Write database.table, with one dot."
        )
    database, table = parts if len(parts) == _PARTS else (DEFAULT_DATABASE, name)
    return check_table_path(TablePath(database, table))


def wire_path(path: TablePath) -> pb.TablePath:
    """Return a path as requests carry it."""
    return pb.TablePath(database_name=path.database, table_name=path.table)


def parse_addresses(given: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the servers that are named, as `host:port` or several of them."""
    texts = given.split(",") if isinstance(given, str) else list(given)
    addresses = tuple(_address(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise RequestError("No server is named.", hint="Give one as host:port.")
    return addresses


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon:
        return Address(text, DEFAULT_PORT)
    if not host or not port.isdigit() or int(port) > PORT_MAX:
        raise RequestError(f"{text!r} is no server.", hint="Give one as host:port.")
    return Address(host.strip("[]"), int(port))
