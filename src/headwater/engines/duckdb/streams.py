"""Streams of rows that queries name by number, and the relations that read them.

A database has one relation for each schema. A query says in a condition which stream it wants.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock
from weakref import ref

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from headwater.engines.duckdb.sql import name_sql
from headwater.errors import ClosedError, HeadwaterError, PositionMissingError, UnsupportedError

# Errors as they are told where only their text is left.


def hinted(fault: HeadwaterError) -> HeadwaterError:
    """Return an error whose text has its advice: an engine passes on the text alone."""
    if fault.hint not in str(fault):
        fault.args = (f"{fault} {fault.hint}",)
    return fault


# Streams of rows that queries read by number.

STREAMS_MAX = 1024
"""Plans hold streams for as long as their query may read them, which nobody tells."""


@dataclass(frozen=True, slots=True)
class RowStream:
    """Say which columns can be had, and how; the same rows come each time."""

    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


class NumberedStreams:
    """Keep the newest streams, each under a number that is never used again."""

    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        self._streams: OrderedDict[int, RowStream] = OrderedDict()
        self._numbers = count(1)
        self._streams_max = streams_max
        self._lock = Lock()

    def add(self, stream: RowStream) -> int:
        """Keep a stream, and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._streams[number] = stream
            while len(self._streams) > self._streams_max:
                self._streams.popitem(last=False)
        return number

    def of(self, number: int) -> RowStream:
        """Return the stream of a number, or say that it was given up."""
        with self._lock:
            found = self._streams.get(number)
        if found is None:
            raise PositionMissingError(
                f"The query waited until {self._streams_max} later reads were planned, and its"
                " position was given up.",
                hint="Run it again.",
            )
        return found


# A relation for DuckDB whose rows come from the stream that the query names.

_NO_STREAM = 0
_OPTIMIZER = "Turn its optimizer on again: RESET disabled_optimizers; PRAGMA enable_optimizer."
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class StreamRelation(ds.Dataset):  # type: ignore[misc]  # pyarrow is untyped
    """Stand for all streams of one schema.

    The number of the stream comes as a filter, `marker = 7`, which DuckDB hands down. So one
    relation serves any number of queries at once, and nothing is created for a query.
    """

    def __init__(self, schema: pa.Schema, *, marker: str, streams: NumberedStreams) -> None:
        self._rows = schema
        self._marker = marker
        self._streams = streams

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows, and the one that tells streams apart."""
        return self._rows.append(pa.field(self._marker, pa.int64(), nullable=False))

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 - as DuckDB calls it
        **_options: object,
    ) -> ds.Scanner:
        """Return what reads columns of the rows that pass; DuckDB does not test them again."""
        wanted = list(self.schema.names if columns is None else columns)
        try:
            number = self._number_in(filter)
            stream = self._streams.of(number)
            needed = _needed(stream.columns, wanted, filter)
            rows = stream.read(needed)
            # The first rows now: what goes wrong is told better from here than from within.
            first = next(rows, None)
        except HeadwaterError as fault:
            raise hinted(fault) from None
        schema = pa.schema([self._rows.field(name) for name in needed])
        return ds.Scanner.from_batches(
            self._marked(first, rows, number, schema),
            schema=schema.append(self.schema.field(self._marker)),
            columns=wanted,
            filter=filter,
        )

    def _marked(
        self,
        first: pa.RecordBatch | None,
        rows: Iterator[pa.RecordBatch],
        number: int,
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        marked = schema.append(self.schema.field(self._marker))
        batch = first
        while batch is not None:
            marks = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
            arrays = [batch.column(name) for name in schema.names]
            yield pa.RecordBatch.from_arrays([*arrays, marks], schema=marked)
            batch = next(rows, None)

    def _number_in(self, filter_: ds.Expression | None) -> int:
        """Return the one stream whose rows can pass a filter."""
        found = re.findall(rf"\({re.escape(self._marker)} == (\d+)\)", str(filter_))
        # The text only proposes: a literal in the filter may read like that too.
        numbers = [_NO_STREAM, *dict.fromkeys(map(int, found))]
        possible = self._possible(filter_, numbers) if found else []
        if len(possible) != 1 or possible == [_NO_STREAM]:
            raise UnsupportedError("DuckDB did not say which rows it wants.", hint=_OPTIMIZER)
        return possible[0]

    def _possible(self, filter_: ds.Expression | None, numbers: list[int]) -> list[int]:
        """Return the numbers with which a filter can hold, as Arrow tells partitions apart."""
        files = ds.FileSystemDataset.from_paths(
            [str(number) for number in numbers],
            schema=self.schema,
            format=ds.IpcFileFormat(),
            filesystem=LocalFileSystem(),
            partitions=[ds.field(self._marker) == number for number in numbers],
        )
        return [int(fragment.path) for fragment in files.get_fragments(filter=filter_)]


def _needed(
    there: Sequence[str], wanted: Sequence[str], filter_: ds.Expression | None
) -> list[str]:
    """Return the columns that are given back or looked at; one at least, to count by."""
    text = str(filter_)
    found = [
        name
        for name in there
        # A name that Arrow may write otherwise is read in any case.
        if name in wanted or name in text or not _PLAIN_NAME.match(name)
    ]
    return found or list(there[:1])


# The relations of a database through which its queries read streams.

MARKER = "__stream"
_VIEW = "rows"


class Relations:
    """Keep one relation for each schema.

    Each stands in a small database of its own in memory, which nobody sees listed: a query that
    is being planned sees a database that is attached meanwhile, but no new view in one that it
    has looked at before.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, streams: NumberedStreams, *, alias: str
    ) -> None:
        # Weak, as the database holds the planner, and the planner this: it could never be closed.
        self._connection = ref(connection)
        self._streams = streams
        self._alias = alias
        self._names: dict[pa.Schema, str] = {}
        self._lock = Lock()

    def of(self, schema: pa.Schema) -> tuple[str, str]:
        """Return how the relation of a schema is read in SQL, and its column of streams."""
        marker = MARKER
        while marker in map(str.casefold, schema.names):
            marker += "_"
        with self._lock:
            name = self._names.get(schema)
            if name is None:
                name = self._names[schema] = self._create(schema, marker)
        return f"{name_sql(name)}.main.{_VIEW}", marker

    def _create(self, schema: pa.Schema, marker: str) -> str:
        name = f"__{self._alias}:{len(self._names)}"
        relation = StreamRelation(schema, marker=marker, streams=self._streams)
        with self.cursor() as cursor:
            cursor.execute(
                f"ATTACH OR REPLACE ':memory:' AS {name_sql(name)} (READ_WRITE, HIDDEN true)"
            )
            cursor.execute(f"USE {name_sql(name)}")
            cursor.from_arrow(relation).create_view(_VIEW)
        return name

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection beside the one that waits for the planner."""
        connection = self._connection()
        try:
            if connection is not None:
                return connection.cursor()
        except duckdb.ConnectionException:
            pass
        raise ClosedError(
            "The connection that Headwater was installed on is closed.",
            hint="Call headwater.duckdb.install with one that stays open as long as its cursors.",
        )
