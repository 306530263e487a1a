"""The lake table of a table, with all the columns that it has."""

from headwater.lake.lakes import Lakes, lake_spec
from headwater.model.boundary import TableIdentity
from headwater.model.table import TableInfo
from headwater.tiering.plan import check_same_table
from headwater.tiering.system_columns import NAMES, with_system_columns
from headwater.tiering.turn import Target


def found_target(lakes: Lakes, table: TableInfo) -> Target:
    """Open the lake of a table, and describe its lake table, there or not; this may block."""
    lake, spec = lakes.of(table), lake_spec(table)
    names = set(lake.catalog().column_names(table.path)) - set(table.schema.names)
    return Target(table, lake, with_system_columns(spec) if names >= set(NAMES) else spec)


def ensured_target(lakes: Lakes, table: TableInfo, *, identity: TableIdentity) -> Target:
    """Make the lake table of a table, or bring its columns up to date; this may block.

    That of another table, which had the same name, is refused before anything is changed.
    """
    target = found_target(lakes, table)
    catalog = target.lake.catalog()
    if catalog.exists(table.path):
        head = target.lake.committer(target.spec).head()
        held = None if head is None else head.boundary
        check_same_table(held, identity, path=table.path)
    catalog.ensure(target.spec)
    return target
