"""Catalogs that Spark has itself, or gets from a jar: `iceberg`, `paimon` and `jdbc`.

`CREATE CATALOG` becomes settings of the Spark session, and tables are read and written by name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from headwater.cluster.schema_in import columns_of_struct
from headwater.config.values import TEXT, Option
from headwater.errors import MissingError, UnsupportedError
from headwater.model.type_text import type_text
from headwater.pipelines.catalogs.spi import TableText, cannot_alter, no_views
from headwater.pipelines.connectors.console import triggered
from headwater.pipelines.connectors.spi import Connector, ConnectorTable, StreamStart
from headwater.pipelines.sql.names import DeclaredTable, DeclaredView, TableName
from headwater.pipelines.sql.statements import (
    AddTableColumns,
    DropTableColumns,
    Options,
    PhysicalColumn,
    RenameTable,
    RenameTableColumn,
    ResetTableOptions,
    SetTableOptions,
    TableChange,
    TableDefinition,
)
from headwater.pipelines.tables import abilities, literal, name_text, quoted, struct_of

_TYPE = "type"
_DEFAULT = "default-database"
_KEY = "primary-key"
_TABLE = Option(name="table.name", kind=TEXT, description="The table, by its full name in Spark.")
# Type of the catalog -> its class, the jar that has it, and the newest Spark that it is made for.
CLASSES: Mapping[str, tuple[str, str, str]] = {
    "iceberg": (
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg:iceberg-spark-runtime",
        "The newest (1.12.0) is made for Spark 4.1, and does not run on 4.2 or 4.3. ",
    ),
    "paimon": (
        "org.apache.paimon.spark.SparkCatalog",
        "org.apache.paimon:paimon-spark",
        "The newest is made for Spark 4.0. ",
    ),
    "jdbc": (
        "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "Spark itself",
        "",
    ),
}
# How Java and Spark say that a class is missing.
_MISSING = ("ClassNotFoundException", "Cannot find catalog plugin class")
# What Flink calls an option -> what Spark calls it.
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "iceberg": {"catalog-type": _TYPE},
    "paimon": {},
    "jdbc": {"base-url": "url", "username": "user"},
}


def _read(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    return spark.table(table.options[_TABLE.name])


def _read_stream(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    return spark.readStream.table(table.options[_TABLE.name])


def _write(rows: DataFrame, table: ConnectorTable) -> None:
    rows.writeTo(table.options[_TABLE.name]).append()


def _overwrite(rows: DataFrame, table: ConnectorTable) -> None:
    rows.writeTo(table.options[_TABLE.name]).overwrite(f.lit(True))


def _write_stream(rows: DataFrame, table: ConnectorTable, start: StreamStart) -> StreamingQuery:
    writer = triggered(rows.writeStream.outputMode(start.mode.value), start)
    return writer.toTable(table.options[_TABLE.name])


OF_SPARK = Connector(
    name="spark",
    description="A table of a catalog of Spark.",
    options=(_TABLE,),
    required=(_TABLE.name,),
    read=_read,
    read_stream=_read_stream,
    write=_write,
    overwrite=_overwrite,
    write_stream=_write_stream,
)


@dataclass(frozen=True, slots=True)
class SparkTables:
    """Databases and tables of a catalog of Spark."""

    name: str
    options: Mapping[str, str]
    spark: SparkSession

    @classmethod
    def of(cls, name: str, options: Options, spark: SparkSession) -> "SparkTables":
        """Configure the catalog in the Spark session; raises if its jar is missing."""
        kind = options[_TYPE]
        class_name, _, _ = CLASSES[kind]
        _check_class(spark, kind)
        prefix = f"spark.sql.catalog.{name}"
        spark.conf.set(prefix, class_name)
        for key, text in options.items():
            if key not in (_TYPE, _DEFAULT):
                spark.conf.set(f"{prefix}.{_RENAMED[kind].get(key, key)}", text)
        made = cls(name, options, spark)
        made._check_server(kind, prefix)
        return made

    def _check_server(self, kind: str, setting: str) -> None:
        """Raise if the server of Spark Connect cannot load the catalog: only it can tell."""
        if hasattr(self.spark, "_jsparkSession"):
            return
        try:
            self.databases()
        except PySparkException as error:
            self.spark.conf.unset(setting)
            raise unusable(kind, str(error), version=self.spark.version) from None

    @property
    def default_database(self) -> str:
        """The database that `USE CATALOG` makes current."""
        return self.options.get(_DEFAULT, "default")

    def databases(self) -> Sequence[str]:
        """The names of all databases."""
        return self._column(f"SHOW NAMESPACES IN {quoted(self.name)}", "namespace")

    def create_database(self, name: str, *, comment: str | None, options: Options) -> None:
        """Create a database."""
        said = "" if comment is None else f" COMMENT {literal(comment)}"
        self._run(f"CREATE NAMESPACE {self._place(name)}{said}{_properties(options)}")

    def drop_database(self, name: str, *, is_cascade: bool) -> None:
        """Drop a database."""
        self._run(f"DROP NAMESPACE {self._place(name)}{' CASCADE' if is_cascade else ''}")

    def tables(self, database: str) -> Sequence[str]:
        """The names of all tables of a database."""
        return self._column(f"SHOW TABLES IN {self._place(database)}", "tableName")

    def views(self, database: str) -> Sequence[str]:
        """None: views of other catalogs are not shown here."""
        del database
        return ()

    def find(self, name: TableName) -> DeclaredTable | DeclaredView | None:
        """What has this name."""
        path = name_text(name)
        try:
            schema = self.spark.table(path).schema
        except AnalysisException:
            return None
        columns = columns_of_struct(json.loads(schema.json()))
        return DeclaredTable(
            name=name,
            columns=tuple(
                PhysicalColumn(name=c.name, type=c.type, comment=c.comment) for c in columns
            ),
            connector=OF_SPARK.name,
            options={_TABLE.name: path},
            hint_options=frozenset(),
            abilities=abilities(OF_SPARK, has_key=False),
        )

    def text(self, table: DeclaredTable) -> TableText:
        """What SHOW CREATE TABLE says of a table."""
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {name_text(table.name)}").collect()
        return TableText(options={row["key"]: row["value"] for row in rows})

    def create_table(self, name: TableName, definition: TableDefinition) -> None:
        """Create a table."""
        fields = struct_of(definition.columns)
        lines = ", ".join(
            f"{quoted(each.name)} {each.dataType.simpleString()}" for each in fields.fields
        )
        if len(fields) < len(definition.columns):
            raise UnsupportedError(
                f"{name} can only have columns with values of their own.",
                hint="Compute the others in a view.",
            )
        options = dict(definition.options)
        if definition.key:
            options[_KEY] = ",".join(definition.key)
        parts = ", ".join(map(quoted, definition.partitioned_by))
        by = f" PARTITIONED BY ({parts})" if parts else ""
        said = "" if definition.comment is None else f" COMMENT {literal(definition.comment)}"
        self._run(f"CREATE TABLE {name_text(name)} ({lines}){by}{said}{_table_properties(options)}")

    def drop_table(self, name: TableName) -> None:
        """Drop a table."""
        self._run(f"DROP TABLE {name_text(name)}")

    def alter_table(self, table: DeclaredTable, change: TableChange) -> None:
        """Change a table."""
        self._run(f"ALTER TABLE {name_text(table.name)} {_change_text(table, change)}")

    def put_view(self, view: DeclaredView) -> None:
        """Raise: views would be in another dialect there."""
        del view
        raise no_views(self.name)

    def drop_view(self, name: TableName) -> None:
        """Raise: views would be in another dialect there."""
        del name
        raise no_views(self.name)

    def partitions(self, table: DeclaredTable) -> Sequence[Mapping[str, str]]:
        """The partitions of a table, where Spark can list them."""
        rows = self.spark.sql(f"SHOW PARTITIONS {name_text(table.name)}").collect()
        texts = [str(row[0]) for row in rows]
        return [dict(part.split("=", 1) for part in text.split("/")) for text in texts]

    def _place(self, database: str) -> str:
        return f"{quoted(self.name)}.{quoted(database)}"

    def _column(self, statement: str, column: str) -> list[str]:
        return sorted(str(row[column]) for row in self.spark.sql(statement).collect())

    def _run(self, statement: str) -> None:
        self.spark.sql(statement)


def _check_class(spark: SparkSession, kind: str) -> None:
    if not hasattr(spark, "_jsparkSession"):
        return  # over Connect only the server knows
    jvm = spark._jvm  # noqa: SLF001 - the only door to the JVM
    assert jvm is not None
    name = CLASSES[kind][0]
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError as error:
        raise unusable(kind, str(error.java_exception.toString()), version=spark.version) from None


def unusable(kind: str, told: str, *, version: str) -> MissingError:
    """Make the error for a catalog whose class Java cannot load: it is missing, or does not fit."""
    name, jar, made_for = CLASSES[kind]
    if any(each in told for each in _MISSING) and name in told:
        said = f"Spark has no catalog of the type '{kind}': the class {name} is missing."
        way = f"Give Spark a jar of {jar} that is made for it: --spark spark.jars=/path/to/it.jar. "
    else:
        said = f"The jar of the catalog type '{kind}' does not fit Spark {version}: {told}."
        way = f"Use a jar of {jar} that is made for this Spark. "
    return MissingError(
        said,
        hint=f"{way}{made_for}To read the lake of Headwater's own tables, no jar is needed: use a "
        "catalog of the type 'fluss'.",
    )


def _properties(options: Options) -> str:
    return f" WITH DBPROPERTIES ({_pairs(options)})" if options else ""


def _table_properties(options: Options) -> str:
    return f" TBLPROPERTIES ({_pairs(options)})" if options else ""


def _pairs(options: Options) -> str:
    return ", ".join(f"{literal(key)} = {literal(text)}" for key, text in options.items())


def _change_text(table: DeclaredTable, change: TableChange) -> str:
    match change:
        case RenameTable(to=to):
            return f"RENAME TO {'.'.join(map(quoted, to))}"
        case SetTableOptions(options=options):
            return f"SET TBLPROPERTIES ({_pairs(options)})"
        case ResetTableOptions(keys=keys):
            return f"UNSET TBLPROPERTIES ({', '.join(map(literal, keys))})"
        case AddTableColumns(columns=columns):
            physical = [c.column for c in columns if isinstance(c.column, PhysicalColumn)]
            lines = ", ".join(f"{quoted(c.name)} {type_text(c.type)}" for c in physical)
            return f"ADD COLUMNS ({lines})"
        case DropTableColumns(columns=names):
            return f"DROP COLUMNS ({', '.join(map(quoted, names))})"
        case RenameTableColumn(column=old, to=new):
            return f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
        case _:
            raise cannot_alter(table, change, hint="Change it with the tools of its own catalog.")
