"""Rows that cannot be told to be unchanged yet, which are put into files by partition."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.client.union.merge.keys import Words
from headwater.client.union.merge.spill import SpillFiles, SpillRun, by_partition, partitions_of


class HeldBack:
    """Gather rows and put them into files by partition."""

    def __init__(self, files: SpillFiles, bytes_max: int) -> None:
        self._files, self._bytes_max = files, bytes_max
        self._rows: list[pa.RecordBatch] = []
        self._hashes: list[Words] = []
        self._bytes = 0
        self._runs: list[SpillRun] = []

    def add(self, rows: pa.RecordBatch, hashes: Words) -> None:
        """Take rows with the hashes of their keys."""
        if not rows.num_rows:
            return
        self._rows.append(rows)
        self._hashes.append(hashes)
        self._bytes += rows.nbytes
        if self._bytes > self._bytes_max:
            self._write()

    def done(self) -> Sequence[SpillRun]:
        """Return where the rows are."""
        if self._rows:
            self._write()
        return self._runs

    def _write(self) -> None:
        rows = pa.concat_batches(self._rows)
        partitions = partitions_of(np.concatenate(self._hashes))
        self._rows, self._hashes, self._bytes = [], [], 0
        self._runs.append(self._files.write(rows.schema, by_partition(rows, partitions)))
