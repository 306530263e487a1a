"""Rows that only Headwater can read, as lazy frames."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from headwater.engines.viewing import told
from headwater.errors import HeadwaterError

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads these columns of the rows, each time the same rows."""


def lazy_rows(read: Read, types: pl.Schema) -> pl.LazyFrame:
    """Return a frame whose rows are read when it is collected: the columns that are needed."""

    def source(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        row_count: int | None,
        batch_rows: int | None,  # noqa: ARG001 - batches come as they were written
    ) -> Iterator[pl.DataFrame]:
        wanted = list(types) if columns is None else columns
        frames = _frames(read, wanted)
        if predicate is not None:
            frames = (frame.filter(predicate) for frame in frames)
        return frames if row_count is None else _first(frames, row_count)

    return register_io_source(source, schema=types, is_pure=True)


def _frames(read: Read, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    try:
        for batch in read(columns):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame.select(columns)
    except HeadwaterError as fault:
        raise pl.exceptions.ComputeError(told(fault)) from fault


def _first(frames: Iterator[pl.DataFrame], row_count: int) -> Iterator[pl.DataFrame]:
    for frame in frames:
        yield frame.head(row_count)
        row_count -= frame.height
        if row_count <= 0:
            return
