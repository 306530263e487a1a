"""SQL over the tables of a caller, in DuckDB that can read nothing else and write nothing at all.

The union read is that of `headwater.duckdb`, with two differences. Rows of the lake come through
our own readers and not through DuckDB's, so that DuckDB needs no file: access to files, networks
and extensions is off, and cannot be turned on. And no other storage can be named. Statements that
are no queries are refused before they are bound.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import cast

import duckdb
import pyarrow as pa

from headwater.client.sync.client import Client
from headwater.client.sync.scan import View
from headwater.console.facts.rows import RowsTable
from headwater.engines.duckdb.install import install_closed, refresh
from headwater.errors import ConflictError, RequestError, TimedOutError
from headwater.runtime.clock import Clock

ALIAS = "hw"
SHOWN_ROWS_MAX = 1_000
EXPORT_ROWS_MAX = 1_000_000
QUERY_S_MAX = 30.0
QUERIES_MAX = 4
"""Queries that run at once, for all callers together."""
IDLE_MAX = 8
"""Connections of callers that are kept for their next query."""
TEXT_MAX = 100_000
MEMORY = "1GB"
THREADS = 2
_BATCH_ROWS = 2048
_LEAD = re.compile(r"\s*explain(?:\s+analyze)?\b", re.IGNORECASE)


class QueryFaultError(RequestError):
    """DuckDB refused a query, or could not run it."""

    code = -1
    hint = "Correct the SQL; tables are DATABASE.TABLE."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """A table that a query read, and at which position."""

    database: str
    table: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """The answer to a query."""

    rows: RowsTable
    took_s: float
    reads: tuple[TableRead, ...]
    chart: str | None = None
    """What can be drawn: the kind of chart, if any."""


@dataclass(slots=True)
class _Opened:
    """A connection of one caller, used by one query at a time."""

    caller: str
    connection: duckdb.DuckDBPyConnection
    client: Client
    views: list[View] = field(default_factory=list)


class SqlDesk:
    """Runs queries of all callers, and cancels them; may be used by any number of threads."""

    def __init__(self, clock: Clock, *, seconds_max: float = QUERY_S_MAX) -> None:
        self._clock = clock
        self._seconds_max = seconds_max
        self._lock = Lock()
        self._idle: list[_Opened] = []
        self._running: dict[tuple[str, str], _Opened] = {}
        self._busy = 0

    def answer(self, caller: str, client: Client, text: str, *, name: str = "") -> SqlAnswer:
        """Run a query, and return its first rows."""
        began_s = self._clock.monotonic()
        with self._opened(caller, client, name) as opened:
            reader = self._reader(opened, text)
            rows = _first(reader, SHOWN_ROWS_MAX)
            reads = tuple(
                TableRead(database=view.path.database, table=view.path.table, token=view.token())
                for view in opened.views
            )
        return SqlAnswer(
            rows=rows,
            took_s=self._clock.monotonic() - began_s,
            reads=tuple(dict.fromkeys(reads)),
            chart=chart_of(rows),
        )

    def export(self, caller: str, client: Client, text: str, *, name: str = "") -> pa.Table:
        """Run a query, and return all its rows, up to a limit that is an error to exceed."""
        with self._opened(caller, client, name) as opened:
            reader, batches, count = self._reader(opened, text), [], 0
            for batch in reader:
                batches.append(batch)
                count += batch.num_rows
                if count > EXPORT_ROWS_MAX:
                    raise RequestError(
                        f"The answer has more than {EXPORT_ROWS_MAX:,} rows.",
                        hint="Add a LIMIT, or read it with headwater.duckdb.",
                    )
            return pa.Table.from_batches(batches, schema=reader.schema)

    def cancel(self, caller: str, name: str) -> bool:
        """Interrupt a query of a caller by the name that it was started with."""
        with self._lock:
            found = self._running.get((caller, name))
            if found is not None:
                found.connection.interrupt()
        return found is not None

    def running(self, caller: str) -> tuple[str, ...]:
        """Return the names of the queries of a caller that run."""
        with self._lock:
            return tuple(name for who, name in self._running if who == caller)

    def close(self) -> None:
        """Close all connections that no query uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.connection.close()

    @contextmanager
    def _opened(self, caller: str, client: Client, name: str) -> Iterator[_Opened]:
        """Lend a connection, interrupted when its time is over."""
        opened = self._begin(caller, client)
        is_late = False

        def interrupt() -> None:
            nonlocal is_late
            is_late = True
            opened.connection.interrupt()

        with self._lock:
            self._running[caller, name] = opened
        timer = Timer(self._seconds_max, interrupt)
        timer.daemon = True
        timer.start()
        try:
            with _refused(lambda: is_late, self._seconds_max):
                yield opened
        finally:
            timer.cancel()
            self._end(opened, name)

    def _begin(self, caller: str, client: Client) -> _Opened:
        with self._lock:
            if self._busy >= QUERIES_MAX:
                raise ConflictError(
                    f"{QUERIES_MAX} queries are running.", hint="Cancel one, or wait for its end."
                )
            self._busy += 1
            # A caller who logged in anew has another client.
            fitting = (e for e in self._idle if e.caller == caller and e.client is client)
            found = next(fitting, None)
            if found is not None:
                self._idle.remove(found)
        try:
            found = found or _connected(caller, client)
        except BaseException:
            with self._lock:
                self._busy -= 1
            raise
        found.views.clear()
        return found

    def _end(self, opened: _Opened, name: str) -> None:
        with self._lock:
            self._busy -= 1
            self._running.pop((opened.caller, name), None)
            self._idle.append(opened)
            closing = self._idle.pop(0) if len(self._idle) > IDLE_MAX else None
        if closing is not None:
            closing.connection.close()

    def _reader(self, opened: _Opened, text: str) -> pa.RecordBatchReader:
        statement = checked(opened.connection, text)
        try:
            return _run(opened, statement)
        except duckdb.CatalogException:
            # A table that was made since: it gets a view, and the query a second chance.
            refresh(opened.connection, alias=ALIAS)
            opened.views.clear()
            return _run(opened, statement)


def _connected(caller: str, client: Client) -> _Opened:
    connection = duckdb.connect(
        config={"threads": THREADS, "memory_limit": MEMORY, "autoinstall_known_extensions": "false"}
    )
    try:
        views: list[View] = []
        install_closed(connection, client, alias=ALIAS, seen=views.append)
        return _Opened(caller, connection, client, views)
    except BaseException:
        connection.close()
        raise


def checked(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """Return the one query of a text, or say why it is none."""
    if len(text) > TEXT_MAX:
        raise RequestError(f"The SQL is longer than {TEXT_MAX:,} characters.")
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise RequestError(f"There are {len(statements)} statements, and one query is run at once.")
    statement = statements[0]
    if statement.type == duckdb.StatementType.EXPLAIN:
        inner = connection.extract_statements(_LEAD.sub("", statement.query, count=1))
        is_query = [each.type for each in inner] == [duckdb.StatementType.SELECT]
    else:
        is_query = statement.type == duckdb.StatementType.SELECT
    if not is_query:
        kind = statement.type.name.replace("_", " ")
        raise RequestError(
            f"This console only runs queries, and this is a statement {kind}.",
            hint="Use SELECT, WITH, FROM, DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN.",
        )
    return statement


def _run(opened: _Opened, statement: duckdb.Statement) -> pa.RecordBatchReader:
    # None if there are no rows, whatever the types say.
    found = cast("duckdb.DuckDBPyRelation | None", opened.connection.sql(statement.query))
    if found is None:
        raise RequestError("This statement has no answer.", hint="Write a query.")
    return found.to_arrow_reader(_BATCH_ROWS)


@contextmanager
def _refused(is_late: Callable[[], bool], seconds_max: float) -> Iterator[None]:
    """Turn errors of DuckDB into ours."""
    try:
        yield
    except duckdb.InterruptException:
        if is_late():
            raise TimedOutError(
                f"The query was stopped after {seconds_max:g} s.",
                hint="Read less: filter, aggregate, or add a LIMIT.",
            ) from None
        raise RequestError("The query was cancelled.", hint="Run it again if you want.") from None
    except (duckdb.Error, pa.ArrowException) as fault:
        raise QueryFaultError(str(fault).strip()) from None


def _first(reader: pa.RecordBatchReader, most: int) -> RowsTable:
    rows: list[tuple[object, ...]] = []
    note = ""
    for batch in reader:
        taken = batch.slice(0, most - len(rows))
        rows += zip(*(column.to_pylist() for column in taken.columns), strict=True)
        if len(rows) >= most:
            note = f"The first {most:,} rows; export the answer to get all."
            break
    columns = tuple((each.name, str(each.type)) for each in reader.schema)
    return RowsTable(columns, tuple(rows), note)


# Charts, completion.

_NUMBERS = ("int", "uint", "float", "double", "decimal")
_MOMENTS = ("timestamp", "date")


def chart_of(rows: RowsTable) -> str | None:
    """Say how an answer can be drawn: lines over a moment or number, or bars by a text."""
    if len(rows.columns) < 2 or len(rows.rows) < 2:  # noqa: PLR2004 - a chart has two axes
        return None
    kinds = [kind for _, kind in rows.columns]
    if not any(kind.startswith(_NUMBERS) for kind in kinds[1:]):
        return None
    if kinds[0].startswith(_MOMENTS):
        return "time"
    return "number" if kinds[0].startswith(_NUMBERS) else "bars"


@dataclass(frozen=True, slots=True)
class SqlWords:
    """What can be completed: tables, and the columns of those that a text names."""

    tables: tuple[str, ...]
    columns: tuple[str, ...]


def words_for(client: Client, names: dict[str, list[str]], text: str) -> SqlWords:
    """Collect names of tables, and columns of tables that are in a text already."""
    paths = [f"{database}.{table}" for database in sorted(names) for table in names[database]]
    bare = text.replace('"', "").lower()
    named = [path for path in paths if path.lower() in bare][:8]
    columns = dict.fromkeys(name for path in named for name in client.table(path).schema.names)
    return SqlWords(tuple(paths[:2000]), tuple(columns))
