"""Rows of a view of a table, for pyarrow datasets."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.client.reading.filters import Term
from headwater.client.sync.view import View
from headwater.client.union.split import UnionSplit
from headwater.engines.arrow.dataset import Rows, RowsDataset
from headwater.errors import RequestError

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

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:
        """Return one part for each split."""
        return [SplitRows(self._view, (split,)) for split in self._splits(condition)]

    def _splits(self, condition: pc.Expression | None) -> tuple[UnionSplit, ...]:
        if condition is None:
            return self._view.plan().splits
        try:
            return self._view.plan(where=_equalities(condition, self.schema)).splits
        except RequestError:  # pyarrow may compare what our filters do not: then all is read
            return self._view.plan().splits


class SplitRows:
    """Be the rows of some splits of a view."""

    def __init__(self, view: View, splits: Sequence[UnionSplit]) -> None:
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

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:  # noqa: ARG002
        """Return one part for each split."""
        return [SplitRows(self._view, (split,)) for split in self._splits]


class TailRows:
    """Be the rows that the log alone gives of some splits of a view."""

    def __init__(self, view: View, splits: Sequence[UnionSplit]) -> None:
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

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:  # noqa: ARG002
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
