"""Tables: create, drop, list, describe, alter."""

import json
from dataclasses import replace

from headwater.errors import InvalidAlterError, InvalidTableError, UnsupportedError
from headwater.model.aggregate import AggregateFunction
from headwater.model.aggregate_json import aggregate_of
from headwater.model.descriptor import descriptor_from_json, descriptor_to_json
from headwater.model.schema import schema_to_json
from headwater.model.table import TableInfo
from headwater.model.type_json import Json, document_of, type_from_json
from headwater.runtime.turns import in_turns
from headwater.server.catalog.changes import (
    AddColumn,
    ColumnPosition,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    ResetOption,
    SetOption,
    TableChange,
)
from headwater.server.context import Context
from headwater.server.handlers.databases import DELETE, SET
from headwater.server.handlers.paths import table_path
from headwater.wire import fluss_pb2 as pb
from headwater.wire.limits import check_json


async def create_table(request: pb.CreateTableRequest, context: Context) -> pb.CreateTableResponse:
    """Create a table."""
    path = table_path(request.table_path)
    descriptor = descriptor_from_json(_json(request.table_json))
    context.catalog.tables.create(path, descriptor, ignore_if_exists=request.ignore_if_exists)
    context.services.partitions_due.set()
    return pb.CreateTableResponse()


async def drop_table(request: pb.DropTableRequest, context: Context) -> pb.DropTableResponse:
    """Drop a table and its data."""
    dropped = context.catalog.tables.drop(
        table_path(request.table_path), ignore_if_missing=request.ignore_if_not_exists
    )
    if dropped is not None:
        await context.tablets.drop_table(dropped.table_id)
    return pb.DropTableResponse()


async def list_tables(request: pb.ListTablesRequest, context: Context) -> pb.ListTablesResponse:
    """List the tables of a database."""
    return pb.ListTablesResponse(table_name=context.catalog.tables.list(request.database_name))


async def table_exists(request: pb.TableExistsRequest, context: Context) -> pb.TableExistsResponse:
    """Tell whether a table exists."""
    exists = context.catalog.tables.exists(table_path(request.table_path))
    return pb.TableExistsResponse(exists=exists)


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
    """Return one version of a table's schema, the current one unless another is named."""
    table = context.catalog.tables.info(table_path(request.table_path))
    schema_id = request.schema_id if request.HasField("schema_id") else table.schema_id
    schema = context.catalog.tables.schema(table.table_id, schema_id)
    return pb.GetTableSchemaResponse(
        schema_id=schema_id, schema_json=json.dumps(schema_to_json(schema)).encode()
    )


async def alter_table(request: pb.AlterTableRequest, context: Context) -> pb.AlterTableResponse:
    """Change options and columns of a table in one step."""
    path = table_path(request.table_path)
    if request.ignore_if_not_exists and not context.catalog.tables.exists(path):
        return pb.AlterTableResponse()
    context.catalog.tables.alter(path, await _changes(request))
    context.services.partitions_due.set()
    return pb.AlterTableResponse()


def table_json(table: TableInfo, context: Context) -> bytes:
    """Write a table's description as clients read it: with where its lake is, if it has one."""
    told = context.lake.told_properties(table)
    described = replace(table.descriptor, properties={**told, **table.descriptor.properties})
    return json.dumps(descriptor_to_json(described)).encode()


def _json(data: bytes) -> Json:
    check_json(data, what="table description")
    try:
        return document_of(data)
    except ValueError as fault:
        raise InvalidTableError(f"The table description is not JSON: {fault}.") from None


async def _changes(request: pb.AlterTableRequest) -> list[TableChange]:
    if request.HasField("modify_bucket_count"):
        raise InvalidAlterError("The number of buckets of a table cannot be changed.")
    changes: list[TableChange] = [_option(change) for change in request.config_changes]
    changes += [
        AddColumn(
            name=column.column_name,
            type=type_from_json(_json(column.data_type_json)),
            comment=column.comment if column.HasField("comment") else None,
            position=_position(column.column_position_type),
            aggregate=_aggregate(column),
        )
        async for column in in_turns(request.add_columns)
    ]
    changes += [DropColumn(column.column_name) for column in request.drop_columns]
    changes += [
        RenameColumn(column.old_column_name, column.new_column_name)
        for column in request.rename_columns
    ]
    changes += [_modification(column) async for column in in_turns(request.modify_columns)]
    return changes


def _aggregate(column: pb.AddColumn) -> AggregateFunction | None:
    if not column.agg_function_type:
        return None
    parameters = {pair.key: pair.value for pair in column.agg_function_params}
    return aggregate_of(column.agg_function_type, parameters)


def _option(change: pb.AlterConfig) -> TableChange:
    if change.op_type == SET:
        return SetOption(change.config_key, change.config_value)
    if change.op_type == DELETE:
        return ResetOption(change.config_key)
    raise UnsupportedError("Options of a table can be set and reset only.")


def _position(number: int) -> ColumnPosition:
    try:
        return ColumnPosition(number)
    except ValueError:
        raise InvalidAlterError(f"Unknown column position {number}.") from None


def _modification(column: pb.ModifyColumn) -> ModifyColumn:
    has_type = column.HasField("data_type_json")
    return ModifyColumn(
        name=column.column_name,
        type=type_from_json(_json(column.data_type_json)) if has_type else None,
        comment=column.comment if column.HasField("comment") else None,
    )
