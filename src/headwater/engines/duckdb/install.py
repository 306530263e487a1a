"""Install a storage into a connection of DuckDB: its functions, macros and views."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

import duckdb
from duckdb.func import FunctionNullHandling

from headwater.client.sync.client import Client
from headwater.client.sync.scan import View
from headwater.engines.duckdb.catalog import Views, offsets_sql, snapshots_sql, tables_sql
from headwater.engines.duckdb.planner import SqlPlanner, Storages
from headwater.engines.duckdb.request import table_asked, tables_asked
from headwater.engines.duckdb.sql import list_sql, name_sql
from headwater.engines.duckdb.streams import NumberedStreams, Relations, hinted
from headwater.engines.storages import StoragePlace
from headwater.errors import HeadwaterError, RequestError

# Without the storage, which comes first, the others move up: see `Places`.
_PLACES = ("bootstrap", "database", '"table" := NULL')
_POSITION = (
    "mode := 'union'",
    "as_of := NULL",
    "token := NULL",
    "snapshot_id := NULL",
    "from_offsets := NULL",
    "to_offsets := NULL",
    "from_ts := NULL",
    "to_ts := NULL",
)


def function_name(alias: str, what: str) -> str:
    """Return what the function behind a macro is called."""
    return f"__{alias}_{what}"


def macros(alias: str, *, home: str, is_temporary: bool = False) -> list[str]:
    """Return what creates the macros in a place, such as `hw.main.`; an empty one is right here."""
    create = f"CREATE OR REPLACE {'TEMP ' if is_temporary else ''}MACRO {home}"
    return [
        create + _macro("fluss_read", function_name(alias, "plan"), (*_PLACES, *_POSITION)),
        create + _macro("fluss_tables", function_name(alias, "tables"), ("bootstrap := NULL",)),
        create + _macro("fluss_offsets", function_name(alias, "offsets"), _PLACES),
        create + _macro("fluss_snapshots", function_name(alias, "snapshots"), _PLACES),
    ]


def _macro(name: str, function: str, parameters: tuple[str, ...]) -> str:
    arguments = [parameter.split()[0] for parameter in parameters]
    named = ", ".join(f"'{argument.strip(chr(34))}': {argument}" for argument in arguments)
    # What no argument tells: how times without a zone are meant, and which query this is.
    told = "'zone': current_setting('TimeZone'), 'query': current_query_id()"
    call = f"{name_sql(function)}(CAST(to_json({{{named}, {told}}}) AS VARCHAR))"
    return f"{name}({', '.join(parameters)}) AS TABLE SELECT * FROM query({call})"


# Making a connection to DuckDB ready for tables.

ALIAS = "hw"
_TEXT = "VARCHAR"


def install(
    con: duckdb.DuckDBPyConnection,
    at: StoragePlace | None = None,
    *,
    alias: str = ALIAS,
    lake: Mapping[str, str] | None = None,
) -> None:
    """Teach DuckDB to read tables, as lake and log make them together at the moment of a query.

    With `at`, an address, a data directory or a client, the tables of that storage are views of
    the catalog `alias`: `FROM hw.database.table`. With or without,
    `fluss_read('host:port', 'database', 'table')` reads a table of any storage, and
    `fluss_read('database', 'table')` one of the installed storage. `lake` holds options of the
    lake's catalog above those that the server tells. The connection has to stay open for as long
    as its cursors read.
    """
    storages = Storages(at, lake)
    if at is not None:
        storages.of(None)
    _install(con, storages, alias=alias, has_views=at is not None)


def install_closed(
    con: duckdb.DuckDBPyConnection,
    client: Client,
    *,
    alias: str = ALIAS,
    seen: Callable[[View], None],
) -> None:
    """Install the tables of a client, and close the connection to everything else for good.

    For queries of people who must reach nothing but these tables: no file, no network, no
    extension, no variable of this program, no other storage. `seen` is told of every view that is
    read. DATABASE.TABLE is found without the name of the catalog.
    """
    _install(con, Storages(client, None, is_closed=True), alias=alias, has_views=True, seen=seen)
    con.execute(f"USE {name_sql(alias)}.main")
    # The one file that plans name: it is never opened, see `nothing`.
    con.execute(f"SET allowed_paths = {list_sql([os.devnull])}")
    for setting in ("python_enable_replacements", "enable_external_access"):
        con.execute(f"SET {setting} = false")
    con.execute("SET lock_configuration = true")


def _install(
    con: duckdb.DuckDBPyConnection,
    storages: Storages,
    *,
    alias: str,
    has_views: bool,
    seen: Callable[[View], None] | None = None,
) -> None:
    streams = NumberedStreams()
    relations = Relations(con, streams, alias=alias)
    planner = SqlPlanner(storages, relations, streams, seen=seen)
    views = Views(planner, storages, relations, alias=alias)
    functions: dict[str, Callable[[str], str]] = {
        "plan": planner.plan,
        "tables": _listing(storages, planner, _tables),
        "offsets": _listing(storages, planner, _offsets),
        "snapshots": _listing(storages, planner, _snapshots),
        "refresh": lambda _: str(views.refresh()),
    }
    _attach(con, alias)
    for name, function in functions.items():
        _create_function(con, function_name(alias, name), function)
    with planner.describing():  # A macro without arguments is planned when it is made.
        _create_macros(con, alias)
    if has_views:
        views.refresh()


def refresh(con: duckdb.DuckDBPyConnection, *, alias: str = ALIAS) -> None:
    """Bring the catalog of views up to date with the tables that there are.

    DuckDB cannot ask for a table that it does not know: one that was made since is a view after
    this. `fluss_read` finds it at once, and views follow the columns of their tables by themselves.
    """
    with con.cursor() as cursor:
        cursor.execute(f"SELECT {name_sql(function_name(alias, 'refresh'))}('')").fetchall()


def _attach(con: duckdb.DuckDBPyConnection, alias: str) -> None:
    """Attach the home of macros and views, in the place of one that was installed before."""
    with con.cursor() as cursor:
        there = cursor.execute(
            "SELECT path FROM duckdb_databases() WHERE lower(database_name) = lower(?)", [alias]
        ).fetchall()
        is_ours = cursor.execute(
            "SELECT 1 FROM duckdb_functions() WHERE function_name = ?",
            [function_name(alias, "plan")],
        ).fetchall()
        if there and not is_ours:
            raise RequestError(
                f"DuckDB already has a database '{alias}' already.",
                hint="Give another name: install(con, at, alias='tables').",
            )
        # Beside a database that may only be read, memory is not writable unless it is said so.
        cursor.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {name_sql(alias)} (READ_WRITE)")


def _create_macros(con: duckdb.DuckDBPyConnection, alias: str) -> None:
    """Create the macros beside the views, and where cursors and this connection look first."""
    here = "SELECT current_database(), current_schema()"
    with con.cursor() as cursor:
        homes = {(alias, "main"): True}
        for looking in (cursor, con):
            ((database, schema),) = looking.execute(here).fetchall()
            homes[database, schema] = _is_writable(cursor, database)
        for (database, schema), is_writable in homes.items():
            home = f"{name_sql(database)}.{name_sql(schema)}." if is_writable else ""
            for macro in macros(alias, home=home, is_temporary=not is_writable):
                (cursor if is_writable else con).execute(macro)


def _is_writable(cursor: duckdb.DuckDBPyConnection, database: str) -> bool:
    sql = "SELECT readonly FROM duckdb_databases() WHERE database_name = ?"
    return cursor.execute(sql, [database]).fetchall() == [(False,)]


def _create_function(
    con: duckdb.DuckDBPyConnection, name: str, function: Callable[[str], str]
) -> None:
    with suppress(duckdb.Error):  # There is none the first time.
        con.remove_function(name)
    con.create_function(
        name,
        function,
        [_TEXT],
        _TEXT,
        null_handling=FunctionNullHandling.SPECIAL,
        side_effects=True,
    )


def _listing(
    storages: Storages, planner: SqlPlanner, list_sql: Callable[[Storages, str], str]
) -> Callable[[str], str]:
    def listed(text: str) -> str:
        if planner.describes:
            return "SELECT NULL"
        try:
            return list_sql(storages, text)
        except HeadwaterError as fault:
            raise hinted(fault) from None

    return listed


def _tables(storages: Storages, text: str) -> str:
    return tables_sql(storages.of(tables_asked(text)))


def _offsets(storages: Storages, text: str) -> str:
    asked = table_asked(text)
    return offsets_sql(storages.of(asked.bootstrap), asked.path)


def _snapshots(storages: Storages, text: str) -> str:
    asked = table_asked(text)
    return snapshots_sql(storages.of(asked.bootstrap), asked.path)
