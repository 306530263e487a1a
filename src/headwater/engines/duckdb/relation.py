"""A relation for DuckDB whose rows come from the stream that the query names."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from headwater.engines.duckdb.hints import hinted
from headwater.engines.duckdb.streams import NumberedStreams
from headwater.errors import HeadwaterError, UnsupportedError

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
