"""Files of the lake as lazy frames, read by Polars itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from headwater.client.union.native import local_path
from headwater.client.union.split import FileGroup
from headwater.lake.split import LakeFile
from headwater.model.schema import Column

ROW = "__headwater_row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Say what the rows of a table look like in Polars."""

    columns: tuple[Column, ...]
    types: pl.Schema


def frames_of(group: FileGroup, shape: Shape) -> Iterator[pl.LazyFrame]:
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
    files: Sequence[LakeFile], group: FileGroup, shape: Shape, *, row_index: str | None = None
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


def _shaped(frame: pl.LazyFrame, group: FileGroup, shape: Shape) -> pl.LazyFrame:
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
