"""Finding the table that a query names."""

from difflib import get_close_matches

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.errors import DatabaseMissingError, TableMissingError
from headwater.model.path import TablePath

_NEAR_MAX = 3
_NEAR_ENOUGH = 0.5
_SHOWN_MAX = 5


def found_table(client: Client, path: TablePath) -> Table:
    """Return a table, or say that it is missing, and which have names like it."""
    try:
        return client.table(path)
    except (DatabaseMissingError, TableMissingError) as fault:
        missing = fault
    try:
        there = client.list_tables(path.database)
    except DatabaseMissingError as fault:
        hint = _near(path.database, client.list_databases(), what="databases")
        raise DatabaseMissingError(fault.message, hint=hint) from None
    hint = _near(path.table, there, what="tables")
    raise TableMissingError(missing.message, hint=hint) from None


def _near(wanted: str, there: list[str], *, what: str) -> str:
    near = get_close_matches(wanted, there, n=_NEAR_MAX, cutoff=_NEAR_ENOUGH)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    some = ", ".join(sorted(there)[:_SHOWN_MAX])
    return f"The {what} are {some}{', …' if len(there) > _SHOWN_MAX else ''}." if some else ""
