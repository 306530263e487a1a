"""Rows that were found, put in the order of what was asked for."""

import numpy as np
import pyarrow as pa

from headwater.client.reading.view import View
from headwater.rows.row_bytes import Longs


class FoundRows:
    """Gather rows, and for each the place of the key or prefix that it was found by."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._rows: list[pa.RecordBatch] = []
        self._places: list[Longs] = []

    def add(self, rows: pa.RecordBatch, places: Longs) -> None:
        """Take rows and the place of each."""
        if rows.num_rows:
            self._rows.append(self._view.given(rows))
            self._places.append(places)

    def by_key(self) -> pa.Table:
        """Return at most one row for each key, in the order of the keys."""
        return _in_order(self._table(self._view.schema), self._all_places())

    def by_every_key(self, keys: pa.RecordBatch) -> pa.Table:
        """Return exactly one row for each key: what was found, or the key itself and nulls."""
        names = keys.schema.names
        # A missing row holds nulls in columns that otherwise have none.
        schema = pa.schema(
            [
                field.with_nullable(field.nullable or field.name not in names)
                for field in self._view.schema
            ]
        )
        table, places = self._table(schema), self._all_places()
        if len(places) == keys.num_rows:
            return _in_order(table, places)
        sources = np.full(keys.num_rows, -1, np.int64)
        sources[places] = np.arange(len(places))
        found = pa.array(sources, mask=sources < 0)
        columns = [
            keys.column(field.name) if field.name in names else table.column(field.name).take(found)
            for field in schema
        ]
        return pa.table(columns, schema=schema)

    def by_prefix(self) -> pa.Table:
        """Return all rows, in the order of the prefixes."""
        return _in_order(self._table(self._view.schema), self._all_places())

    def _table(self, schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(self._rows, schema=self._view.schema)
        return table if schema is self._view.schema else table.cast(schema)

    def _all_places(self) -> Longs:
        if len(self._places) == 1:
            return self._places[0]
        return np.concatenate(self._places) if self._places else np.empty(0, np.int64)


def _in_order(table: pa.Table, places: Longs) -> pa.Table:
    if len(places) < 2 or bool((places[1:] >= places[:-1]).all()):  # noqa: PLR2004
        return table
    return table.take(pa.array(np.argsort(places, kind="stable")))
