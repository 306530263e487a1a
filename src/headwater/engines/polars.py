"""Tables as lazy frames: Polars reads the files of the lake, Headwater reads the rest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from headwater.client.sync.scan import View
from headwater.engines.storages import changed_in, told
from headwater.errors import HeadwaterError
from headwater.lake.split import LakeFile
from headwater.model import Column
from headwater.read.plan import local_path
from headwater.read.split import FileGroup, NativePlan

# Files of the lake as lazy frames, read by Polars itself.

ROW = "__headwater_row"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolarsShape:
    """Say what the rows of a table look like in Polars."""

    columns: tuple[Column, ...]
    types: pl.Schema


def frames_of(group: FileGroup, shape: PolarsShape) -> Iterator[pl.LazyFrame]:
    """Yield the rows of files without those that are deleted: one frame, or one for each file.

    Polars keeps what it knows of a column for its filters as long as the column is not cast.
    """
    if not any(file.deletes for file in group.files):
        yield _shaped(_scanned(group.files, group, shape), group, shape)
        return
    for file in group.files:
        frame = _scanned((file,), group, shape, row_index=ROW)
        frame = frame.join(_deleted(file), left_on=ROW, right_on="pos", how="anti")
        yield _shaped(frame, group, shape)


def _scanned(
    files: Sequence[LakeFile], group: FileGroup, shape: PolarsShape, *, row_index: str | None = None
) -> pl.LazyFrame:
    paths = [local_path(file.path) for file in files]
    held = pl.read_parquet_schema(paths[0])
    names = dict(group.names)
    wanted = [names[each.column_id] for each in shape.columns if each.column_id in names]
    if not wanted:  # rows whose columns all came later still count
        wanted = list(held)[:1]
    return pl.scan_parquet(
        paths,
        schema={name: held[name] for name in wanted},
        row_index_name=row_index,
        glob=False,
        hive_partitioning=False,
        extra_columns="ignore",
    )


def _deleted(file: LakeFile) -> pl.LazyFrame:
    """Return the positions of a file that are deleted, numbered as Polars numbers rows."""
    return (
        pl.scan_parquet([local_path(path) for path in file.deletes], glob=False)
        .filter(pl.col("file_path") == file.path)
        .select(pl.col("pos").cast(pl.get_index_type()))
    )


def _shaped(frame: pl.LazyFrame, group: FileGroup, shape: PolarsShape) -> pl.LazyFrame:
    """Give columns the names and types that they have in the table."""
    names, held = dict(group.names), frame.collect_schema()
    return frame.select(
        _column(names.get(column.column_id), column.name, held=held, kind=shape.types[column.name])
        for column in shape.columns
    )


def _column(file_name: str | None, name: str, *, held: pl.Schema, kind: pl.DataType) -> pl.Expr:
    if file_name is None:
        return pl.lit(None, dtype=kind).alias(name)
    found = pl.col(file_name)
    return (found if held[file_name] == kind else found.cast(kind)).alias(name)


# Rows that only Headwater can read, as lazy frames.

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


# A view of a table as a lazy frame: files read by Polars, the rest by Headwater.


def lazy_frame(view: View) -> pl.LazyFrame:
    """Return the rows of a view.

    1. Plan: files that Polars reads, changes of the log, and what only Headwater can read.
    2. Scan files, without rows that the log changed. 3. Put the other rows beside them.
    """
    plan = view.native_plan()
    shape = PolarsShape(columns=view.value.table.schema.columns, types=polars_types(view.schema))
    frames = list(_lake(view, plan, shape))
    if plan.tail:
        frames.append(
            lazy_rows(lambda names: view.tail_rows(plan.tail, columns=names), shape.types)
        )
    if plan.others:
        frames.append(lazy_rows(lambda names: view.read(plan.others, columns=names), shape.types))
    return pl.concat(frames) if frames else pl.LazyFrame(schema=shape.types)


def polars_types(schema: pa.Schema) -> pl.Schema:
    """Return the types that columns have in Polars."""
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _lake(view: View, plan: NativePlan, shape: PolarsShape) -> Iterator[pl.LazyFrame]:
    for group in plan.groups:
        frames = frames_of(group, shape)
        if not group.is_touched:
            yield from frames
            continue
        changed = view.changed_keys(changed_in(plan.tail, group))
        keys = pl.from_arrow(changed)
        assert isinstance(keys, pl.DataFrame)
        for frame in frames:
            yield _without(frame, keys, plan.key)


def _without(frame: pl.LazyFrame, keys: pl.DataFrame, key: Sequence[str]) -> pl.LazyFrame:
    """Leave rows with these keys out.

    Looking keys up in a list is a filter that Polars pushes into the scan of the files: it takes
    two thirds of the time of a join, but compares one column only.
    """
    if len(key) == 1:
        return frame.filter(~pl.col(key[0]).is_in(keys[key[0]].implode()))
    return frame.join(keys.lazy(), on=list(key), how="anti")
