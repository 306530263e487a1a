"""A pyarrow dataset whose rows are read when they are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.engines.arrow.columns import Columns, needed_columns

_NOT_TAKEN = "cache_metadata"


class Rows(Protocol):
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

    def parts(self, condition: pc.Expression | None) -> "Sequence[Rows]":
        """Return what can be read apart from each other."""
        ...


class RowsDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow is untyped
    """Be a pyarrow dataset of rows.

    Columns are read only where they are asked for; a filter is applied exactly, to batches as
    they come. Everything that reads pyarrow datasets can read it.
    """

    def __init__(self, rows: Rows) -> None:
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
        """Return how many rows there are."""
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

    def __init__(self, rows: Rows) -> None:
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

    def __init__(self, rows: Rows, condition: pc.Expression) -> None:
        self._rows = rows
        self._condition = condition
        self.schema = rows.schema

    def read(
        self, columns: Sequence[str], condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of at least the rows that meet both conditions."""
        found = scanner_of(self._rows, columns, self._both(condition), {})
        return iter(found.to_batches())

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:
        """Return what can be read apart from each other."""
        both = self._both(condition)
        return [FilteredRows(each, self._condition) for each in self._rows.parts(both)]

    def _both(self, condition: pc.Expression | None) -> pc.Expression:
        return self._condition if condition is None else self._condition & condition


def scanner_of(
    rows: Rows,
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
