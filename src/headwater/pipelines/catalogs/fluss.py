"""The catalog `fluss`: the databases and tables of a Headwater server or an Apache Fluss cluster.

Computed columns and watermarks are stored in the table's properties, under the names that the
Flink catalog of Apache Fluss uses, so that both read the other's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.config.options import MERGE_ENGINE
from headwater.engines.spark.catalog.definition import (
    BUCKET_COUNT,
    BUCKET_KEY,
    Clauses,
    Creation,
    creation_of,
)
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.options import (
    CONNECT_TIMEOUT,
    DEADLINE,
    LAKE,
    PASSWORD,
    SCAN_MODE,
    SERVERS,
    USER,
    ScanMode,
    given_options,
)
from headwater.engines.spark.watermarks import (
    COLUMN_PROPERTY,
    EXPRESSION_PROPERTY,
    TYPE_PROPERTY,
    Watermark,
    read_watermark,
    watermark_properties,
)
from headwater.errors import InvalidTableError, TableMissingError, UnsupportedError
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.type_text import parse_type, type_text
from headwater.pipelines.catalogs.spi import TableText, cannot_alter, no_views
from headwater.pipelines.connectors.fluss import FLUSS, TABLE_NAME
from headwater.pipelines.connectors.spi import CONNECTOR
from headwater.pipelines.sql import statements
from headwater.pipelines.sql.names import Ability, DeclaredTable, DeclaredView, TableName
from headwater.pipelines.tables import abilities, hint_options, quoted
from headwater.read.virtual import VirtualKind, split_virtual

DEFAULT_DATABASE = "fluss"
_DEFAULT = "default-database"
_TYPE = "type"
_REACH = (SERVERS, USER, PASSWORD, DEADLINE, CONNECT_TIMEOUT, LAKE)
_COLUMN = re.compile(r"schema\.(\d+)\.(name|expr|data-type|comment)\Z")
_OF_SCHEMA = "schema."
_LAKE = "$lake"
_OF_CHANGES = (
    ("_change_type", "STRING"),
    ("_log_offset", "BIGINT"),
    ("_commit_timestamp", "TIMESTAMP_LTZ(3)"),
)
_FIRST_ROW = "first_row"


@dataclass(frozen=True, slots=True)
class FlussCatalog:
    """Databases and tables of a server."""

    name: str
    options: Mapping[str, str]
    reach: Mapping[str, str]
    """How to reach the server, as options of the connector."""

    @classmethod
    def of(cls, name: str, options: statements.Options) -> "FlussCatalog":
        """Connect to the server that `CREATE CATALOG` names."""
        given = {key: text for key, text in options.items() if key not in (_TYPE, _DEFAULT)}
        made = cls(name, options, given_options(given, _REACH))
        made.client.list_databases()  # a server that cannot be reached is told here
        return made

    @property
    def default_database(self) -> str:
        """The database that `USE CATALOG` makes current."""
        return self.options.get(_DEFAULT, DEFAULT_DATABASE)

    @property
    def client(self) -> Client:
        """The client of this process."""
        return SparkConnection.of(self.reach).client(waits=False)

    # ---- databases

    def databases(self) -> Sequence[str]:
        """The names of all databases."""
        return sorted(self.client.list_databases())

    def create_database(
        self, name: str, *, comment: str | None, options: statements.Options
    ) -> None:
        """Create a database."""
        self.client.create_database(name, comment=comment, properties=dict(options))

    def drop_database(self, name: str, *, is_cascade: bool) -> None:
        """Drop a database."""
        self.client.drop_database(name, cascade=is_cascade)

    def tables(self, database: str) -> Sequence[str]:
        """The names of all tables of a database."""
        return sorted(self.client.list_tables(database))

    def views(self, database: str) -> Sequence[str]:
        """None: the server has no views."""
        del database
        return ()

    # ---- tables

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """What has this name."""
        base, is_lake = name.table.removesuffix(_LAKE), name.table.endswith(_LAKE)
        if _LAKE in base:
            raise UnsupportedError(
                f"{name} would be facts about a lake table, which are not a table here.",
                hint=f"Read its rows as {base.partition(_LAKE)[0]}{_LAKE}; `headwater lake` tells "
                "about snapshots.",
            )
        held = replace(name, table=base)
        table = self._table(held)
        if table is None:
            return None
        found = self._declared(held, table.info.descriptor)
        _, shape = split_virtual(base)
        if shape is not None:
            return _in_log(found, shape)
        return _in_lake(found, name) if is_lake else found

    def _table(self, name: TableName) -> Table | None:
        client = self.client
        if name.database not in client.list_databases():
            return None
        try:
            return client.table(f"{name.database}.{name.table}")
        except TableMissingError:
            return None

    def _existing(self, name: TableName) -> Table:
        return self.client.table(f"{name.database}.{name.table}")

    def _declared(self, name: TableName, descriptor: TableDescriptor) -> DeclaredTable:
        key = descriptor.schema.primary_key
        known = {option.name for option in FLUSS.options}
        said = {k: v for k, v in descriptor.custom_properties.items() if k in known}
        engine = str(MERGE_ENGINE.of(descriptor.properties) or "")
        return DeclaredTable(
            name=name,
            columns=columns_of(descriptor),
            key=key,
            lookup_keys=_lookup_keys(descriptor),
            watermark=_watermark(descriptor),
            connector=FLUSS.name,
            options={**said, **self.reach, TABLE_NAME.name: f"{name.database}.{name.table}"},
            hint_options=hint_options(FLUSS),
            partitioned_by=descriptor.partition_keys,
            abilities=abilities(FLUSS, has_key=bool(key)),
            is_updating=bool(key) and engine != _FIRST_ROW,
        )

    def text(self, table: DeclaredTable) -> TableText:
        """What SHOW CREATE TABLE says of a table."""
        descriptor = self._existing(table.name).info.descriptor
        shown = {**descriptor.properties, **_own(descriptor.custom_properties)}
        if descriptor.bucket_keys:
            shown[BUCKET_KEY] = ",".join(descriptor.bucket_keys)
        if descriptor.bucket_count is not None:
            shown[BUCKET_COUNT] = str(descriptor.bucket_count)
        return TableText(options=dict(sorted(shown.items())), comment=descriptor.comment)

    def create_table(self, name: TableName, definition: statements.TableDefinition) -> None:
        """Create a table."""
        creation = creation_in(name, definition)
        self.client.create_table(
            f"{name.database}.{name.table}",
            schema_in(name, definition.columns),
            primary_key=creation.primary_key,
            partition_by=creation.partition_by,
            bucket_by=creation.bucket_by,
            buckets=creation.buckets,
            options={**creation.options, **_stored(definition)},
            comment=creation.comment,
        )

    def drop_table(self, name: TableName) -> None:
        """Drop a table."""
        self.client.drop_table(f"{name.database}.{name.table}")

    def alter_table(self, table: DeclaredTable, change: statements.TableChange) -> None:
        """Change a table."""
        held = self._existing(table.name)
        match change:
            case statements.SetTableOptions(options=options):
                held.set_options(options)
            case statements.ResetTableOptions(keys=keys):
                held.reset_options(keys)
            case statements.AddTableColumns():
                _add(held, table, change)
            case statements.DropTableColumns(columns=names):
                for name in names:
                    held.drop_column(name)
            case statements.RenameTableColumn(column=old, to=new):
                held.rename_column(old, new)
            case statements.SetTableWatermark(watermark=watermark):
                _set_watermark(held, watermark)
            case _:
                self._alter_partition(held, table, change)

    def _alter_partition(
        self, held: Table, table: DeclaredTable, change: statements.TableChange
    ) -> None:
        match change:
            case statements.AddTablePartition(values=values, if_not_exists=exists_ok):
                held.create_partition(values, exists_ok=exists_ok)
            case statements.DropTablePartition(values=values, if_exists=missing_ok):
                held.drop_partition(values, missing_ok=missing_ok)
            case _:
                hint = "Create another table AS SELECT from it."
                raise cannot_alter(table, change, hint=hint)

    def partitions(self, table: DeclaredTable) -> Sequence[Mapping[str, str]]:
        """The partitions of a table."""
        return self._existing(table.name).partitions() if table.partitioned_by else ()

    # ---- views

    def put_view(self, view: DeclaredView) -> None:
        """Raise: a server keeps no views."""
        del view
        raise no_views(self.name)

    def drop_view(self, name: TableName) -> None:
        """Raise: a server keeps no views."""
        del name
        raise no_views(self.name)


def _in_log(table: DeclaredTable, shape: VirtualKind) -> DeclaredTable:
    """Make `t$changelog` or `t$binlog` of a table: its changes as new rows."""
    physical = [each for each in table.columns if isinstance(each, statements.PhysicalColumn)]
    rows = ", ".join(f"{quoted(each.name)} {type_text(each.type)}" for each in physical)
    images = [(name, f"ROW<{rows}>") for name in ("before", "after")]
    told = [*_OF_CHANGES, *(images if shape is VirtualKind.BINLOG else ())]
    added = [statements.PhysicalColumn(name=name, type=parse_type(kind)) for name, kind in told]
    return replace(
        table,
        columns=(*added, *(physical if shape is VirtualKind.CHANGELOG else ())),
        key=(),
        lookup_keys=(),
        watermark=None,
        abilities=frozenset({Ability.BATCH_READ, Ability.STREAM_READ}),
        is_updating=False,
    )


def _in_lake(table: DeclaredTable, name: TableName) -> DeclaredTable:
    """Make `t$lake` of a table: its rows in the lake, without those that are only in the log."""
    return replace(
        table,
        name=name,
        lookup_keys=(),
        watermark=None,
        options={**table.options, SCAN_MODE.name: ScanMode.LAKE.value},
        abilities=frozenset({Ability.BATCH_READ}),
        is_updating=False,
    )


def schema_in(name: TableName, columns: Sequence[statements.TableColumn]) -> Schema:
    """The physical columns of a definition."""
    if any(isinstance(each, statements.MetadataColumn) for each in columns):
        raise UnsupportedError(
            f"{name} cannot have METADATA columns.",
            hint="Read offsets and times of changes from its $changelog.",
        )
    physical = [each for each in columns if isinstance(each, statements.PhysicalColumn)]
    return Schema(
        columns=tuple(Column(name=c.name, type=c.type, comment=c.comment) for c in physical)
    )


def creation_in(name: TableName, definition: statements.TableDefinition) -> Creation:
    """What the server is told about a new table."""
    options = dict(definition.options)
    if options.pop(CONNECTOR, FLUSS.name) != FLUSS.name:
        raise InvalidTableError(
            f"{name} would be a table of the server, with no other connector.",
            hint="Write CREATE TEMPORARY TABLE for a table with another connector.",
        )
    distribution = definition.distribution
    clauses = Clauses(
        primary_key=definition.key,
        partition_by=definition.partitioned_by,
        bucket_by=() if distribution is None else distribution.columns,
        buckets=None if distribution is None else distribution.buckets,
    )
    comment = {} if definition.comment is None else {"comment": definition.comment}
    return creation_of({**options, **comment}, clauses)


# Computed columns and watermarks, in the properties of a table.


def _stored(definition: statements.TableDefinition) -> dict[str, str]:
    """The properties that keep computed columns and the watermark."""
    stored: dict[str, str] = {}
    for number, column in enumerate(definition.columns):
        if isinstance(column, statements.ComputedColumn):
            stored[f"schema.{number}.name"] = column.name
            stored[f"schema.{number}.expr"] = column.expression
            if column.comment is not None:
                stored[f"schema.{number}.comment"] = column.comment
    if definition.watermark is not None:
        stored |= _watermark_stored(definition.watermark, definition.columns)
    return stored


def _watermark_stored(
    watermark: statements.WatermarkClause, columns: Sequence[statements.TableColumn]
) -> dict[str, str]:
    found = next((c for c in columns if c.name == watermark.column), None)
    simple = Watermark(watermark.column, watermark.delay_ms)
    if isinstance(found, statements.PhysicalColumn):
        return watermark_properties(simple, found.type)
    return {COLUMN_PROPERTY: watermark.column, EXPRESSION_PROPERTY: watermark.expression}


def columns_of(descriptor: TableDescriptor) -> tuple[statements.TableColumn, ...]:
    """The columns of a table, with computed ones where they were declared."""
    columns: list[statements.TableColumn] = [
        statements.PhysicalColumn(name=each.name, type=each.type, comment=each.comment)
        for each in descriptor.schema.columns
    ]
    found: dict[int, dict[str, str]] = {}
    for key, text in descriptor.custom_properties.items():
        if match := _COLUMN.match(key):
            found.setdefault(int(match[1]), {})[match[2]] = text
    for number, parts in sorted(found.items()):
        if "name" in parts and "expr" in parts:
            made = statements.ComputedColumn(
                name=parts["name"], expression=parts["expr"], comment=parts.get("comment")
            )
            columns.insert(number, made)
    return tuple(columns)


def _watermark(descriptor: TableDescriptor) -> statements.WatermarkClause | None:
    found = read_watermark(descriptor.custom_properties)
    if found is None:
        return None
    expression = descriptor.custom_properties.get(EXPRESSION_PROPERTY, found.column)
    return statements.WatermarkClause(
        column=found.column, expression=expression, delay_ms=found.delay_ms
    )


def _set_watermark(table: Table, watermark: statements.WatermarkClause | None) -> None:
    held = table.info.descriptor.custom_properties
    if watermark is not None:
        columns = columns_of(table.info.descriptor)
        table.set_options(_watermark_stored(watermark, columns))
        return
    known = (COLUMN_PROPERTY, EXPRESSION_PROPERTY, TYPE_PROPERTY)
    if keys := [key for key in known if key in held]:
        table.reset_options(keys)


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if not key.startswith(_OF_SCHEMA)}


def _lookup_keys(descriptor: TableDescriptor) -> tuple[tuple[str, ...], ...]:
    key = descriptor.physical_primary_key
    bucket_key = descriptor.bucket_keys or key
    if not descriptor.schema.primary_key or set(bucket_key) == set(key):
        return ()
    least = max(key.index(name) for name in bucket_key) + 1
    return tuple((*key[:count], *descriptor.partition_keys) for count in range(least, len(key)))


def _add(held: Table, table: DeclaredTable, change: statements.AddTableColumns) -> None:
    for each in change.columns:
        if (
            each.is_first
            or each.after is not None
            or not isinstance(each.column, statements.PhysicalColumn)
        ):
            raise cannot_alter(
                table, change, hint="A new column comes last, and has values of its own."
            )
    for each in change.columns:
        assert isinstance(each.column, statements.PhysicalColumn)
        held.add_column(each.column.name, each.column.type, comment=each.column.comment)
