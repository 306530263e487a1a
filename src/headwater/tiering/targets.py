"""The lake table of a table, with all the columns that it has."""

from headwater.model.table import TableInfo
from headwater.tiering.lakes import Lakes, lake_spec
from headwater.tiering.system_columns import NAMES, with_system_columns
from headwater.tiering.turn import Target


def found_target(lakes: Lakes, table: TableInfo) -> Target:
    """Open the lake of a table, and describe its lake table, there or not; this may block."""
    lake, spec = lakes.of(table), lake_spec(table)
    names = set(lake.catalog().column_names(table.path)) - set(table.schema.names)
    return Target(table, lake, with_system_columns(spec) if names >= set(NAMES) else spec)


def ensured_target(lakes: Lakes, table: TableInfo) -> Target:
    """Make the lake table of a table, or bring its columns up to date; this may block."""
    target = found_target(lakes, table)
    target.lake.catalog().ensure(target.spec)
    return target
