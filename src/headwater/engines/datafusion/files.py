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
from headwater.model.schema import Column

_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Say what the rows of a table look like, in the types that DataFusion reads fastest."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    plain: pa.Schema
    """In the types of the table: pyarrow cannot cast to all of the others."""

    @classmethod
    def of(cls, columns: tuple[Column, ...], schema: pa.Schema) -> "Shape":
        """Return the shape of rows of a schema: texts as DataFusion itself has them of files."""
        fields = [field.with_type(_VIEWS.get(field.type, field.type)) for field in schema]
        return cls(columns=columns, schema=pa.schema(fields), plain=schema)


def cast(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Give the columns of a schema the types that they have there."""
    return frame.select(
        *(col(quoted(field.name)).cast(field.type).alias(field.name) for field in schema)
    )


def frames_of(session: SessionContext, group: FileGroup, shape: Shape) -> Iterator[DataFrame]:
    """Yield the rows of files without those that are deleted, a frame for each file.

    DataFusion casts columns to the types of the schema that it is given, and fills in nulls for
    those that a file has not. It has no numbers of rows, so files with deletes are read for it.
    """
    held, names = _held(group, shape.columns, shape.schema), dict(group.names)
    known = {each.name: names[each.column_id] for each in shape.columns if each.column_id in names}
    for file in group.files:
        if file.deletes:
            rows = FileRows(file, shape.plain, known)
            yield cast(session.read_table(Table(RowsDataset(rows))), shape.schema)
        else:
            # As a URI: in paths, DataFusion takes some characters for patterns.
            path = Path(local_path(file.path)).as_uri()
            yield _shaped(session.read_parquet(path, schema=held), group, shape)


def _held(group: FileGroup, columns: tuple[Column, ...], schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table under the names that they have in the files."""
    names = dict(group.names)
    return pa.schema(
        [
            schema.field(column.name).with_name(names[column.column_id])
            for column in columns
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
