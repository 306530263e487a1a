"""What to say where there is no such table: the names that are near the one that was given."""

from difflib import get_close_matches
from typing import Protocol

from headwater.errors import DatabaseMissingError, HeadwaterError, TableMissingError
from headwater.model.path import TablePath

Missing = DatabaseMissingError | TableMissingError

_NEAR_MAX = 3
_NEAR_ENOUGH = 0.5
_SHOWN_MAX = 5


class Lists(Protocol):
    """List what a storage has."""

    async def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        ...

    async def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database."""
        ...


async def advised(fault: Missing, path: TablePath, lists: Lists) -> Missing:
    """Return what a server says of a table that is missing, with names that are there."""
    try:
        hint = await _hint(path, lists)
    except HeadwaterError:
        return fault  # Advice is worth no other error than the one at hand.
    return type(fault)(fault.message, hint=hint)


async def _hint(path: TablePath, lists: Lists) -> str:
    try:
        tables = await lists.list_tables(path.database)
    except DatabaseMissingError:
        databases = await lists.list_databases()
        near = near_names(path.database, databases, what="databases")
        return f"There is no database '{path.database}'. {near}".rstrip()
    return near_names(path.table, tables, what="tables")


def near_names(wanted: str, there: list[str], *, what: str) -> str:
    """Say which names are like the one that was given, or else some of those that there are."""
    near = get_close_matches(wanted, there, n=_NEAR_MAX, cutoff=_NEAR_ENOUGH)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    some = ", ".join(sorted(there)[:_SHOWN_MAX])
    return f"The {what} are {some}{', …' if len(there) > _SHOWN_MAX else '.'}" if some else ""
