"""Temporary views of all tables, for SQL where there is no catalog: over Spark Connect."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from headwater.client.column_names import names
from headwater.client.cursors.rows import CURSORS
from headwater.client.sync.client import Client
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.options import SERVERS, SERVERS_DEFAULT, SOURCE_OPTIONS, given_options
from headwater.engines.spark.source import FORMAT
from headwater.errors import ConflictError


def views(
    spark: SparkSession,
    name: str = "hw",
    *,
    bootstrap_servers: str = SERVERS_DEFAULT,
    databases: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> list[str]:
    """Make a temporary view of each table, called `hw_database_table`, and return their names.

    `databases` names those whose tables are wanted, otherwise all but the one in which Headwater
    keeps tables for itself. The storage has to be reached from here and from Spark under the same
    address. A view shows the rows that are there when it is first used; call this again to see
    newer ones, and tables that were added. Views of tables that were dropped stay and fail.
    Streams are read by `read_stream`.
    """
    given = {SERVERS.name: bootstrap_servers, **(options or {})}
    client = Connection.of(given_options(given, SOURCE_OPTIONS)).client(waits=False)
    tables = _tables(client, _databases(client) if databases is None else names(databases))
    made = {path: view_name(name, path) for path in tables}
    _check_different(made)
    for path, view in made.items():
        rows = spark.read.format(FORMAT).options(**given).load(path)
        rows.createOrReplaceTempView(f"`{view}`")
    return list(made.values())


def view_name(name: str, path: str) -> str:
    """Return the name of the view of a table."""
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
    # Spark does not tell names apart by their case.
    counts = Counter(view.lower() for view in made.values())
    same = [path for path, view in made.items() if counts[view.lower()] > 1]
    if same:
        raise ConflictError(
            f"The views of {' and '.join(same[:2])} would have the same name.",
            hint="Make them apart: databases=[…] with another name for each.",
        )
