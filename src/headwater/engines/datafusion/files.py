"""Files of the lake as data frames, read by DataFusion itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from datafusion import DataFrame, SessionContext, col, lit
from datafusion.catalog import Table

from headwater.client.union.native import local_path
from headwater.client.union.split import FileGroup
from headwater.engines.arrow.dataset import RowsDataset
from headwater.engines.arrow.files import FileRows
from headwater.lake.split import LakeFile
from headwater.model.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Say what the rows of a table look like."""

    columns: tuple[Column, ...]
    schema: pa.Schema


def frames_of(session: SessionContext, group: FileGroup, shape: Shape) -> Iterator[DataFrame]:
    """Yield the rows of files without those that are deleted, a frame for each file.

    DataFusion casts columns to the types of the schema that it is given, and fills in nulls for
    those that a file has not. It has no numbers of rows, so files with deletes are read for it.
    """
    held = _held(group, shape)
    for file in group.files:
        yield _shaped(_frame(session, file, held), group, shape)


def _frame(session: SessionContext, file: LakeFile, held: pa.Schema) -> DataFrame:
    path = local_path(file.path)
    if file.deletes:
        return session.read_table(Table(RowsDataset(FileRows(file, held))))
    # As a URI: in paths, DataFusion takes some characters for patterns.
    return session.read_parquet(Path(path).as_uri(), schema=held)


def _held(group: FileGroup, shape: Shape) -> pa.Schema:
    """Return the columns of the table under the names that they have in the files."""
    names = dict(group.names)
    return pa.schema(
        [
            shape.schema.field(column.name).with_name(names[column.column_id])
            for column in shape.columns
            if column.column_id in names
        ]
    )


def _shaped(frame: DataFrame, group: FileGroup, shape: Shape) -> DataFrame:
    """Give columns the names and the order that they have in the table."""
    names = dict(group.names)
    if [names.get(column.column_id) for column in shape.columns] == shape.schema.names:
        return frame
    return frame.select(
        *(
            col(quoted(names[column.column_id])).alias(column.name)
            if column.column_id in names
            else lit(None).cast(shape.schema.field(column.name).type).alias(column.name)
            for column in shape.columns
        )
    )


def quoted(name: str) -> str:
    """Return the name of a column so that DataFusion takes it letter by letter."""
    return '"' + name.replace('"', '""') + '"'
