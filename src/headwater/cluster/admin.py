"""Databases, tables and partitions: create, list, alter, drop.

Internal tables of the client are created here on first use.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater import errors
from headwater.cluster.cluster import Cluster, read_descriptor
from headwater.cluster.paths import wire_path
from headwater.config.client import ACKS_ALL, ACKS_SAFE
from headwater.config.options import DATALAKE_FORMAT, LakeFormat
from headwater.model import DataType, TableDescriptor, TableInfo, TablePath
from headwater.model.path import PartitionSpec, complete_spec, name_of_spec
from headwater.model.table import descriptor_to_json
from headwater.model.type_json import type_to_json
from headwater.wire import fluss_pb2 as pb

SET, RESET = 0, 1
LAST = 0
# The coordinator knows a new table before every server does.
VISIBLE_WITHIN_S = 60.0


class Admin:
    """Send changes to the coordinator, and list requests to any server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # ---- databases

    async def create_database(
        self,
        name: str,
        *,
        exists_ok: bool,
        comment: str | None,
        properties: Mapping[str, str],
    ) -> None:
        """Create a database."""
        described = {"version": 1, "comment": comment, "custom_properties": dict(properties)}
        request = pb.CreateDatabaseRequest(
            database_name=name,
            ignore_if_exists=exists_ok,
            database_json=json.dumps(
                {key: value for key, value in described.items() if value is not None}
            ).encode(),
        )
        await self._cluster.ask(request, pb.CreateDatabaseResponse, coordinator=True)

    async def drop_database(self, name: str, *, missing_ok: bool, cascade: bool) -> None:
        """Drop a database; with `cascade` its tables too."""
        request = pb.DropDatabaseRequest(
            database_name=name, ignore_if_not_exists=missing_ok, cascade=cascade
        )
        await self._cluster.ask(request, pb.DropDatabaseResponse, coordinator=True)

    async def list_databases(self) -> list[str]:
        """List all databases."""
        answer = await self._cluster.ask(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
        return sorted(answer.database_name)

    # ---- tables

    async def create_table(
        self, path: TablePath, descriptor: TableDescriptor, *, exists_ok: bool
    ) -> TableInfo:
        """Create a table and wait until it can be used."""
        request = pb.CreateTableRequest(
            table_path=wire_path(path),
            table_json=json.dumps(descriptor_to_json(descriptor)).encode(),
            ignore_if_exists=exists_ok,
        )
        await self._cluster.ask(request, pb.CreateTableResponse, coordinator=True)
        return await self._cluster.retries.run(
            lambda: self._visible(path),
            what=f"Waiting for the new table {path}",
            timeout_s=min(VISIBLE_WITHIN_S, self._cluster.settings.deadline_s),
        )

    async def _visible(self, path: TablePath) -> TableInfo:
        try:
            return await self._cluster.table(path)
        except errors.TableMissingError as fault:
            raise errors.LeaderMissingError(f"Not every server knows {path} yet.") from fault

    async def drop_table(self, path: TablePath, *, missing_ok: bool) -> None:
        """Drop a table and its rows."""
        request = pb.DropTableRequest(table_path=wire_path(path), ignore_if_not_exists=missing_ok)
        await self._cluster.ask(request, pb.DropTableResponse, coordinator=True)

    async def list_tables(self, database: str) -> list[str]:
        """List the tables of a database."""
        request = pb.ListTablesRequest(database_name=database)
        answer = await self._cluster.ask(request, pb.ListTablesResponse)
        return sorted(answer.table_name)

    async def table_exists(self, path: TablePath) -> bool:
        """Tell whether the table exists."""
        request = pb.TableExistsRequest(table_path=wire_path(path))
        return (await self._cluster.ask(request, pb.TableExistsResponse)).exists

    # ---- changes

    async def add_column(
        self, path: TablePath, name: str, *, data_type: DataType, comment: str | None
    ) -> None:
        """Add a nullable column at the end."""
        column = pb.AddColumn(
            column_name=name,
            data_type_json=json.dumps(type_to_json(data_type)).encode(),
            column_position_type=LAST,
        )
        if comment is not None:
            column.comment = comment
        await self._alter(path, pb.AlterTableRequest(add_columns=[column]))

    async def drop_column(self, path: TablePath, name: str) -> None:
        """Drop a column."""
        drop = pb.DropColumn(column_name=name)
        await self._alter(path, pb.AlterTableRequest(drop_columns=[drop]))

    async def rename_column(self, path: TablePath, old: str, *, new: str) -> None:
        """Rename a column."""
        rename = pb.RenameColumn(old_column_name=old, new_column_name=new)
        await self._alter(path, pb.AlterTableRequest(rename_columns=[rename]))

    async def set_options(self, path: TablePath, options: Mapping[str, str]) -> None:
        """Change options of a table."""
        changes = [
            pb.AlterConfig(config_key=key, config_value=value, op_type=SET)
            for key, value in options.items()
        ]
        await self._alter(path, pb.AlterTableRequest(config_changes=changes))

    async def reset_options(self, path: TablePath, keys: Sequence[str]) -> None:
        """Reset options of a table to their defaults."""
        changes = [pb.AlterConfig(config_key=key, op_type=RESET) for key in keys]
        await self._alter(path, pb.AlterTableRequest(config_changes=changes))

    async def _alter(self, path: TablePath, request: pb.AlterTableRequest) -> None:
        request.table_path.CopyFrom(wire_path(path))
        request.ignore_if_not_exists = False
        await self._cluster.ask(request, pb.AlterTableResponse, coordinator=True)

    # ---- partitions

    async def create_partition(
        self, table: TableInfo, spec: Mapping[str, str], *, exists_ok: bool
    ) -> None:
        """Create a partition."""
        request = pb.CreatePartitionRequest(
            table_path=wire_path(table.path),
            partition_spec=_wire_spec(complete_spec(spec, table.descriptor.partition_keys)),
            ignore_if_exists=exists_ok,
        )
        await self._cluster.ask(request, pb.CreatePartitionResponse, coordinator=True)

    async def drop_partition(
        self, table: TableInfo, spec: Mapping[str, str], *, missing_ok: bool
    ) -> None:
        """Drop a partition and its rows."""
        complete = complete_spec(spec, table.descriptor.partition_keys)
        request = pb.DropPartitionRequest(
            table_path=wire_path(table.path),
            partition_spec=_wire_spec(complete),
            ignore_if_not_exists=missing_ok,
        )
        await self._cluster.ask(request, pb.DropPartitionResponse, coordinator=True)
        self._cluster.forget_partition(table, name_of_spec(complete))


def _wire_spec(spec: PartitionSpec) -> pb.PartitionSpec:
    return pb.PartitionSpec(
        partition_key_values=[pb.KeyValue(key=key, value=value) for key, value in spec]
    )


async def newest_table(cluster: Cluster, table: TableInfo) -> TableInfo:
    """Fetch a table's latest schema from the coordinator; other servers may not know it yet."""
    request = pb.GetTableInfoRequest(table_path=wire_path(table.path))
    answer = await cluster.ask(request, pb.GetTableInfoResponse, coordinator=True)
    if answer.table_id != table.table_id:
        raise errors.TableMissingError(
            f"{table.path} was dropped, and a new table has the same name.",
            hint="Get the table again.",
        )
    return TableInfo(
        path=table.path,
        table_id=answer.table_id,
        schema_id=answer.schema_id,
        descriptor=read_descriptor(answer.table_json),
        created_ms=answer.created_time,
        modified_ms=answer.modified_time,
    )


# Internal tables of the client, created on first use.

# How long another client may take to create a table.
MADE_WITHIN_S = 10.0
# A cluster gives every table the format of its lake, even tables that are never tiered. Keys are
# then encoded as the format does, and Iceberg allows only one key column; Lance uses the encoding
# of Fluss.
OWN_KEYS = {DATALAKE_FORMAT.name: str(LakeFormat.LANCE)}


async def find_table(cluster: Cluster, path: TablePath) -> TableInfo | None:
    """Return a table, or None if it does not exist."""
    try:
        return await cluster.table(path)
    except (errors.TableMissingError, errors.DatabaseMissingError):
        return None


async def ensure_table(
    cluster: Cluster, path: TablePath, descriptor: TableDescriptor, *, whose: str
) -> TableInfo:
    """Return an internal table, creating it if necessary; `whose` names its users in errors."""
    if cluster.settings.acks not in ACKS_SAFE:
        raise errors.RequestError(
            f"{whose} need to know that their writes are durable.",
            hint=f"Use `acks={ACKS_ALL}` in the settings of the client.",
        )
    try:
        return await find_table(cluster, path) or await _make(cluster, path, descriptor)
    except errors.ServerFaultError as fault:
        # Apache Fluss fails if several clients create a table at once, and one of them succeeds.
        return await _made_by_others(cluster, path, fault)


async def _make(cluster: Cluster, path: TablePath, descriptor: TableDescriptor) -> TableInfo:
    admin = Admin(cluster)
    await admin.create_database(path.database, exists_ok=True, comment=None, properties={})
    described = replace(descriptor, properties={**descriptor.properties, **OWN_KEYS})
    return await admin.create_table(path, described, exists_ok=True)


async def _made_by_others(
    cluster: Cluster, path: TablePath, fault: errors.ServerFaultError
) -> TableInfo:
    async def look() -> TableInfo:
        try:
            found = await find_table(cluster, path)
        except errors.ServerFaultError:  # It is half created.
            found = None
        if found is None:
            raise errors.LeaderMissingError(f"There is no table {path} yet.")
        return found

    try:
        return await cluster.retries.run(look, what="Waiting", timeout_s=MADE_WITHIN_S)
    except errors.TimedOutError:
        raise fault from None
