"""Folding the changes of one bucket's log: of each key, the last one stays."""

import numpy as np
import pyarrow as pa

from headwater.client.reading.log_batch import LogBatch
from headwater.client.union.merge.folded import Folded, FoldedInMemory
from headwater.client.union.merge.keys import TableKey
from headwater.client.union.merge.part import Part, part_of, together
from headwater.client.union.merge.spill import SpillPlace
from headwater.model.table import TableInfo

# So many changes are folded together, as that takes little more time than for a few.
ROWS_TOGETHER = 65_536
# Parts that are not larger are put together, which keeps them few.
_PART_BYTES_MAX = 256 * 1024 * 1024
_GROWTH = 2


class TailFold:
    """Take the changes of a bucket's log in their order, and keep the last one of each key.

    Its rows hold the whole primary key. Beyond the limit, changes are moved to files in the place
    that is given; without one, they stay in memory however many there are.
    """

    def __init__(
        self,
        table: TableInfo,
        schema: pa.Schema,
        *,
        memory_bytes_max: int,
        spill: SpillPlace | None = None,
    ) -> None:
        self._table, self._schema = table, schema
        self._key = TableKey.of(table)
        self._waiting: list[LogBatch] = []
        self._waiting_rows = 0
        self._parts: list[Part] = []

    def add(self, batch: LogBatch) -> None:
        """Take the changes of a batch, which come after those of all batches before it."""
        assert batch.changes is not None
        if not batch.rows.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.rows.num_rows
        if self._waiting_rows >= max(ROWS_TOGETHER, sum(map(len, self._parts))):
            self._settle()

    def folded(self) -> Folded:
        """Return what the changes that came so far leave."""
        self._settle()
        return FoldedInMemory(self._table, self._key, self._schema, tuple(self._parts))

    def _settle(self) -> None:
        """Fold what waits, and leave its keys out of what was folded before."""
        if not self._waiting:
            return
        rows = [batch.rows for batch in self._waiting]
        changes = [batch.changes for batch in self._waiting if batch.changes is not None]
        self._waiting, self._waiting_rows = [], 0
        later = part_of(self._key, rows, np.concatenate(changes))
        if not len(later):
            return
        kept = [part.without(later) for part in self._parts]
        self._parts = _fewer([*(part for part in kept if len(part)), later])


def _fewer(parts: list[Part]) -> list[Part]:
    """Put parts together until each is larger than all after it, by far, or very large."""
    while len(parts) > 1 and len(parts[-2]) < _GROWTH * len(parts[-1]):
        if parts[-2].byte_count + parts[-1].byte_count > _PART_BYTES_MAX:
            break
        parts = [*parts[:-2], together(parts[-2:])]
    return parts
