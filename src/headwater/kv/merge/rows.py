"""The rows of a batch of writes, fetched when first asked for and then remembered."""

from functools import cached_property

import pyarrow as pa

from headwater.kv.merge.writes import Writes


class Rows:
    """Ask for the held and the written rows at most once."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    @cached_property
    def written(self) -> pa.RecordBatch:
        """Return a row for each record, null for deletes."""
        return self._writes.written()

    @cached_property
    def held(self) -> pa.RecordBatch:
        """Return a row for each key, null where nothing is held."""
        if self._writes.is_held.any():
            return self._writes.held()
        schema = self.written.schema
        columns = [pa.nulls(self._writes.key_count, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
