"""Databases, tables and partitions: create, list, change, drop."""

import json
from collections.abc import Mapping, Sequence

from headwater.client.cluster import Cluster
from headwater.client.paths import wire_path
from headwater.errors import LeaderMissingError, TableMissingError
from headwater.model.descriptor import TableDescriptor, descriptor_to_json
from headwater.model.partition import PartitionSpec, complete_spec, name_of_spec
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.model.type_json import type_to_json
from headwater.model.types import DataType
from headwater.wire import fluss_pb2 as pb

SET, RESET = 0, 1
LAST = 0
# A table is there for the coordinator before every server has heard of it.
VISIBLE_WITHIN_S = 60.0


class Admin:
    """Ask the coordinator for changes, and any server for lists."""

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
        """Drop a database, and with `cascade` the tables in it."""
        request = pb.DropDatabaseRequest(
            database_name=name, ignore_if_not_exists=missing_ok, cascade=cascade
        )
        await self._cluster.ask(request, pb.DropDatabaseResponse, coordinator=True)

    async def list_databases(self) -> list[str]:
        """Return the names of all databases."""
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
        except TableMissingError as fault:
            raise LeaderMissingError(f"{path} is not known to every server yet.") from fault

    async def drop_table(self, path: TablePath, *, missing_ok: bool) -> None:
        """Drop a table and its rows."""
        request = pb.DropTableRequest(table_path=wire_path(path), ignore_if_not_exists=missing_ok)
        await self._cluster.ask(request, pb.DropTableResponse, coordinator=True)

    async def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database."""
        request = pb.ListTablesRequest(database_name=database)
        answer = await self._cluster.ask(request, pb.ListTablesResponse)
        return sorted(answer.table_name)

    async def table_exists(self, path: TablePath) -> bool:
        """Tell whether there is such a table."""
        request = pb.TableExistsRequest(table_path=wire_path(path))
        return (await self._cluster.ask(request, pb.TableExistsResponse)).exists

    # ---- changes

    async def add_column(
        self, path: TablePath, name: str, *, data_type: DataType, comment: str | None
    ) -> None:
        """Add a nullable column behind the others."""
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
        """Give a column another name."""
        rename = pb.RenameColumn(old_column_name=old, new_column_name=new)
        await self._alter(path, pb.AlterTableRequest(rename_columns=[rename]))

    async def set_options(self, path: TablePath, options: Mapping[str, str]) -> None:
        """Give options of a table new values."""
        changes = [
            pb.AlterConfig(config_key=key, config_value=value, op_type=SET)
            for key, value in options.items()
        ]
        await self._alter(path, pb.AlterTableRequest(config_changes=changes))

    async def reset_options(self, path: TablePath, keys: Sequence[str]) -> None:
        """Take options of a table back to their defaults."""
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
