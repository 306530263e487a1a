"""SQL on DuckDB over the tables of a storage, run once or in a shell on a terminal."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

import duckdb
import pyarrow as pa

import headwater.duckdb
from headwater.cli import sql
from headwater.cli.command import CommandSession, note, write
from headwater.cli.commands import LinesError, tell
from headwater.cli.names import shown_databases
from headwater.cli.output import Output
from headwater.cli.pipelines.shell import Shell, ShellTexts
from headwater.cli.security.grants import GrantStatement, pieces_of
from headwater.cluster.paths import DEFAULT_DATABASE
from headwater.errors import RequestError
from headwater.runtime.clock import SystemClock

HELP = """\
End a statement with a semicolon. Tables are DATABASE.TABLE, each as it is at this moment, and are
only read here. A table or view of your own is made with CREATE TEMP, and gone when you leave.

  .tables            all tables
  .schema TABLE      the columns of a table
  .explain TABLE     what would be read of it, and from where
  .output FORM       table, json or csv
  .timer on|off      how long statements take
  .help              this text
  .quit              leave, as Ctrl-D does; Ctrl-C ends a statement

  select * from fluss_read('DATABASE', 'TABLE', as_of := now() - interval 1 hour);
  select * from fluss_snapshots('DATABASE', 'TABLE');
"""
_SHELL = ShellTexts(
    prompt="headwater> ",
    help=HELP,
    history="sql_history",
    is_complete=sql.is_complete,
    completions=sql.completions,
)


def table_in(text: str) -> str:
    """Strip quotes from a table name, as commands expect it."""
    return re.sub(r'"([^"]*)"', r"\1", text)


# Statements on DuckDB.

T = TypeVar("T")
ALIAS = "hw"
_OWN = "memory.main"
_BATCH_ROWS = 10_000
_UTC_OF_DUCKDB = "Etc/UTC"
# These statements name what they write to; others read, set something, or export to a file.
_WRITING = frozenset(
    {
        duckdb.StatementType.CREATE,
        duckdb.StatementType.INSERT,
        duckdb.StatementType.UPDATE,
        duckdb.StatementType.DELETE,
        duckdb.StatementType.MERGE_INTO,
        duckdb.StatementType.DROP,
        duckdb.StatementType.ALTER,
        duckdb.StatementType.COPY,
    }
)
_INSTEAD = {
    "CREATE TABLE": "headwater table create; for a table of this session: CREATE TEMP TABLE",
    "CREATE VIEW": "CREATE TEMP VIEW, for a view of this session",
    "CREATE SCHEMA": "headwater database create",
    "CREATE": "CREATE TEMP TABLE or CREATE TEMP VIEW, for this session",
    "INSERT": "headwater append, or headwater upsert for a table with a primary key",
    "COPY": "headwater append, or headwater upsert for a table with a primary key",
    "MERGE": "headwater upsert",
    "UPDATE": "headwater upsert",
    "DELETE": "headwater upsert --delete",
    "TRUNCATE": "headwater table drop, and headwater table create",
    "DROP SCHEMA": "headwater database drop",
    "DROP": "headwater table drop",
    "ALTER": "headwater table alter",
    "COMMENT": "headwater table create --comment",
}
_GREETING = "DuckDB {version} over {count} tables. '.help' lists the commands.\n"


class SqlError(LinesError):
    """DuckDB rejected a statement."""

    hint = "Check the statement; `.tables` and `describe TABLE` show what there is."


def run_sql(session: CommandSession, texts: Sequence[str] | None) -> None:
    """Run statements, or a shell if there are none."""
    client = session.client
    with duckdb.connect() as connection, ThreadPoolExecutor(1, "headwater-sql") as worker:
        headwater.duckdb.install(connection, client, alias=ALIAS)
        console = Console(connection, session, worker)
        if texts is None:
            count = len(console.tables())
            greeting = _GREETING.format(version=duckdb.__version__, count=count)
            Shell(console, lambda fault: tell(fault, debug=False), _SHELL).run(greeting)
            return
        for text in texts:
            console.run(text)


@dataclass(slots=True)
class Console:
    """Run statements and print their results."""

    connection: duckdb.DuckDBPyConnection
    session: CommandSession
    worker: ThreadPoolExecutor
    is_timed: bool = False
    _names: list[str] = field(default_factory=list)

    def run(self, text: str) -> None:
        """Run statements one after the other, each on the current tables."""
        for piece in pieces_of(text):
            if isinstance(piece, GrantStatement):
                changed = piece.run(self.session.client)
                note(f"{'granted' if piece.is_grant else 'revoked'} {changed}")
            else:
                self._query(piece)

    def _query(self, text: str) -> None:
        if sql.is_blank(text):
            return
        if hint := sql.hint_in(text):
            raise RequestError(
                f"DuckDB does not support hints, so {hint!r} would have no effect.",
                hint="Give a position with fluss_read('DATABASE', 'TABLE', as_of := ...), and "
                "settings with SET.",
            )
        clock = SystemClock()
        with _told(lambda: self._keywords_in(text)):
            statements = self.connection.extract_statements(text)
        for number, statement in enumerate(statements):
            if number and self.session.output is Output.TABLE:
                write("\n")
            begun = clock.monotonic()
            with _told(lambda: self._keywords_in(text)):
                self._interruptibly(self._refresh)
                self._interruptibly(partial(self._check_reads, statement))
                self._print(statement)
            if self.is_timed:
                note(f"{clock.monotonic() - begun:.3f} s")

    def _refresh(self) -> None:
        """Make tables visible that were created since the last statement."""
        headwater.duckdb.refresh(self.connection, alias=ALIAS)
        with self.connection.cursor() as cursor:
            rows = cursor.execute(
                "select schema_name from duckdb_schemas() where database_name = ? and not internal",
                [ALIAS],
            ).fetchall()
        found = sorted(
            (name for (name,) in rows), key=lambda name: (name != DEFAULT_DATABASE, name)
        )
        # New objects go to the first schema, which belongs to the session.
        path = ",".join([_OWN, *(f"{ALIAS}.{sql.quoted_name(name)}" for name in found)])
        self.connection.execute("set search_path = '{}'".format(path.replace("'", "''")))

    def _check_reads(self, statement: duckdb.Statement) -> None:
        """Reject a statement that seems to write to the storage, but would be lost at the end."""
        if statement.type not in _WRITING:
            return
        found = sql.write_in(statement.query)
        if found is None or found.is_temporary or found.name[0].lower() in self._own(found):
            return
        first = found.verb.split()[0]
        raise RequestError(
            f"headwater sql is read-only, and {found.verb} {'.'.join(found.name)} would write.",
            hint=f"Use: {_INSTEAD.get(found.verb) or _INSTEAD[first]}.",
        )

    def _own(self, found: sql.SqlWrite) -> set[str]:
        """List what may be written to: temporary tables, and attached databases."""
        query = (
            "select database_name from duckdb_databases() where not internal and database_name"
            " not in ('memory', ?)"
            if len(found.name) > 1
            else "select table_name from duckdb_tables() where temporary union all"
            " select view_name from duckdb_views() where temporary"
        )
        with self.connection.cursor() as cursor:
            # A cursor sees what others attached, but not their temporary tables.
            place = cursor if len(found.name) > 1 else self.connection
            given = [ALIAS] if len(found.name) > 1 else None
            return {name.lower() for (name,) in place.execute(query, given).fetchall()}

    def _print(self, statement: duckdb.Statement) -> None:
        # None if there are no rows, whatever the types say.
        found = cast(
            "duckdb.DuckDBPyRelation | None",
            self._interruptibly(lambda: self.connection.sql(statement.query)),
        )
        if found is None:
            return
        reader = self._interruptibly(lambda: found.to_arrow_reader(_BATCH_ROWS))
        count = self.session.rows(reader.schema, map(_shown, self._batches(reader)))
        if self.session.output is Output.TABLE and not count:
            note("no rows")

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while (batch := self._interruptibly(lambda: next(reader, None))) is not None:
            yield batch

    def _interruptibly(self, work: Callable[[], T]) -> T:
        """Run DuckDB on another thread, so that Ctrl-C is handled meanwhile.

        DuckDB checks for signals only now and then, and not at all while rows are fetched.
        """
        future = self.worker.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.connection.interrupt()
            future.exception()
            raise

    def _keywords_in(self, text: str) -> str:
        """Say which columns need quotes because their names are keywords."""
        columns = (name.strip('"') for name in self.names() if name.startswith('"'))
        names = [name for name in columns if name in sql.RESERVED]
        bare = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", " ", text)
        found = [name for name in names if re.search(rf"\b{name}\b", bare, re.IGNORECASE)]
        quoted = " and ".join(f'"{name}"' for name in found)
        one = "is a keyword" if len(found) == 1 else "are keywords"
        return f"The column {quoted} {one}: write it in double quotes." if found else ""

    # ---- commands of the shell

    def command(self, name: str, arguments: Sequence[str]) -> bool:
        """Run a command that starts with a dot."""
        match name, *arguments:
            case [".tables"]:
                write("".join(f"{table}\n" for table in self.tables()))
            case [".schema", table]:
                self.run(f"describe {_named(table)}")
            case [".explain", table]:
                scan = self.session.client.table(table_in(table)).scan()
                write(f"{scan.explain()}\n")
            case [".output", form]:
                self._show_as(form)
            case [".timer", "on" | "off" as wanted]:
                self.is_timed = wanted == "on"
            case [".schema" | ".explain" | ".output" | ".timer", *_]:
                raise RequestError(f"{name} needs an argument.", hint="See .help")
            case _:
                return False
        return True

    def _show_as(self, form: str) -> None:
        if form not in list(Output):
            raise RequestError(
                f"There is no output format {form!r}.", hint=f"Say {', '.join(Output)}."
            )
        self.session = replace(self.session, output=Output(form))

    def tables(self) -> list[str]:
        """List the tables as they are typed."""
        client = self.session.client
        return [
            f"{sql.quoted_name(database)}.{sql.quoted_name(name)}"
            for database in sorted(shown_databases(client))
            for name in sorted(client.list_tables(database))
        ]

    def names(self) -> Iterable[str]:
        """List what may be typed: tables, databases, columns of tables, functions of ours."""
        if not self._names:
            self._refresh()
            cursor = self.connection.cursor()
            rows = cursor.execute(
                "select distinct column_name from information_schema.columns where table_catalog"
                " = ?",
                [ALIAS],
            ).fetchall()
            tables = self.tables()
            databases = dict.fromkeys(f"{table.split('.')[0]}." for table in tables)
            functions = ["fluss_read(", "fluss_tables(", "fluss_offsets(", "fluss_snapshots("]
            columns = [sql.quoted_name(name) for (name,) in rows]
            self._names = [*tables, *databases, *columns, *functions]
        return self._names


@contextmanager
def _told(advice: Callable[[], str]) -> Iterator[None]:
    """Turn an exception of DuckDB into one of ours, which is shown without a traceback."""
    try:
        yield
    except duckdb.InterruptException as fault:
        raise KeyboardInterrupt from fault
    except duckdb.ParserException as fault:
        told = advice()
        raise SqlError(f"{fault}\n{told}" if told else str(fault)) from fault
    except duckdb.Error as fault:
        raise SqlError(str(fault)) from fault


def _named(table: str) -> str:
    return ".".join(sql.quoted_name(part) for part in table_in(table).split("."))


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert rows to types that can be printed."""
    columns = [_shown_column(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _shown_column(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_interval(kind):
        texts = [None if each is None else _interval_text(*each) for each in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz == _UTC_OF_DUCKDB:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_decimal(kind) and kind.scale == 0:
        # Sums of integers come with 38 digits.
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
    return column


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    seconds = nanoseconds / 1_000_000_000
    parts = [(months, "months"), (days, "days"), (seconds, "s")]
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount) or "0 s"
