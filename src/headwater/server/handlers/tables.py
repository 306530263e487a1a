"""Databases, tables and partitions: create, drop, list, describe, alter."""

import json
from collections.abc import Mapping
from dataclasses import replace

from headwater.config.auto_partition import format_to_take
from headwater.config.options import (
    DATALAKE_ENABLED,
    DATALAKE_FORMAT,
    DATALAKE_FRESHNESS,
    LakeFormat,
)
from headwater.config.table_options import TableOptions
from headwater.errors import AccessError, InvalidAlterError, InvalidTableError, UnsupportedError
from headwater.model.acl import Operation, Resource
from headwater.model.aggregate import AggregateFunction, aggregate_of
from headwater.model.path import TablePath, complete_spec
from headwater.model.schema import schema_to_json
from headwater.model.table import TableInfo, descriptor_from_json, descriptor_to_json
from headwater.model.type_json import Json, document_of, object_of, type_from_json
from headwater.runtime.events import Events
from headwater.runtime.tasks import in_turns
from headwater.server.catalog import alter
from headwater.server.catalog.file import DEFAULT_DATABASE
from headwater.server.catalog.store import DatabaseInfo
from headwater.server.context import Context, spec_of, table_path
from headwater.server.permissions.needs import AUDIT_LOG
from headwater.server.quotas import ANONYMOUS
from headwater.wire import fluss_pb2 as pb
from headwater.wire.limits import check_json

_events = Events("tables")

# Databases.

SET, DELETE = 0, 1


async def create_database(
    request: pb.CreateDatabaseRequest, context: Context
) -> pb.CreateDatabaseResponse:
    """Create a database."""
    comment, properties = _description(request.database_json)
    context.catalog.databases.create(
        request.database_name,
        comment=comment,
        custom_properties=properties,
        ignore_if_exists=request.ignore_if_exists,
    )
    return pb.CreateDatabaseResponse()


async def drop_database(
    request: pb.DropDatabaseRequest, context: Context
) -> pb.DropDatabaseResponse:
    """Drop a database; with `cascade` its tables too."""
    if request.database_name == AUDIT_LOG.database and context.catalog.tables.exists(AUDIT_LOG):
        _keep_trail(AUDIT_LOG, context)
    dropped = context.catalog.databases.drop(
        request.database_name,
        cascade=request.cascade,
        ignore_if_missing=request.ignore_if_not_exists,
    )
    for table in dropped:
        await context.tablets.drop_table(table.table_id)
    return pb.DropDatabaseResponse()


async def list_databases(
    request: pb.ListDatabasesRequest, context: Context
) -> pb.ListDatabasesResponse:
    """List the databases, by name or with a summary of each."""
    names = [name for name in context.catalog.databases.list() if context.may_see(name)]
    if not request.include_summary:
        return pb.ListDatabasesResponse(database_name=names)
    return pb.ListDatabasesResponse(
        database_summary=[
            pb.DatabaseSummary(
                database_name=name,
                created_time=context.catalog.databases.info(name).created_ms,
                table_count=len(_visible_tables(name, context)),
            )
            for name in names
        ]
    )


async def database_exists(
    request: pb.DatabaseExistsRequest, context: Context
) -> pb.DatabaseExistsResponse:
    """Tell whether a database exists that the client may know of."""
    name = request.database_name
    is_seen = name == DEFAULT_DATABASE or context.may_see(name)
    return pb.DatabaseExistsResponse(exists=is_seen and context.catalog.databases.exists(name))


async def get_database_info(
    request: pb.GetDatabaseInfoRequest, context: Context
) -> pb.GetDatabaseInfoResponse:
    """Describe a database."""
    database = context.catalog.databases.info(request.database_name)
    return pb.GetDatabaseInfoResponse(
        database_json=_database_json(database),
        created_time=database.created_ms,
        modified_time=database.modified_ms,
    )


async def alter_database(
    request: pb.AlterDatabaseRequest, context: Context
) -> pb.AlterDatabaseResponse:
    """Change the comment and the properties of a database."""
    exists = context.catalog.databases.exists(request.database_name)
    if request.ignore_if_not_exists and not exists:
        return pb.AlterDatabaseResponse()
    changes = request.config_changes
    if any(change.op_type not in (SET, DELETE) for change in changes):
        raise UnsupportedError("Properties of a database can only be set and reset.")
    context.catalog.databases.alter(
        request.database_name,
        set_properties={c.config_key: c.config_value for c in changes if c.op_type == SET},
        reset_properties=[c.config_key for c in changes if c.op_type == DELETE],
        comment=request.comment if request.HasField("comment") else None,
    )
    return pb.AlterDatabaseResponse()


def _description(database_json: bytes) -> tuple[str | None, dict[str, str]]:
    if not database_json:
        return None, {}
    check_json(database_json, what="description of the database")
    try:
        node = object_of(document_of(database_json), what="database")
    except ValueError as fault:
        raise InvalidTableError(f"The description of the database is not JSON: {fault}.") from None
    comment, properties = node.get("comment"), node.get("custom_properties") or {}
    texts = {key: str(value) for key, value in object_of(properties, what="properties").items()}
    return comment if isinstance(comment, str) else None, texts


def _database_json(database: DatabaseInfo) -> bytes:
    node: dict[str, object] = {"version": 1, "custom_properties": dict(database.custom_properties)}
    if database.comment is not None:
        node["comment"] = database.comment
    return json.dumps(node).encode()


# Tables.


async def create_table(request: pb.CreateTableRequest, context: Context) -> pb.CreateTableResponse:
    """Create a table."""
    path = table_path(request.table_path)
    if path == AUDIT_LOG:  # Whoever made it could give it other columns, and have no trail.
        raise AccessError(f"Only the server makes {AUDIT_LOG}.", hint="Choose another name.")
    descriptor = descriptor_from_json(_json(request.table_json))
    creator = context.session.principal or ANONYMOUS
    context.catalog.tables.create(
        path, descriptor, creator=creator, ignore_if_exists=request.ignore_if_exists
    )
    context.services.partitions_due.set()
    return pb.CreateTableResponse()


async def drop_table(request: pb.DropTableRequest, context: Context) -> pb.DropTableResponse:
    """Drop a table and its data."""
    path = table_path(request.table_path)
    _keep_trail(path, context)
    dropped = context.catalog.tables.drop(path, ignore_if_missing=request.ignore_if_not_exists)
    if dropped is not None:
        await context.tablets.drop_table(dropped.table_id)
    return pb.DropTableResponse()


async def list_tables(request: pb.ListTablesRequest, context: Context) -> pb.ListTablesResponse:
    """List the tables of a database that the client may know of."""
    return pb.ListTablesResponse(table_name=_visible_tables(request.database_name, context))


def _visible_tables(database: str, context: Context) -> list[str]:
    return [
        name
        for name in context.catalog.tables.list(database)
        if context.may(Operation.DESCRIBE, Resource.table(TablePath(database, name)))
    ]


async def table_exists(request: pb.TableExistsRequest, context: Context) -> pb.TableExistsResponse:
    """Tell whether a table exists that the client may know of."""
    path = table_path(request.table_path)
    is_seen = context.may(Operation.DESCRIBE, Resource.table(path))
    return pb.TableExistsResponse(exists=is_seen and context.catalog.tables.exists(path))


async def get_table_info(
    request: pb.GetTableInfoRequest, context: Context
) -> pb.GetTableInfoResponse:
    """Describe a table under its current schema."""
    table = context.catalog.tables.info(table_path(request.table_path))
    context.session.told(table.table_id, table.schema_id)
    return pb.GetTableInfoResponse(
        table_id=table.table_id,
        schema_id=table.schema_id,
        table_json=table_json(table, context),
        created_time=table.created_ms,
        modified_time=table.modified_ms,
    )


async def get_table_schema(
    request: pb.GetTableSchemaRequest, context: Context
) -> pb.GetTableSchemaResponse:
    """Return a schema version of a table, by default the current one."""
    table = context.catalog.tables.info(table_path(request.table_path))
    schema_id = request.schema_id if request.HasField("schema_id") else table.schema_id
    schema = context.catalog.tables.schema(table.table_id, schema_id)
    return pb.GetTableSchemaResponse(
        schema_id=schema_id, schema_json=json.dumps(schema_to_json(schema)).encode()
    )


async def alter_table(request: pb.AlterTableRequest, context: Context) -> pb.AlterTableResponse:
    """Change options and columns of a table in one step."""
    path = table_path(request.table_path)
    _keep_trail(path, context)
    if request.ignore_if_not_exists and not context.catalog.tables.exists(path):
        return pb.AlterTableResponse()
    altered = context.catalog.tables.alter(path, await _changes(request))
    context.tablets.apply_options(altered.table_id)
    context.services.partitions_due.set()
    return pb.AlterTableResponse()


def _keep_trail(path: TablePath, context: Context) -> None:
    """Let only super users, and who opens the directory itself, change or drop the audit trail."""
    # Where there are super users, the authorizer has asked for one before.
    is_checked = context.services.authorizer is not None or context.session.is_internal
    if path == AUDIT_LOG and not is_checked:
        raise AccessError(
            f"{AUDIT_LOG} cannot be changed or dropped through this server.",
            hint="Start it with --authorizer and --super-users, or open the directory itself.",
        )


_OF_LAKE = ("table.datalake.", *(f"{each}." for each in LakeFormat))
# Writers find buckets by the format, and readers say whether there is a lake.
_NO_PLACES = frozenset({DATALAKE_FORMAT.name, DATALAKE_ENABLED.name, DATALAKE_FRESHNESS.name})


def table_json(table: TableInfo, context: Context) -> bytes:
    """Describe a table as JSON for clients, including the location of its lake if it has one."""
    described = table.descriptor
    properties = {**context.lake.told_properties(table), **described.properties}
    if context.is_restricted(table.table_id):
        # Who may not read all rows is not told where the files with all of them are.
        properties = _without_places(properties)
        custom = _without_places(described.custom_properties)
        described = replace(described, custom_properties=custom)
    described = replace(described, properties=properties)
    return json.dumps(descriptor_to_json(described)).encode()


def _without_places(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in properties.items()
        if name in _NO_PLACES or not name.startswith(_OF_LAKE)
    }


def _json(data: bytes) -> Json:
    check_json(data, what="table descriptor")
    try:
        return document_of(data)
    except ValueError as fault:
        raise InvalidTableError(f"The table descriptor is not JSON: {fault}.") from None


async def _changes(request: pb.AlterTableRequest) -> list[alter.TableChange]:
    if request.HasField("modify_bucket_count"):
        raise InvalidAlterError("The number of buckets of a table cannot be changed.")
    changes: list[alter.TableChange] = [_option(change) for change in request.config_changes]
    changes += [
        alter.AddColumn(
            name=column.column_name,
            type=type_from_json(_json(column.data_type_json)),
            comment=column.comment if column.HasField("comment") else None,
            position=_position(column.column_position_type),
            aggregate=_aggregate(column),
        )
        async for column in in_turns(request.add_columns)
    ]
    changes += [alter.DropColumn(column.column_name) for column in request.drop_columns]
    changes += [
        alter.RenameColumn(column.old_column_name, column.new_column_name)
        for column in request.rename_columns
    ]
    changes += [_modification(column) async for column in in_turns(request.modify_columns)]
    return changes


def _aggregate(column: pb.AddColumn) -> AggregateFunction | None:
    if not column.agg_function_type:
        return None
    parameters = {pair.key: pair.value for pair in column.agg_function_params}
    return aggregate_of(column.agg_function_type, parameters)


def _option(change: pb.AlterConfig) -> alter.TableChange:
    if change.op_type == SET:
        return alter.SetTableOption(change.config_key, change.config_value)
    if change.op_type == DELETE:
        return alter.ResetTableOption(change.config_key)
    raise UnsupportedError("Options of a table can only be set and reset.")


def _position(number: int) -> alter.ColumnPosition:
    try:
        return alter.ColumnPosition(number)
    except ValueError:
        raise InvalidAlterError(f"Unknown column position {number}.") from None


def _modification(column: pb.ModifyColumn) -> alter.ModifyColumn:
    has_type = column.HasField("data_type_json")
    return alter.ModifyColumn(
        name=column.column_name,
        type=type_from_json(_json(column.data_type_json)) if has_type else None,
        comment=column.comment if column.HasField("comment") else None,
    )


# Partitions.


async def create_partition(
    request: pb.CreatePartitionRequest, context: Context
) -> pb.CreatePartitionResponse:
    """Create a partition; writers also do so on demand."""
    path, spec = table_path(request.table_path), spec_of(request.partition_spec)
    _take_time_format(path, spec, context)
    await context.catalog.partitions.create_soon(
        path, spec, ignore_if_exists=request.ignore_if_exists
    )
    return pb.CreatePartitionResponse()


def _take_time_format(path: TablePath, spec: Mapping[str, str], context: Context) -> None:
    """Let automatic partitions have the time format of the first values, such as 2026-11-18.

    Until a partition has rows, those that were created in advance can still be named otherwise.
    """
    table, partitions = context.catalog.tables.info(path), context.catalog.partitions
    rules = TableOptions.of(table.descriptor.properties).auto_partition
    keys = table.descriptor.partition_keys
    if not rules.enabled or set(spec) != set(keys):
        return
    taken = format_to_take(rules, complete_spec(spec, keys))
    held = partitions.list(path)
    if taken is None or any(context.tablets.has_rows(each.partition_id) for each in held):
        return
    context.catalog.tables.set_time_format(path, taken.pattern)
    for each in held:
        if not context.tablets.is_touched(each.partition_id):
            partitions.drop(path, dict(each.spec))
    context.services.partitions_due.set()
    _events.info("time format taken from a value", table=str(path), format=taken.pattern)


async def drop_partition(
    request: pb.DropPartitionRequest, context: Context
) -> pb.DropPartitionResponse:
    """Drop a partition and its data."""
    dropped = context.catalog.partitions.drop(
        table_path(request.table_path),
        spec_of(request.partition_spec),
        ignore_if_missing=request.ignore_if_not_exists,
    )
    if dropped is not None:
        await context.tablets.drop_partition(dropped.table_id, dropped.partition_id)
    return pb.DropPartitionResponse()


async def list_partition_infos(
    request: pb.ListPartitionInfosRequest, context: Context
) -> pb.ListPartitionInfosResponse:
    """List the partitions of a table that match a partial spec."""
    partial = spec_of(request.partial_partition_spec)
    found = context.catalog.partitions.list(table_path(request.table_path), partial)
    return pb.ListPartitionInfosResponse(
        partitions_info=[
            pb.PartitionInfo(
                partition_id=partition.partition_id,
                partition_spec=pb.PartitionSpec(
                    partition_key_values=[
                        pb.KeyValue(key=key, value=value) for key, value in partition.spec
                    ]
                ),
            )
            for partition in found
        ]
    )
