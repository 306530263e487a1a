"""A table of the catalog: what Spark SQL may know of it and do with it."""

from collections.abc import Iterable, Mapping, Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType

from headwater.client.schema_in import schema_of
from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.config.option import Option
from headwater.engines.spark.catalog.deletes import keys_of
from headwater.engines.spark.catalog.expressions import read_predicate
from headwater.engines.spark.catalog.filters import EVERYTHING, Branches, both, branches_of
from headwater.engines.spark.catalog.interfaces import (
    COLUMNS,
    CONSTRAINT,
    EXPRESSIONS,
    NAMED_REFERENCE,
    SUPPORTS_DELETE,
    SUPPORTS_PARTITIONS,
    SUPPORTS_READ,
    SUPPORTS_WRITE,
    TABLE_CAPABILITY,
    TRANSFORM,
    TRUNCATES,
    UPDATES_AS_APPENDS,
    WRITE_INFO,
)
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.catalog.partitions import Partitions
from headwater.engines.spark.catalog.properties import properties_of, read_schema, table_schema
from headwater.engines.spark.catalog.proxy import Proxy
from headwater.engines.spark.catalog.python_source import python_table
from headwater.engines.spark.catalog.scan_builder import ScanBuilder
from headwater.engines.spark.catalog.writes import WriteBuilder
from headwater.engines.spark.options import (
    CHANGELOG,
    PARTIAL_UPDATE,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    TABLE,
    given_options,
)
from headwater.engines.spark.options import COLUMNS as COLUMNS_READ
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import InvalidOptionError, UnsupportedError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.model.table import TableInfo

_READS = ("BATCH_READ", "MICRO_BATCH_READ")
_WRITES = ("BATCH_WRITE", "STREAMING_WRITE")


class CatalogTable:
    """Read, write and describe a table; a virtual table is read and described only."""

    def __init__(
        self,
        jvm: Jvm,
        table: Table,
        *,
        catalog: str,
        options: Mapping[str, str],
        past: TableInfo | None = None,
    ) -> None:
        self._jvm = jvm
        self._table = table
        self._name = f"{catalog}.{table.name}"
        self._options = options
        # What it is, or what it was where it is read as it was.
        self._info = past or table.info
        self._is_real = table.name == str(table.path)

    def __str__(self) -> str:
        # Two are the same where all is: Spark compares them to find what it has in its cache.
        info = self._info
        options = hash(tuple(sorted(self._options.items())))
        return f"{self._name} {info.table_id} {info.schema_id} {options}"

    def interfaces(self) -> tuple[str, ...]:
        """Return what Spark may do with the table."""
        if not self._is_real:
            return (SUPPORTS_READ,)
        deletes = (SUPPORTS_DELETE,) if self._table.is_keyed else ()
        partitions = (SUPPORTS_PARTITIONS,) if self._table.info.is_partitioned else ()
        return (SUPPORTS_READ, SUPPORTS_WRITE, *deletes, *partitions)

    # ---- what it is

    def name(self) -> str:
        """Return the name with that of the catalog."""
        return self._name

    def id(self) -> str:
        """Return what tells the table from another that had its name before."""
        return str(self._table.info.table_id)

    def version(self) -> None:
        """Return no version: what a table holds changes all the time."""

    def schema(self) -> JavaObject:
        """Return the columns as a schema."""
        return self._jvm.struct(self._shown_schema())

    def columns(self) -> JavaObject:
        """Return the columns."""
        schema = self._shown_schema()
        return self._jvm.kept(
            ("columns", schema.json()),
            lambda: self._jvm.named(COLUMNS).structTypeToV2Columns(self._jvm.struct(schema), False),
        )

    def _shown_schema(self) -> StructType:
        if not self._is_real:
            # The log has rows of a table from before its columns were what they are.
            return self._read_schema()
        return table_schema(self._info.schema, name=self._table.name)

    def _read_schema(self) -> StructType:
        rows = arrow_schema(self._info.schema) if self._is_real else self._table.schema
        return read_schema(rows, name=self._table.name)

    def partitioning(self) -> JavaObject:
        """Return the partition columns."""
        keys = self._table.info.descriptor.partition_keys if self._is_real else ()
        return self._jvm.kept(("partitioning", keys), lambda: self._partitioning(keys))

    def _partitioning(self, keys: Sequence[str]) -> JavaObject:
        expressions = self._jvm.named(EXPRESSIONS)
        return self._jvm.array(TRANSFORM, [expressions.identity(key) for key in keys])

    def constraints(self) -> JavaObject:
        """Return the primary key."""
        key = self._table.info.schema.primary_key
        if not key or not self._is_real:
            return self._jvm.array(CONSTRAINT)
        column = self._jvm.named(EXPRESSIONS).column
        columns = self._jvm.array(NAMED_REFERENCE, list(map(column, key)))
        name = f"{self._table.path.table}_key"
        built = self._jvm.named(CONSTRAINT).primaryKey(name, columns).enforced(False).build()
        return self._jvm.array(CONSTRAINT, [built])

    def properties(self) -> JavaObject:
        """Return what SHOW TBLPROPERTIES shows."""
        return self._jvm.mapping(properties_of(self._table.info.descriptor))

    def capabilities(self) -> JavaObject:
        """Return the ways in which the table is read and written."""
        names = (*_READS, *_WRITES) if self._is_real else _READS
        return self._jvm.kept(("capabilities", names), lambda: self._capabilities(names))

    def _capabilities(self, names: Iterable[str]) -> JavaObject:
        capability, found = (
            self._jvm.named(TABLE_CAPABILITY),
            self._jvm.named("java.util.HashSet")(),
        )
        for name in names:
            found.add(capability.valueOf(name))
        return found

    # ---- reading

    def new_scan_builder(self, options: JavaObject) -> Proxy:
        """Return what gathers the needs of one reference to the table."""
        known = _of(self._options, SOURCE_OPTIONS)
        given = {**known, **texts_of(options), TABLE.name: self._table.name}
        read = SourceOptions.of(given)
        self._check_columns(read)
        schema = self._read_schema()
        builder = ScanBuilder(self._jvm, read, schema, filterable=self._filterable(), given=given)
        return Proxy(self._jvm, builder, ScanBuilder.interfaces)

    def _check_columns(self, read: SourceOptions) -> None:
        """Refuse options that make other columns than Spark was told of."""
        if read.table != self._table.name:
            raise InvalidOptionError(
                f"'{CHANGELOG.name}' cannot be used with a table of the catalog.",
                hint=f"Read `{self._table.path.table}$changelog`.",
            )
        if read.columns is not None:
            raise InvalidOptionError(
                f"'{COLUMNS_READ.name}' cannot be used with a table of the catalog.",
                hint="Select the columns.",
            )

    def _filterable(self) -> Schema:
        return self._info.schema if self._is_real else schema_of(self._table.schema)

    # ---- writing

    def new_write_builder(self, info: JavaObject) -> Proxy:
        """Return Spark's own builder, told which table it writes to."""
        known = _of(self._options, SINK_OPTIONS)
        given = {**known, **texts_of(info.options()), TABLE.name: self._table.name}
        told = self._jvm.named(WRITE_INFO)(
            info.queryId(),
            info.schema(),
            self._jvm.options(given),
            info.rowIdSchema(),
            info.metadataSchema(),
        )
        builder = WriteBuilder(
            self._jvm,
            python_table(self._jvm, self._read_schema()).newWriteBuilder(told),
            table=self._table.name,
            is_partial=PARTIAL_UPDATE.required(given_options(given, SINK_OPTIONS)),
        )
        return builder.proxy(*self._write_interfaces())

    def _write_interfaces(self) -> tuple[str, ...]:
        # By key, what a stream updates is written like what it appends.
        return (UPDATES_AS_APPENDS,) if self._table.is_keyed else ()

    # ---- deleting

    def can_delete_where(self, predicates: Sequence[JavaObject]) -> bool:
        """Tell that rows can be deleted, or say why they cannot, before anything is."""
        keys_of(self._wanted(predicates), self._table.info.schema.primary_key)
        return True

    def delete_where(self, predicates: Sequence[JavaObject]) -> None:
        """Delete the rows whose keys are named."""
        keys = keys_of(self._wanted(predicates), self._table.info.schema.primary_key)
        if keys:
            self._table.delete(keys)

    def _wanted(self, predicates: Sequence[JavaObject]) -> Branches | None:
        wanted: Branches | None = EVERYTHING
        for predicate in predicates:
            expression = read_predicate(predicate)
            branches = None if expression is None else branches_of(expression, self._filterable())
            if branches is None or wanted is None:
                return None
            wanted = both(wanted, branches)
        return wanted

    def truncate_table(self) -> bool:
        """Refuse to delete all rows."""
        raise UnsupportedError(
            f"{self._name} cannot be truncated.", hint="Drop the table and create it again."
        )

    # ---- partitions

    def partition_schema(self) -> JavaObject:
        """Return the partition columns, whose values are texts here."""
        return self._partitions().schema()

    def create_partition(self, row: JavaObject, _properties: JavaObject) -> None:
        """Create a partition."""
        self._partitions().create(row)

    def drop_partition(self, row: JavaObject) -> bool:
        """Drop a partition, or tell that there is none."""
        return self._partitions().drop(row)

    def list_partition_identifiers(self, names: Sequence[str], row: JavaObject) -> JavaObject:
        """Return the partitions that have these values."""
        return self._partitions().matching(names, row)

    def load_partition_metadata(self, _row: JavaObject) -> JavaObject:
        """Return nothing: a partition has no properties of its own."""
        return self._jvm.mapping({})

    def replace_partition_metadata(self, _row: JavaObject, _properties: JavaObject) -> None:
        """Refuse to give a partition properties."""
        raise UnsupportedError("A partition has no properties of its own.")

    def _partitions(self) -> Partitions:
        return Partitions(self._jvm, self._table)


class NewTable(CatalogTable):
    """Have a table made by CREATE TABLE AS SELECT, which others see before its rows are there."""

    def __init__(
        self, jvm: Jvm, table: Table, *, catalog: str, options: Mapping[str, str], client: Client
    ) -> None:
        super().__init__(jvm, table, catalog=catalog, options=options)
        self._client = client

    def capabilities(self) -> JavaObject:
        """Return the ways of all tables, and that CREATE OR REPLACE may empty it first."""
        names = (*_READS, *_WRITES, "TRUNCATE")
        return self._jvm.kept(("capabilities", names), lambda: self._capabilities(names))

    def _write_interfaces(self) -> tuple[str, ...]:
        return (TRUNCATES,)

    def commit_staged_changes(self) -> None:
        """Leave the table as it is."""

    def abort_staged_changes(self) -> None:
        """Drop the table."""
        self._client.drop_table(self._table.path, missing_ok=True)


def texts_of(mapping: JavaObject) -> dict[str, str]:
    """Return a map of the JVM."""
    return {} if mapping.isEmpty() else dict(mapping)


def _of(options: Mapping[str, str], declared: Iterable[Option[object]]) -> dict[str, str]:
    names = {option.name for option in declared}
    return {name: text for name, text in options.items() if name in names}
