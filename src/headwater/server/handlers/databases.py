"""Databases: create, drop, list, describe, alter."""

import json

from headwater.errors import InvalidTableError, UnsupportedError
from headwater.model.type_json import document_of, object_of
from headwater.server.catalog.entries import DatabaseInfo
from headwater.server.context import Context
from headwater.wire import fluss_pb2 as pb
from headwater.wire.limits import check_json

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
    """Drop a database, and with `cascade` the tables in it."""
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
    names = context.catalog.databases.list()
    if not request.include_summary:
        return pb.ListDatabasesResponse(database_name=names)
    return pb.ListDatabasesResponse(
        database_summary=[
            pb.DatabaseSummary(
                database_name=name,
                created_time=context.catalog.databases.info(name).created_ms,
                table_count=len(context.catalog.tables.list(name)),
            )
            for name in names
        ]
    )


async def database_exists(
    request: pb.DatabaseExistsRequest, context: Context
) -> pb.DatabaseExistsResponse:
    """Tell whether a database exists."""
    return pb.DatabaseExistsResponse(exists=context.catalog.databases.exists(request.database_name))


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
        raise UnsupportedError("Properties of a database can be set and reset only.")
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
