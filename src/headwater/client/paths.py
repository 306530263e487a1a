"""How people name tables: `database.table`, or a table of the default database."""

from headwater.errors import InvalidTableError
from headwater.model.path import TablePath, check_table_path
from headwater.wire import fluss_pb2 as pb

DEFAULT_DATABASE = "fluss"
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
