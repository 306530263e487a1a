"""Making the tables of a storage known to Spark SQL under the name of a catalog."""

import warnings
from collections.abc import Mapping

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from headwater.engines.spark.catalog.catalog import Catalog
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.catalog.proxy import Proxy
from headwater.engines.spark.catalog.python_source import register_source
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.options import (
    SERVERS,
    SERVERS_DEFAULT,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    given_options,
)
from headwater.engines.spark.views import view_name, views
from headwater.errors import UnsupportedError

# The catalog reaches into Spark, so that a version is named here once it is tested.
VERSIONS = ("4.2", "4.3")
_DECLARED = {option.name: option for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)}


def catalog(
    spark: SparkSession,
    name: str = "hw",
    *,
    bootstrap_servers: str = SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make tables usable in a session of Spark as `name.database.table`.

    A session that is made from this one, such as that of `foreachBatch`, needs a call of its
    own; a second call for the same name replaces the first. Over Spark Connect, and with a
    Spark that is not among `VERSIONS`, each table becomes a view `name_database_table`, with a
    warning.
    """
    given = given_options({SERVERS.name: bootstrap_servers, **(options or {})}, _DECLARED.values())
    if (reason := why_views(spark)) is not None:
        shown = view_name(name, "database.table")
        warnings.warn(f"{reason} Each table is a view `{shown}` instead.", stacklevel=2)
        read = {option.name for option in SOURCE_OPTIONS}
        views(
            spark,
            name,
            bootstrap_servers=bootstrap_servers,
            options={each: text for each, text in given.items() if each in read},
        )
        return
    # A server that cannot be reached is said here, and not by the first query.
    Connection.of(given).client(waits=False)
    _listen(spark)
    jvm = Jvm(spark)
    register_source(jvm)
    made = Catalog(jvm, name, options=given)
    _catalogs(jvm).put(name, Proxy(jvm, made, Catalog.interfaces))


def why_views(spark: SparkSession) -> str | None:
    """Say why a session cannot have a catalog, or return None if it can."""
    if not hasattr(spark, "_jsparkSession"):
        return "Spark Connect has no door to the catalogs of its server."
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
    """Return the catalogs of a session by name; Spark fills it from class names, all of Java."""
    manager = jvm.session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001
    for field in manager.getClass().getDeclaredFields():
        if field.getName().endswith("catalogs"):
            field.setAccessible(True)
            return field.get(manager)
    raise UnsupportedError("This Spark keeps its catalogs elsewhere.")
