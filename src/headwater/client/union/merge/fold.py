"""Folding the changes of one bucket's log: of each key, the last one stays."""

import numpy as np
import pyarrow as pa

from headwater.client.reading.log_batch import LogBatch
from headwater.client.union.merge.folded import Folded
from headwater.client.union.merge.in_files import FoldedInFiles
from headwater.client.union.merge.in_memory import FoldedInMemory
from headwater.client.union.merge.keys import TableKey
from headwater.client.union.merge.part import Part, part_of, together
from headwater.client.union.merge.part_files import part_written
from headwater.client.union.merge.spill import SpillFiles, SpillPlace, SpillRun
from headwater.model.table import TableInfo

# So many changes are folded together, as that takes little more time than for a few.
ROWS_TOGETHER = 262_144
# Arrow cannot put more than 2 GiB of texts together.
_TOGETHER_BYTES_MAX = 512 * 1024 * 1024
_GROWTH = 2
# Folding takes three times what waits, and twice what was folded before.
_WAITING_SHARE, _FOLDED_SHARE = 8, 3


class TailFold:
    """Take the changes of a bucket's log in their order, and keep the last one of each key.

    Their rows hold the whole primary key. Where the changes are more than the limit allows, they
    are moved to files in the place that is given, or where the system keeps temporary files.
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
        self._memory_bytes_max = memory_bytes_max
        self._waiting_bytes_max = min(memory_bytes_max // _WAITING_SHARE, _TOGETHER_BYTES_MAX)
        self._place = spill
        self._waiting: list[LogBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._parts: list[Part] = []
        self._files: SpillFiles | None = None
        self._runs: list[SpillRun] = []

    def add(self, batch: LogBatch) -> None:
        """Take the changes of a batch, which come after those of all batches before it."""
        assert batch.changes is not None
        if not batch.rows.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.rows.num_rows
        self._waiting_bytes += batch.rows.nbytes
        is_many = self._waiting_rows >= max(ROWS_TOGETHER, sum(map(len, self._parts)))
        if is_many or self._waiting_bytes > self._waiting_bytes_max:
            self._settle()

    def folded(self) -> Folded:
        """Return what the changes that came so far leave; the fold can go on."""
        self._settle()
        if not self._runs:
            held = tuple(self._parts)
            return FoldedInMemory(self._table, self._key, self._schema, held)
        self._spill()
        return FoldedInFiles(
            self._table,
            self._key,
            self._schema,
            tuple(self._runs),
            self._place,
            self._memory_bytes_max,
        )

    def _settle(self) -> None:
        """Fold what waits, and leave its keys out of what was folded before."""
        if not self._waiting:
            return
        rows = [batch.rows for batch in self._waiting]
        changes = [batch.changes for batch in self._waiting if batch.changes is not None]
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        later = part_of(self._key, rows, np.concatenate(changes))
        if not len(later):
            return
        kept = [part.without(later) for part in self._parts]
        self._parts = _fewer([*(part for part in kept if len(part)), later])
        if sum(part.byte_count for part in self._parts) > self._memory_bytes_max // _FOLDED_SHARE:
            self._spill()

    def _spill(self) -> None:
        """Move what is folded to files."""
        if self._files is None:
            self._files = SpillFiles(self._place)
        for part in self._parts:
            self._runs.append(part_written(self._files, part))
        self._parts = []


def _fewer(parts: list[Part]) -> list[Part]:
    """Put parts together until each is larger than all after it, by far, or very large."""
    while len(parts) > 1 and len(parts[-2]) < _GROWTH * len(parts[-1]):
        if parts[-2].byte_count + parts[-1].byte_count > _TOGETHER_BYTES_MAX:
            break
        parts = [*parts[:-2], together(parts[-2:])]
    return parts
