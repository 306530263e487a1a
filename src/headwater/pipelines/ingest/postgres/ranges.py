"""Rows that a table has already, read in ranges of its key while changes go on.

Each range is read in a snapshot of its own, and PostgreSQL says which transactions that snapshot
saw. So it is known of every later change in the stream whether it is in the range already: it is
left out if its transaction was seen, and applied if it was not. No lock, no pause, no gap.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class
from pyarrow import csv

from headwater.errors import TimedOutError
from headwater.model import types
from headwater.pipelines.ingest.form import PostgresSource, SourceTable
from headwater.pipelines.ingest.postgres import server
from headwater.pipelines.ingest.postgres.changes import TableShape

POLL_S = 0.02
SEEN_TRIES_MAX = 6000
_BLOCK_BYTES_MIN = 1 << 20
_WHOLE_NUMBERS = (types.SmallIntType, types.IntType, types.BigIntType)
_FETCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows whose first key column is at least `low` and less than `high`."""

    number: int
    low: int | None = None
    high: int | None = None


def ranges_of(bounds: Sequence[int]) -> list[KeyRange]:
    """The ranges between these bounds: one more than there are bounds."""
    lows: list[int | None] = [None, *bounds]
    highs: list[int | None] = [*bounds, None]
    return [KeyRange(at, low, high) for at, (low, high) in enumerate(zip(lows, highs, strict=True))]


def range_at(bounds: Sequence[int], key: bytes) -> int:
    """The number of the range that a key lies in, given the text of its first column."""
    return bisect_right(bounds, int(key)) if bounds else 0


def find_bounds(
    cursor: Cursor, table: SourceTable, shape: TableShape, *, rows_max: int
) -> list[int]:
    """Cut a table where so many rows have passed; one whose key is no whole number stays whole."""
    first = shape.key[0]
    if not isinstance(shape.type_of(first), _WHOLE_NUMBERS):
        return []
    name = sql.Identifier(first)
    statement = sql.SQL(
        "SELECT DISTINCT key FROM (SELECT {} AS key, row_number() OVER (ORDER BY {}) AS place"
        " FROM {}) AS rows WHERE place %% %s = 0 ORDER BY key"
    ).format(name, name, sql.Identifier(table.schema, table.name))
    cursor.execute(statement, (rows_max,))
    found: list[int] = []
    while rows := cursor.fetchmany(_FETCH_ROWS):
        found += [row[0] for row in rows]
    return found


@dataclass(frozen=True, slots=True)
class RangeTexts:
    """The rows of a range as text, and which transactions they come from."""

    columns: dict[str, pa.StringArray]
    visibility: str


@contextmanager
def reading_range(
    source: PostgresSource,
    table: SourceTable,
    shape: TableShape,
    wanted: KeyRange,
    *,
    must_see: Sequence[int] = (),
) -> Iterator[RangeTexts]:
    """Read a range, in a snapshot that sees these transactions.

    Until the context is left, the database keeps a lock for us that no other reader of this range
    gets: one that everybody takes for dead holds it for as long as it may still write.
    """
    made = server.connect(source)
    try:
        made.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with made.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", (_lock_of(source, table, wanted),))
            made.rollback()
            visibility = _begin(cursor, must_see)
            buffer = BytesIO()
            cursor.copy_expert(_copy(table, shape, wanted).as_string(cursor), buffer)
            made.rollback()
        yield RangeTexts(_texts(buffer, shape), visibility)
    except psycopg2.Error as fault:
        raise server.lost(source, fault) from fault
    finally:
        made.close()


def _lock_of(source: PostgresSource, table: SourceTable, wanted: KeyRange) -> int:
    text = f"headwater/{source.slot}/{table}/{wanted.number}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _begin(cursor: Cursor, must_see: Sequence[int]) -> str:
    """Take a snapshot; a transaction may be in the log a moment before others see it."""
    for _ in range(SEEN_TRIES_MAX):
        text = server.visibility_now(cursor)
        seen = server.Visibility.parse(text)
        if all(map(seen.saw, must_see)):
            return text
        cursor.connection.rollback()
        cursor.execute("SELECT pg_sleep(%s)", (POLL_S,))
        cursor.connection.rollback()
    raise TimedOutError(
        "A transaction is in the log of PostgreSQL, but its rows still cannot be seen.",
        hint="It may wait for a synchronous standby that is away.",
    )


def _copy(table: SourceTable, shape: TableShape, wanted: KeyRange) -> sql.Composed:
    key = sql.Identifier(shape.key[0])
    limits = [
        sql.SQL("{} {} {}").format(key, sql.SQL(sign), sql.Literal(limit))
        for sign, limit in ((">=", wanted.low), ("<", wanted.high))
        if limit is not None
    ]
    where = sql.SQL(" AND ").join(limits or [sql.SQL("true")])
    return sql.SQL(
        "COPY (SELECT {} FROM {} WHERE {}) TO STDOUT WITH (FORMAT csv, FORCE_QUOTE *)"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, shape.names)),
        sql.Identifier(table.schema, table.name),
        where,
    )


def _texts(buffer: BytesIO, shape: TableShape) -> dict[str, pa.StringArray]:
    """Parse what was copied: every value is quoted, so an empty one without quotes is null."""
    size = buffer.tell()
    if not size:
        return {name: pa.array([], pa.string()) for name in shape.names}
    buffer.seek(0)
    found = csv.read_csv(
        buffer,
        read_options=csv.ReadOptions(
            column_names=list(shape.names), block_size=max(size + 1, _BLOCK_BYTES_MIN)
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(shape.names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return {name: found.column(name).combine_chunks() for name in shape.names}
