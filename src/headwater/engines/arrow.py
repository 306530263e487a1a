"""Tables as pyarrow datasets whose rows are read when they are asked for.

A dataset asks a source of rows for the columns that a scan looks at. Sources are views of a
table, splits of a view, and Parquet files of the lake without their deleted rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.client.sync.scan import View
from headwater.errors import RequestError
from headwater.lake.split import LakeFile
from headwater.read.filters import Term
from headwater.read.plan import local_path
from headwater.read.split import Split

# Which columns a scan of a pyarrow dataset looks at.

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names of columns, or expressions by the names that they are to have; None for all columns."""


def needed_columns(
    schema: pa.Schema, columns: Columns, condition: pc.Expression | None
) -> list[str]:
    """Return the columns to read, in the order of the schema, and at least one."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, Mapping):
        named = {name for each in columns.values() for name in _looked_at(each, schema)}
    else:
        named = {_top(name, schema) for name in columns}
    if condition is not None:
        named |= set(_looked_at(condition, schema))
    if not named <= set(schema.names):
        return list(schema.names)  # pyarrow says itself that it does not know a column
    return [name for name in schema.names if name in named] or [_narrowest(schema)]


def _looked_at(expression: pc.Expression, schema: pa.Schema) -> Iterable[str]:
    """Yield the columns without which an expression means nothing."""
    _bind(expression, schema)
    for at, name in enumerate(schema.names):
        try:
            _bind(expression, schema.remove(at))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError):
            yield name


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    ds.Scanner.from_batches(iter(()), schema=schema, filter=pc.is_valid(expression))


def _top(name: str, schema: pa.Schema) -> str:
    """Return the column that a name leads into: `a` for a field `a.b` of a row."""
    return name if name in schema.names else name.partition(".")[0]


def _narrowest(schema: pa.Schema) -> str:
    """Return the column that is read if all that matters is how many rows there are."""
    return min(schema, key=_width).name


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1 << 30


# A pyarrow dataset whose rows are read when they are asked for.

_NOT_TAKEN = "cache_metadata"


class RowSource(Protocol):
    """Read rows of one schema, each time the same ones."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        ...

    def read(
        self, columns: Sequence[str], condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of at least the rows that meet the condition."""
        ...

    def parts(self, condition: pc.Expression | None) -> "Sequence[RowSource]":
        """Return what can be read apart from each other."""
        ...


class RowsDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow is untyped
    """Be a pyarrow dataset of rows.

    Columns are read only where they are asked for; a filter is applied exactly, to batches as
    they come. Everything that reads pyarrow datasets can read it.
    """

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._rows.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Return what holds for all rows: nothing that is known."""
        return pc.scalar(True)

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
        **options: object,
    ) -> ds.Scanner:
        """Return a scanner, for one pass over the rows."""
        return scanner_of(self._rows, columns, filter, options)

    def count_rows(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
        **options: object,
    ) -> int:
        """Count the rows that pass a filter, without reading columns."""
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
    ) -> "Iterator[RowsFragment]":
        """Yield what can be read apart from each other."""
        return map(RowsFragment, self._rows.parts(_expression(filter)))

    def filter(self, expression: pc.Expression) -> "RowsDataset":
        """Return a dataset of the rows that meet a condition."""
        return RowsDataset(FilteredRows(self._rows, expression))

    def sort_by(self, sorting: str | list[tuple[str, str]], **options: object) -> ds.Dataset:
        """Read and sort the rows."""
        return self.in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: ds.Dataset, *given: object, **options: object) -> ds.Dataset:
        """Read the rows and join them with those of another dataset."""
        return self.in_memory().join(_plain(right_dataset), *given, **options)

    def join_asof(self, right_dataset: ds.Dataset, *given: object, **options: object) -> ds.Dataset:
        """Read the rows and join them with the nearest ones of another dataset."""
        return self.in_memory().join_asof(_plain(right_dataset), *given, **options)

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:
        """Read the rows and return them under another schema."""
        return self.in_memory().replace_schema(schema)

    def in_memory(self) -> ds.InMemoryDataset:
        """Read the rows into a dataset of pyarrow's own."""
        return ds.InMemoryDataset(self.to_table())


class RowsFragment:
    """Be a part of a dataset, for engines that read parts in parallel."""

    partition_expression = pc.scalar(True)

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    def physical_schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._rows.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - all have the same
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
        **options: object,
    ) -> ds.Scanner:
        """Return a scanner, for one pass over the rows."""
        return scanner_of(self._rows, columns, filter, options)

    def to_batches(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
        **options: object,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return self.scanner(schema, columns, filter, **options).to_batches()

    def to_table(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as pyarrow calls it
        **options: object,
    ) -> pa.Table:
        """Read the rows."""
        return self.scanner(schema, columns, filter, **options).to_table()


class FilteredRows:
    """Be those of some rows that meet a condition."""

    def __init__(self, rows: RowSource, condition: pc.Expression) -> None:
        self._rows = rows
        self._condition = condition
        self.schema = rows.schema

    def read(
        self, columns: Sequence[str], condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of at least the rows that meet both conditions."""
        found = scanner_of(self._rows, columns, self._both(condition), {})
        return iter(found.to_batches())

    def parts(self, condition: pc.Expression | None) -> Sequence[RowSource]:
        """Return what can be read apart from each other."""
        both = self._both(condition)
        return [FilteredRows(each, self._condition) for each in self._rows.parts(both)]

    def _both(self, condition: pc.Expression | None) -> pc.Expression:
        return self._condition if condition is None else self._condition & condition


def scanner_of(
    rows: RowSource,
    columns: Columns,
    condition: pc.Expression | None,
    options: Mapping[str, object],
) -> ds.Scanner:
    """Return a scanner for one pass over rows; it applies the condition to what is read."""
    wanted = _expression(condition)
    needed = needed_columns(rows.schema, columns, wanted)
    schema = pa.schema([rows.schema.field(name) for name in needed])
    return ds.Scanner.from_batches(
        rows.read(needed, wanted),
        schema=schema,
        columns=needed if columns is None else columns,
        filter=wanted,
        **{name: value for name, value in options.items() if name != _NOT_TAKEN},
    )


def _expression(condition: pc.Expression | pa.Scalar | None) -> pc.Expression | None:
    """Return a condition as pyarrow takes it; DataFusion hands one that it has worked out alone."""
    return pc.scalar(condition) if isinstance(condition, pa.Scalar) else condition


def _plain(dataset: ds.Dataset) -> ds.Dataset:
    """Return a dataset that pyarrow can join by itself."""
    return dataset.in_memory() if isinstance(dataset, RowsDataset) else dataset


# Rows of a view of a table, for pyarrow datasets.

# What equals a float, and what does not, is told apart in other ways by filters of pyarrow.
_COMPARED = (bool, int, str, bytes)


def union_dataset(view: View) -> ds.Dataset:
    """Return all rows of a view as a dataset."""
    return RowsDataset(UnionRows(view))


class UnionRows:
    """Be the rows of a view, of which those that no filter wants are not even planned."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.schema = view.schema

    def read(
        self, columns: Sequence[str], condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of at least the rows that meet the condition."""
        return self._view.read(self._splits(condition), columns=columns)

    def parts(self, condition: pc.Expression | None) -> Sequence[RowSource]:
        """Return one part for each split."""
        return [SplitRows(self._view, (split,)) for split in self._splits(condition)]

    def _splits(self, condition: pc.Expression | None) -> tuple[Split, ...]:
        if condition is None:
            return self._view.plan().splits
        try:
            return self._view.plan(where=_equalities(condition, self.schema)).splits
        except RequestError:  # pyarrow may compare what our filters do not: then all is read
            return self._view.plan().splits


class SplitRows:
    """Be the rows of some splits of a view."""

    def __init__(self, view: View, splits: Sequence[Split]) -> None:
        self._view = view
        self._splits = tuple(splits)
        self.schema = view.schema

    def read(
        self,
        columns: Sequence[str],
        condition: pc.Expression | None,  # noqa: ARG002 - applied to what is read
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows."""
        return self._view.read(self._splits, columns=columns)

    def parts(self, condition: pc.Expression | None) -> Sequence[RowSource]:  # noqa: ARG002
        """Return one part for each split."""
        return [SplitRows(self._view, (split,)) for split in self._splits]


class TailRows:
    """Be the rows that the log alone gives of some splits of a view."""

    def __init__(self, view: View, splits: Sequence[Split]) -> None:
        self._view = view
        self._splits = tuple(splits)
        self.schema = view.schema

    def read(
        self,
        columns: Sequence[str],
        condition: pc.Expression | None,  # noqa: ARG002 - applied to what is read
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows."""
        return self._view.tail_rows(self._splits, columns=columns)

    def parts(self, condition: pc.Expression | None) -> Sequence[RowSource]:  # noqa: ARG002
        """Return the whole, which is small."""
        return [self]


def _equalities(condition: pc.Expression, schema: pa.Schema) -> list[Term]:
    """Return the parts of a condition that name one value of a column; they must hold."""
    found: dict[str, object] = ds.get_partition_keys(condition)
    return [
        (name, "==", value)
        for name, value in found.items()
        if name in schema.names and isinstance(value, _COMPARED)
    ]


# Rows of a Parquet file of the lake without deleted positions, for engines that count no rows.

_BATCH_ROWS = 128 * 1024


class FileRows:
    """Be the rows of one file that are not deleted, as the table has them.

    `names` are those that columns of the table have in the file; the others are null. An engine
    that was given nulls of its own would work them into conditions, which not all of them can.
    """

    def __init__(self, file: LakeFile, schema: pa.Schema, names: Mapping[str, str]) -> None:
        self._file = file
        self._names = names
        self.schema = schema

    def read(
        self,
        columns: Sequence[str],
        condition: pc.Expression | None,  # noqa: ARG002 - applied to what is read
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows, cast to the types of the schema."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        there = [self._names[name] for name in columns if name in self._names]
        # Some column has to be read to tell how many rows there are.
        read = there or list(self._names.values())[:1]
        deleted, first = _deleted(self._file), 0
        with pq.ParquetFile(local_path(self._file.path)) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=read):
                kept = np.ones(batch.num_rows, np.bool_)
                start, end = np.searchsorted(deleted, (first, first + batch.num_rows))
                kept[deleted[start:end] - first] = False
                first += batch.num_rows
                yield self._shaped(batch.filter(pa.array(kept)), schema)

    def _shaped(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        arrays = [
            rows.column(self._names[field.name]).cast(field.type)
            if field.name in self._names
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def parts(self, condition: pc.Expression | None) -> Sequence[RowSource]:  # noqa: ARG002
        """Return the whole: where a row stands in the file counts."""
        return [self]


def _deleted(file: LakeFile) -> npt.NDArray[np.int64]:
    """Return the positions that are deleted, sorted."""
    deletes = ds.dataset([local_path(path) for path in file.deletes], format="parquet")
    found = deletes.to_table(columns=["pos"], filter=pc.field("file_path") == file.path)
    return np.unique(found.column("pos").to_numpy())
