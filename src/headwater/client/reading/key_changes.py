"""The first or the last change of each key in a part of a changelog."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.reading.log_batch import LogBatch
from headwater.model.table import TableInfo
from headwater.rows.compacted.keys import KeyEncoder

# So many changes are looked through together, as that takes little more time than for a few.
ROWS_TOGETHER = 65_536

Which = Literal["first", "last"]


class RowKeys:
    """Write the keys of rows as bytes, which tell rows of a bucket apart as servers do."""

    def __init__(self, table: TableInfo) -> None:
        self.names = table.descriptor.physical_primary_key
        self._encoder = KeyEncoder.of([table.schema.column(name).type for name in self.names])

    def of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the key of each row."""
        return self._encoder.encode([rows.column(name) for name in self.names]).to_arrow()


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """Hold one change for each key."""

    keys: pa.BinaryArray
    changes: npt.NDArray[np.uint8]
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Changed":
        """Return the changes for which a mask holds."""
        wanted = pa.array(mask)
        return Changed(self.keys.filter(wanted), self.changes[mask], self.rows.filter(wanted))


class KeyChanges:
    """Take the changes of a log in their order, and keep the first or the last of each key.

    It holds about twice as many changes as there are keys, however many come.
    """

    def __init__(self, keys: RowKeys, schema: pa.Schema, *, which: Which) -> None:
        self._keys = keys
        self._which = which
        self._waiting: list[Changed] = []
        self._waiting_rows = 0
        self._kept = Changed(
            pa.array([], pa.binary()),
            np.empty(0, np.uint8),
            pa.RecordBatch.from_pylist([], schema=schema),
        )

    def add(self, batch: LogBatch) -> None:
        """Take the changes of a batch, which come after those of all batches before it."""
        assert batch.changes is not None
        self._waiting.append(Changed(self._keys.of(batch.rows), batch.changes, batch.rows))
        self._waiting_rows += len(batch.changes)
        if self._waiting_rows >= max(ROWS_TOGETHER, len(self._kept)):
            self._settle()

    def found(self) -> Changed:
        """Return the change that is kept of each key."""
        self._settle()
        return self._kept

    def _settle(self) -> None:
        if not self._waiting:
            return
        parts = [self._kept, *self._waiting]
        self._waiting, self._waiting_rows = [], 0
        keys = pa.concat_arrays([part.keys for part in parts])
        changes = np.concatenate([part.changes for part in parts])
        rows = pa.concat_batches([part.rows for part in parts])
        chosen = _one_of_each(keys, which=self._which)
        places = pa.array(chosen)
        self._kept = Changed(keys.take(places), changes[chosen], rows.take(places))


def _one_of_each(keys: pa.BinaryArray, *, which: Which) -> npt.NDArray[np.int64]:
    """Return the place at which each key comes first or last, in the order of the places."""
    encoded = keys.dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    places = np.arange(len(numbers))
    if which == "first":
        numbers, places = numbers[::-1], places[::-1]
    chosen = np.empty(len(encoded.dictionary), np.int64)
    # Where a number comes several times, NumPy keeps what is assigned last.
    chosen[numbers] = places
    chosen.sort()
    return chosen
