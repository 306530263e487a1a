"""Make the tables of a storage known to Spark SQL: as a catalog, or as views over Connect."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from headwater.client.cursors.rows import CURSORS
from headwater.client.sync.client import Client
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.catalog.catalog import SparkCatalog
from headwater.engines.spark.catalog.jvm import Jvm, Proxy
from headwater.engines.spark.catalog.scan import register_source
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.source import FORMAT
from headwater.errors import ConflictError, UnsupportedError
from headwater.rows.columns import names


def views(
    spark: SparkSession,
    name: str = "hw",
    *,
    bootstrap_servers: str = spark_options.SERVERS_DEFAULT,
    databases: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> list[str]:
    """Create a temporary view of each table, named `hw_database_table`, and return the names.

    `databases` selects databases; by default all except the one that Headwater uses itself. The
    storage must be reachable from here and from Spark under the same address. A view shows the rows
    that exist when it is first used; call this again to see newer ones, and new tables. Views of
    dropped tables stay and fail. Streams are read by `read_stream`.
    """
    given = {spark_options.SERVERS.name: bootstrap_servers, **(options or {})}
    client = SparkConnection.of(
        spark_options.given_options(given, spark_options.SOURCE_OPTIONS)
    ).client(waits=False)
    tables = _tables(client, _databases(client) if databases is None else names(databases))
    made = {path: view_name(name, path) for path in tables}
    _check_different(made)
    for path, view in made.items():
        rows = spark.read.format(FORMAT).options(**given).load(path)
        rows.createOrReplaceTempView(f"`{view}`")
    return list(made.values())


def view_name(name: str, path: str) -> str:
    """The name of a table's view."""
    return "_".join((*filter(None, (name,)), *path.split(".")))


def _databases(client: Client) -> list[str]:
    return [database for database in client.list_databases() if database != CURSORS.database]


def _tables(client: Client, databases: Sequence[str]) -> list[str]:
    return [
        f"{database}.{table}"
        for database in sorted(databases)
        for table in sorted(client.list_tables(database))
    ]


def _check_different(made: Mapping[str, str]) -> None:
    # Spark ignores the case of names.
    counts = Counter(view.lower() for view in made.values())
    same = [path for path, view in made.items() if counts[view.lower()] > 1]
    if same:
        raise ConflictError(
            f"The views of {' and '.join(same[:2])} would have the same name.",
            hint="Create them separately: databases=[…] with another name for each.",
        )


# The catalog.

# It uses Spark internals, so a version is added here once it is tested.
VERSIONS = ("4.2", "4.3")
_DECLARED = {
    option.name: option for option in (*spark_options.SOURCE_OPTIONS, *spark_options.SINK_OPTIONS)
}


def catalog(
    spark: SparkSession,
    name: str = "hw",
    *,
    bootstrap_servers: str = spark_options.SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make tables usable in a Spark session as `name.database.table`.

    A session derived from this one, such as that of `foreachBatch`, needs a call of its own; a
    second call with the same name replaces the first. Over Spark Connect, and with a Spark that is
    not among `VERSIONS`, each table becomes a view `name_database_table`, with a warning.
    """
    given = spark_options.given_options(
        {spark_options.SERVERS.name: bootstrap_servers, **(options or {})}, _DECLARED.values()
    )
    if (reason := why_views(spark)) is not None:
        shown = view_name(name, "database.table")
        warnings.warn(f"{reason} Each table becomes a view `{shown}` instead.", stacklevel=2)
        read = {option.name for option in spark_options.SOURCE_OPTIONS}
        views(
            spark,
            name,
            bootstrap_servers=bootstrap_servers,
            options={each: text for each, text in given.items() if each in read},
        )
        return
    # An unreachable server is reported here, not by the first query.
    SparkConnection.of(given).client(waits=False)
    _listen(spark)
    jvm = Jvm(spark)
    register_source(jvm)
    made = SparkCatalog(jvm, name, options=given)
    _catalogs(jvm).put(name, Proxy(jvm, made, SparkCatalog.interfaces))


def why_views(spark: SparkSession) -> str | None:
    """Say why a session cannot have a catalog; None if it can."""
    if not hasattr(spark, "_jsparkSession"):
        return "Spark Connect gives no access to the catalogs of its server."
    version = ".".join(spark.version.split(".")[:2])
    if version not in VERSIONS:
        return f"The catalog is not tested with Spark {version}, but with {' and '.join(VERSIONS)}."
    return None


def _listen(spark: SparkSession) -> None:
    """Let the JVM call Python; the threads that answer it end with the process."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - the only door to the JVM
    assert gateway is not None
    gateway.callback_server_parameters.propagate_java_exceptions = True
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]


def _catalogs(jvm: Jvm) -> JavaObject:
    """The catalogs of a session by name; Spark fills it from Java class names."""
    manager = jvm.session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001
    for field in manager.getClass().getDeclaredFields():
        if field.getName().endswith("catalogs"):
            field.setAccessible(True)
            return field.get(manager)
    raise UnsupportedError("This Spark keeps its catalogs elsewhere.")
