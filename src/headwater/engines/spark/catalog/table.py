"""A table of the catalog: what Spark SQL can see of it and do with it."""

from collections.abc import Iterable, Mapping, Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StringType, StructField, StructType

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.cluster.schema_in import schema_of
from headwater.config.values import Option
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.catalog import filters
from headwater.engines.spark.catalog import jvm as java
from headwater.engines.spark.catalog.definition import properties_of, read_schema, table_schema
from headwater.engines.spark.catalog.scan import ScanBuilder, python_table
from headwater.engines.spark.options import COLUMNS as COLUMNS_READ
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import InvalidOptionError, PartitionMissingError, UnsupportedError
from headwater.model import Schema, TableInfo
from headwater.model.arrow import arrow_schema

# Partitions, for SHOW PARTITIONS and ALTER TABLE: their values are text.


class SparkPartitions:
    """Lists, creates and drops the partitions of a table."""

    def __init__(self, jvm: java.Jvm, table: Table) -> None:
        self._jvm = jvm
        self._table = table
        self._keys = table.info.descriptor.partition_keys

    def schema(self) -> JavaObject:
        """The partition columns."""
        fields = [StructField(key, StringType()) for key in self._keys]
        return self._jvm.struct(StructType(fields))

    def create(self, row: JavaObject) -> None:
        """Create a partition."""
        self._table.create_partition(self._spec(row, self._keys))

    def drop(self, row: JavaObject) -> bool:
        """Drop a partition; return whether it existed."""
        try:
            self._table.drop_partition(self._spec(row, self._keys))
        except PartitionMissingError:
            return False
        return True

    def matching(self, names: Sequence[str], row: JavaObject) -> JavaObject:
        """The partitions that have these values."""
        wanted = self._spec(row, tuple(names)).items()
        found = [spec for spec in self._table.partitions() if wanted <= spec.items()]
        return self._jvm.array(java.INTERNAL_ROW, [self._row(spec) for spec in found])

    def _spec(self, row: JavaObject, keys: Sequence[str]) -> dict[str, str]:
        return {key: row.getUTF8String(place).toString() for place, key in enumerate(keys)}

    def _row(self, spec: Mapping[str, str]) -> JavaObject:
        row = self._jvm.named(java.GENERIC_ROW)(len(self._keys))
        for place, key in enumerate(self._keys):
            row.update(place, self._jvm.named(java.UTF8).fromString(spec[key]))
        return row


# Writing, with Spark's own Python writers.


class WriteBuilder:
    """Builds a write that appends, or upserts by key."""

    def __init__(self, jvm: java.Jvm, builder: JavaObject, *, table: str, is_partial: bool) -> None:
        self._jvm = jvm
        self._builder = builder
        self._table = table
        self._is_partial = is_partial

    def __str__(self) -> str:
        return f"write builder of {self._table} {id(self)}"

    def proxy(self, *interfaces: str) -> java.Proxy:
        """The builder for the JVM, with its optional interfaces."""
        return java.Proxy(self._jvm, self, (java.WRITE_BUILDER, *interfaces))

    def truncate(self) -> java.Proxy:
        """Do nothing: only called for new tables, which are empty."""
        return self.proxy()

    def build(self) -> java.Proxy:
        """Build the write."""
        write = SparkWrite(self._builder.build(), table=self._table, is_partial=self._is_partial)
        return java.Proxy(self._jvm, write, (java.WRITE,))


class SparkWrite:
    """Writes rows in a batch or a stream."""

    def __init__(self, write: JavaObject, *, table: str, is_partial: bool) -> None:
        self._write = write
        self._table = table
        self._is_partial = is_partial

    def __str__(self) -> str:
        return f"write to {self._table} {id(self)}"

    def description(self) -> str:
        """What EXPLAIN shows."""
        return f"headwater {self._table}"

    def to_batch(self) -> JavaObject:
        """Writer of a batch."""
        if self._is_partial:
            raise UnsupportedError(
                f"'{spark_options.PARTIAL_UPDATE.name}' does not work with a table of the catalog: "
                "Spark fills missing columns with nulls.",
                hint="Write with df.write.format('headwater') and the option 'table'.",
            )
        return self._write.toBatch()

    def to_streaming(self) -> JavaObject:
        """Writer of a stream."""
        return self._write.toStreaming()

    def supported_custom_metrics(self) -> JavaObject:
        """The metrics that Spark's Python writers count."""
        return self._write.supportedCustomMetrics()

    def report_driver_metrics(self) -> JavaObject:
        """Driver metrics."""
        return self._write.reportDriverMetrics()


# The table.

_READS = ("BATCH_READ", "MICRO_BATCH_READ")
_WRITES = ("BATCH_WRITE", "STREAMING_WRITE")


class CatalogTable:
    """Reads, writes and describes a table; a virtual table is read-only."""

    def __init__(
        self,
        jvm: java.Jvm,
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
        # The table as it is, or as it was at the position being read.
        self._info = past or table.info
        self._is_real = table.name == str(table.path)

    def __str__(self) -> str:
        # Equal only if everything is: Spark compares tables to find them in its cache.
        info = self._info
        options = hash(tuple(sorted(self._options.items())))
        return f"{self._name} {info.table_id} {info.schema_id} {options}"

    def interfaces(self) -> tuple[str, ...]:
        """The interfaces that say what Spark may do with the table."""
        if not self._is_real:
            return (java.SUPPORTS_READ,)
        deletes = (java.SUPPORTS_DELETE,) if self._table.is_keyed else ()
        partitions = (java.SUPPORTS_PARTITIONS,) if self._table.info.is_partitioned else ()
        return (java.SUPPORTS_READ, java.SUPPORTS_WRITE, *deletes, *partitions)

    # ---- what it is

    def name(self) -> str:
        """Name including that of the catalog."""
        return self._name

    def id(self) -> str:
        """Distinguishes the table from an earlier one of the same name."""
        return str(self._table.info.table_id)

    def version(self) -> None:
        """No version: a table changes all the time."""

    def schema(self) -> JavaObject:
        """The columns as a schema."""
        return self._jvm.struct(self._shown_schema())

    def columns(self) -> JavaObject:
        """The columns."""
        schema = self._shown_schema()
        return self._jvm.kept(
            ("columns", schema.json()),
            lambda: self._jvm.named(java.COLUMNS).structTypeToV2Columns(
                self._jvm.struct(schema), False
            ),
        )

    def _shown_schema(self) -> StructType:
        if not self._is_real:
            # The log has rows from before the columns were what they are now.
            return self._read_schema()
        return table_schema(self._info.schema, name=self._table.name)

    def _read_schema(self) -> StructType:
        rows = arrow_schema(self._info.schema) if self._is_real else self._table.schema
        return read_schema(rows, name=self._table.name)

    def partitioning(self) -> JavaObject:
        """The partition columns."""
        keys = self._table.info.descriptor.partition_keys if self._is_real else ()
        return self._jvm.kept(("partitioning", keys), lambda: self._partitioning(keys))

    def _partitioning(self, keys: Sequence[str]) -> JavaObject:
        expressions = self._jvm.named(java.EXPRESSIONS)
        return self._jvm.array(java.TRANSFORM, [expressions.identity(key) for key in keys])

    def constraints(self) -> JavaObject:
        """The primary key."""
        key = self._table.info.schema.primary_key
        if not key or not self._is_real:
            return self._jvm.array(java.CONSTRAINT)
        column = self._jvm.named(java.EXPRESSIONS).column
        columns = self._jvm.array(java.NAMED_REFERENCE, list(map(column, key)))
        name = f"{self._table.path.table}_key"
        built = self._jvm.named(java.CONSTRAINT).primaryKey(name, columns).enforced(False).build()
        return self._jvm.array(java.CONSTRAINT, [built])

    def properties(self) -> JavaObject:
        """What SHOW TBLPROPERTIES shows."""
        return self._jvm.mapping(properties_of(self._table.info.descriptor))

    def capabilities(self) -> JavaObject:
        """How the table can be read and written."""
        names = (*_READS, *_WRITES) if self._is_real else _READS
        return self._jvm.kept(("capabilities", names), lambda: self._capabilities(names))

    def _capabilities(self, names: Iterable[str]) -> JavaObject:
        capability, found = (
            self._jvm.named(java.TABLE_CAPABILITY),
            self._jvm.named("java.util.HashSet")(),
        )
        for name in names:
            found.add(capability.valueOf(name))
        return found

    # ---- reading

    def new_scan_builder(self, options: JavaObject) -> java.Proxy:
        """Collector for one reference to the table."""
        known = _of(self._options, spark_options.SOURCE_OPTIONS)
        given = {**known, **texts_of(options), spark_options.TABLE.name: self._table.name}
        read = SourceOptions.of(given)
        self._check_columns(read)
        schema = self._read_schema()
        builder = ScanBuilder(self._jvm, read, schema, filterable=self._filterable(), given=given)
        return java.Proxy(self._jvm, builder, ScanBuilder.interfaces)

    def _check_columns(self, read: SourceOptions) -> None:
        """Raise for options that change the columns which Spark knows."""
        if read.table != self._table.name:
            raise InvalidOptionError(
                f"'{spark_options.CHANGELOG.name}' does not work with a table of the catalog.",
                hint=f"Read `{self._table.path.table}$changelog`.",
            )
        if read.columns is not None:
            raise InvalidOptionError(
                f"'{COLUMNS_READ.name}' does not work with a table of the catalog.",
                hint="Select the columns in the query.",
            )

    def _filterable(self) -> Schema:
        return self._info.schema if self._is_real else schema_of(self._table.schema)

    # ---- writing

    def new_write_builder(self, info: JavaObject) -> java.Proxy:
        """Spark's own builder for this table."""
        known = _of(self._options, spark_options.SINK_OPTIONS)
        given = {**known, **texts_of(info.options()), spark_options.TABLE.name: self._table.name}
        told = self._jvm.named(java.WRITE_INFO)(
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
            is_partial=spark_options.PARTIAL_UPDATE.required(
                spark_options.given_options(given, spark_options.SINK_OPTIONS)
            ),
        )
        return builder.proxy(*self._write_interfaces())

    def _write_interfaces(self) -> tuple[str, ...]:
        # With a primary key, updates of a stream are written like appends.
        return (java.UPDATES_AS_APPENDS,) if self._table.is_keyed else ()

    # ---- deleting

    def can_delete_where(self, predicates: Sequence[JavaObject]) -> bool:
        """Return true, or raise why the rows cannot be deleted, before any is."""
        filters.keys_of(self._wanted(predicates), self._table.info.schema.primary_key)
        return True

    def delete_where(self, predicates: Sequence[JavaObject]) -> None:
        """Delete the rows whose keys are named."""
        keys = filters.keys_of(self._wanted(predicates), self._table.info.schema.primary_key)
        if keys:
            self._table.delete(keys)

    def _wanted(self, predicates: Sequence[JavaObject]) -> filters.Branches | None:
        wanted: filters.Branches | None = filters.EVERYTHING
        for predicate in predicates:
            expression = filters.read_predicate(predicate)
            branches = (
                None
                if expression is None
                else filters.branches_of_predicate(expression, self._filterable())
            )
            if branches is None or wanted is None:
                return None
            wanted = filters.both(wanted, branches)
        return wanted

    def truncate_table(self) -> bool:
        """Raise: a table cannot be emptied."""
        raise UnsupportedError(
            f"{self._name} cannot be truncated.", hint="Drop the table and create it again."
        )

    # ---- partitions

    def partition_schema(self) -> JavaObject:
        """The partition columns, whose values are text here."""
        return self._partitions().schema()

    def create_partition(self, row: JavaObject, _properties: JavaObject) -> None:
        """Create a partition."""
        self._partitions().create(row)

    def drop_partition(self, row: JavaObject) -> bool:
        """Drop a partition; return whether it existed."""
        return self._partitions().drop(row)

    def list_partition_identifiers(self, names: Sequence[str], row: JavaObject) -> JavaObject:
        """The partitions that have these values."""
        return self._partitions().matching(names, row)

    def load_partition_metadata(self, _row: JavaObject) -> JavaObject:
        """Empty: a partition has no properties."""
        return self._jvm.mapping({})

    def replace_partition_metadata(self, _row: JavaObject, _properties: JavaObject) -> None:
        """Raise: a partition has no properties."""
        raise UnsupportedError("A partition has no properties.")

    def _partitions(self) -> SparkPartitions:
        return SparkPartitions(self._jvm, self._table)


class NewTable(CatalogTable):
    """A table made by CREATE TABLE AS SELECT, visible to others before its rows are there."""

    def __init__(
        self,
        jvm: java.Jvm,
        table: Table,
        *,
        catalog: str,
        options: Mapping[str, str],
        client: Client,
    ) -> None:
        super().__init__(jvm, table, catalog=catalog, options=options)
        self._client = client

    def capabilities(self) -> JavaObject:
        """Like all tables, plus that CREATE OR REPLACE may empty it first."""
        names = (*_READS, *_WRITES, "TRUNCATE")
        return self._jvm.kept(("capabilities", names), lambda: self._capabilities(names))

    def _write_interfaces(self) -> tuple[str, ...]:
        return (java.TRUNCATES,)

    def commit_staged_changes(self) -> None:
        """Leave the table as it is."""

    def abort_staged_changes(self) -> None:
        """Drop the table."""
        self._client.drop_table(self._table.path, missing_ok=True)


def texts_of(mapping: JavaObject) -> dict[str, str]:
    """Read a map of the JVM."""
    return {} if mapping.isEmpty() else dict(mapping)


def _of(options: Mapping[str, str], declared: Iterable[Option[object]]) -> dict[str, str]:
    names = {option.name for option in declared}
    return {name: text for name, text in options.items() if name in names}
