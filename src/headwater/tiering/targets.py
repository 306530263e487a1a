"""The lake table of a table, made or brought up to date, with all the columns it has."""

from headwater.model.table import TableInfo
from headwater.tiering.lakes import Lakes, lake_spec
from headwater.tiering.system_columns import NAMES, with_system_columns
from headwater.tiering.turn import Target


def ensured_target(lakes: Lakes, table: TableInfo) -> Target:
    """Open the lake of a table, and see to it that its lake table is there; this may block."""
    lake, spec = lakes.of(table), lake_spec(table)
    catalog = lake.catalog()
    if set(NAMES) <= set(catalog.column_names(table.path)) - set(table.schema.names):
        spec = with_system_columns(spec)
    catalog.ensure(spec)
    return Target(table, lake, spec)
