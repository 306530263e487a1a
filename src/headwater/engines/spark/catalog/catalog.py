"""The catalog that Spark SQL asks for databases and tables."""

import json
from collections.abc import Mapping, Sequence

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql.types import StructType

from headwater import errors
from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.cluster.paths import DEFAULT_DATABASE
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.catalog import jvm as java
from headwater.engines.spark.catalog.definition import alter, creation_of, read_clauses
from headwater.engines.spark.catalog.filters import items
from headwater.engines.spark.catalog.table import CatalogTable, NewTable, texts_of
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.read.view import viewed
from headwater.engines.spark.source_options import SourceOptions
from headwater.model import TableInfo

_MICROS_PER_MILLI = 1000


class SparkCatalog:
    """Answers Spark SQL about the databases and tables of a storage."""

    interfaces = (java.STAGING_CATALOG, java.NAMESPACES)

    def __init__(self, jvm: java.Jvm, name: str, *, options: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._name = name
        self._options = options
        self._connection = SparkConnection.of(options)

    def __str__(self) -> str:
        return f"{self._name} at {', '.join(self._connection.servers)}"

    @property
    def _client(self) -> Client:
        return self._connection.client(waits=False)

    # ---- what it is

    def initialize(self, _name: str, _options: JavaObject) -> None:
        """Do nothing: it was made with a name and options."""

    def name(self) -> str:
        """Name of the catalog."""
        return self._name

    def default_namespace(self) -> JavaObject:
        """The database that is used by default."""
        return self._jvm.texts([DEFAULT_DATABASE])

    def capabilities(self) -> JavaObject:
        """Tables can have a PRIMARY KEY."""
        return self._jvm.kept("catalog capabilities", self._capabilities)

    def _capabilities(self) -> JavaObject:
        found = self._jvm.named("java.util.HashSet")()
        found.add(self._jvm.named(java.CATALOG_CAPABILITY).SUPPORT_TABLE_CONSTRAINT)
        return found

    def table_state_option_keys(self) -> JavaObject:
        """No read option turns a table into another one."""
        return self._jvm.kept("no option keys", self._jvm.named("java.util.HashSet"))

    # ---- databases

    def list_namespaces(self, parent: Sequence[str] = ()) -> JavaObject:
        """The databases; a database contains only tables."""
        if len(parent):
            self._check_database(parent)
            return self._jvm.text_lists([])
        return self._jvm.text_lists([[name] for name in self._client.list_databases()])

    def namespace_exists(self, namespace: Sequence[str]) -> bool:
        """Tell whether a database exists."""
        return len(namespace) == 1 and namespace[0] in self._client.list_databases()

    def load_namespace_metadata(self, namespace: Sequence[str]) -> JavaObject:
        """No metadata, but raises if the database does not exist."""
        self._check_database(namespace)
        return self._jvm.mapping({})

    def create_namespace(self, namespace: Sequence[str], properties: JavaObject) -> None:
        """Create a database."""
        given = texts_of(properties)
        comment = given.pop("comment", None)
        given.pop("owner", None)
        try:
            self._client.create_database(_only(namespace), comment=comment, properties=given)
        except errors.DatabaseExistsError as fault:
            raise self._thrown(java.NAMESPACE_EXISTS, namespace) from fault

    def alter_namespace(self, namespace: Sequence[str], _changes: JavaObject) -> None:
        """Raise: a database cannot be changed."""
        raise errors.UnsupportedError(f"The database {_only(namespace)} cannot be altered.")

    def drop_namespace(self, namespace: Sequence[str], cascade: bool) -> bool:  # noqa: FBT001 - Java's
        """Drop a database, and with `cascade` the tables in it."""
        try:
            self._client.drop_database(_only(namespace), cascade=cascade)
        except errors.DatabaseMissingError as fault:
            raise self._thrown(java.NO_NAMESPACE, namespace) from fault
        except errors.DatabaseNotEmptyError as fault:
            raise self._thrown(java.NAMESPACE_NOT_EMPTY, namespace) from fault
        return True

    def _check_database(self, namespace: Sequence[str]) -> None:
        if not self.namespace_exists(namespace):
            raise self._thrown(java.NO_NAMESPACE, namespace)

    # ---- tables

    def list_tables(self, namespace: Sequence[str]) -> JavaObject:
        """List the tables of a database."""
        return self._jvm.array(java.IDENTIFIER, self._identifiers(namespace))

    def list_table_summaries(self, namespace: Sequence[str]) -> JavaObject:
        """List the tables of a database with their kind."""
        summary = self._jvm.named(java.TABLE_SUMMARY)
        found = [summary.of(each, "MANAGED") for each in self._identifiers(namespace)]
        return self._jvm.array(java.TABLE_SUMMARY, found)

    def _identifiers(self, namespace: Sequence[str]) -> list[JavaObject]:
        try:
            names = self._client.list_tables(_only(namespace))
        except errors.DatabaseMissingError as fault:
            raise self._thrown(java.NO_NAMESPACE, namespace) from fault
        identifier = self._jvm.named(java.IDENTIFIER)
        return [identifier.of(namespace, name) for name in names]

    def table_exists(self, identifier: JavaObject) -> bool:
        """Tell whether a table exists."""
        try:
            self._table(identifier)
        except Py4JJavaError:
            return False
        return True

    def load_table(self, identifier: JavaObject, as_of: object = None) -> java.Proxy:
        """Load a table, as it is or as it was.

        A moment comes in microseconds since 1970, a version as text: the id of a lake snapshot, or
        a token. Anything else are the privileges that a writer asks for, which the server checks
        itself.
        """
        found = self._table(identifier)
        match as_of:
            case str():
                name = (
                    spark_options.SNAPSHOT_ID.name if as_of.isdigit() else spark_options.TOKEN.name
                )
                return self._past(found, {**self._options, name: as_of})
            case int():
                millis = str(as_of // _MICROS_PER_MILLI)
                return self._past(
                    found, {**self._options, spark_options.TIMESTAMP_MILLIS.name: millis}
                )
            case _:
                return self._shown(found, self._options)

    def _past(self, table: Table, options: Mapping[str, str]) -> java.Proxy:
        declared = {option.name for option in spark_options.SOURCE_OPTIONS}
        given = {name: text for name, text in options.items() if name in declared}
        read = SourceOptions.of({**given, spark_options.TABLE.name: table.name})
        return self._shown(table, options, past=viewed(read)[0].table)

    def _table(self, identifier: JavaObject) -> Table:
        try:
            return self._client.table(_path(identifier))
        except (
            errors.TableMissingError,
            errors.DatabaseMissingError,
            errors.InvalidNameError,
        ) as fault:
            raise self._thrown(java.NO_TABLE, identifier) from fault

    def _shown(
        self, table: Table, options: Mapping[str, str], *, past: TableInfo | None = None
    ) -> java.Proxy:
        shown = CatalogTable(self._jvm, table, catalog=self._name, options=options, past=past)
        return java.Proxy(self._jvm, shown, shown.interfaces())

    def invalidate_table(self, _identifier: JavaObject) -> None:
        """Do nothing: no table is cached."""

    # ---- changing them

    def use_nullable_query_schema(self) -> bool:
        """Make the columns of CREATE TABLE AS SELECT nullable, except for the key."""
        return True

    def create_table(self, identifier: JavaObject, info: JavaObject) -> java.Proxy:
        """Create a table."""
        return self._shown(self._created(identifier, info), self._options)

    def stage_create(self, identifier: JavaObject, info: JavaObject) -> java.Proxy:
        """Create a table that is dropped again if its first rows cannot be written."""
        table = self._created(identifier, info)
        made = NewTable(
            self._jvm, table, catalog=self._name, options=self._options, client=self._client
        )
        return java.Proxy(self._jvm, made, (java.STAGED_TABLE, *made.interfaces()))

    def stage_create_or_replace(self, identifier: JavaObject, info: JavaObject) -> java.Proxy:
        """Create a table, but replace none."""
        if self.table_exists(identifier):
            return self.stage_replace(identifier, info)
        return self.stage_create(identifier, info)

    def stage_replace(self, identifier: JavaObject, _info: JavaObject) -> java.Proxy:
        """Raise: its rows would be gone before the new ones are there."""
        raise errors.UnsupportedError(
            f"The table {self._table(identifier).name} cannot be replaced.",
            hint="Drop it first.",
        )

    def _created(self, identifier: JavaObject, info: JavaObject) -> Table:
        schema = StructType.fromJson(json.loads(info.schema().json()))
        clauses = read_clauses(info.partitions(), info.constraints())
        creation = creation_of(texts_of(info.properties()), clauses)
        try:
            return self._client.create_table(
                _path(identifier),
                schema,
                primary_key=creation.primary_key,
                partition_by=creation.partition_by,
                bucket_by=creation.bucket_by,
                buckets=creation.buckets,
                options=creation.options,
                comment=creation.comment,
            )
        except errors.TableExistsError as fault:
            raise self._thrown(java.TABLE_EXISTS, identifier) from fault
        except errors.DatabaseMissingError as fault:
            raise self._thrown(java.NO_NAMESPACE, identifier.namespace()) from fault

    def alter_table(self, identifier: JavaObject, changes: Sequence[JavaObject]) -> java.Proxy:
        """Change a table."""
        table = self._table(identifier)
        alter(table, changes)
        return self._shown(table, self._options)

    def drop_table(self, identifier: JavaObject) -> bool:
        """Drop a table; return whether it existed."""
        try:
            self._client.drop_table(_path(identifier))
        except (errors.TableMissingError, errors.DatabaseMissingError, errors.InvalidNameError):
            return False
        return True

    def rename_table(self, old: JavaObject, _new: JavaObject) -> None:
        """Raise: a table cannot be renamed."""
        raise errors.UnsupportedError(
            f"The table {_path(old)} cannot be renamed.",
            hint="Create the new table AS SELECT from it.",
        )

    def _thrown(self, kind: str, *arguments: object) -> Py4JJavaError:
        return Py4JJavaError(kind, self._jvm.named(kind)(*arguments))


def _only(namespace: Sequence[str]) -> str:
    return ".".join(namespace)


def _path(identifier: JavaObject) -> str:
    return ".".join((*items(identifier.namespace()), identifier.name()))
