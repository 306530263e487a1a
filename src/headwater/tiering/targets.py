"""The lake table of a table, with all the columns that it has."""

from dataclasses import replace

from headwater.config.options import DATALAKE_SYSTEM_COLUMNS
from headwater.config.table_options import LakeOptions
from headwater.errors import LakeTableDiffersError
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.table import SYSTEM_COLUMNS
from headwater.model.arrow import arrow_schema
from headwater.model.boundary import TableIdentity
from headwater.model.table import TableInfo
from headwater.tiering.plan import check_same_table
from headwater.tiering.system_columns import has_system_columns, with_system_columns
from headwater.tiering.turn import Target


def found_target(lakes: Lakes, table: TableInfo) -> Target:
    """Open the lake of a table, and describe its lake table, there or not; this may block."""
    lake, spec = lakes.of(table), lake_spec(table)
    held = lake.catalog().column_names(table.path)
    # One that is there keeps the columns that it was made with.
    is_filled = set(SYSTEM_COLUMNS) <= set(held) if held else _wants_system_columns(table)
    is_free = not set(SYSTEM_COLUMNS) & set(table.schema.names)
    return Target(table, lake, with_system_columns(spec) if is_filled and is_free else spec)


def _wants_system_columns(table: TableInfo) -> bool:
    """Tell whether a lake table is made with the columns that Flink needs.

    Files of Paimon cannot hold their times beside finer ones: there they come only if asked for,
    and the error says why that cannot be.
    """
    properties = table.descriptor.properties
    if DATALAKE_SYSTEM_COLUMNS.of(properties) is None:
        types = [str(field.type) for field in arrow_schema(table.schema)]
        if any("timestamp[ns" in each for each in types):
            return False
    return LakeOptions.of(properties).system_columns


def ensured_target(lakes: Lakes, table: TableInfo, *, identity: TableIdentity) -> Target:
    """Make the lake table of a table, or bring its columns up to date; this may block.

    That of another table, which had the same name, is refused before anything is changed.
    """
    return _ensured(found_target(lakes, table), identity=identity)


def ensured_fluss_target(lakes: Lakes, table: TableInfo, *, identity: TableIdentity) -> Target:
    """Do the same with the columns that the tiering service of Apache Fluss fills."""
    target = found_target(lakes, table)
    if has_system_columns(target.spec):
        return _ensured(target, identity=identity)
    if target.lake.catalog().exists(table.path):
        names = ", ".join(SYSTEM_COLUMNS)
        raise LakeTableDiffersError(
            f"The lake table {table.path} is there, without the columns {names}.",
            hint=f"To make it anew: headwater lake drop {table.path}",
        )
    filled = replace(target, spec=with_system_columns(target.spec))
    return _ensured(filled, identity=identity)


def _ensured(target: Target, *, identity: TableIdentity) -> Target:
    table, catalog = target.table, target.lake.catalog()
    if catalog.exists(table.path):
        head = target.lake.committer(target.spec).head()
        held = None if head is None else head.boundary
        check_same_table(held, identity, path=table.path)
    catalog.ensure(target.spec)
    return target
