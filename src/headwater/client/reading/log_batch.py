"""What a reader of the log is given, and how it names buckets."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.bucket import TableBucket


@dataclass(frozen=True, slots=True, eq=False)
class LogBatch:
    """Hold rows of one bucket in the order of the log."""

    rows: pa.RecordBatch
    """The rows, in the schema of the reader."""
    changes: npt.NDArray[np.uint8] | None
    """The `headwater.ChangeType` of each row; None for a log table."""
    offsets: npt.NDArray[np.int64]
    """The log offset of each row; offsets can be missing where rows were filtered out."""
    timestamp_ms: int
    """When the rows were written; the last of them, where that differs."""
    bucket: TableBucket
    partition: str | None
    timestamps: npt.NDArray[np.int64] | None = None
    """When each of the rows was written, where that differs."""

    def row_timestamps(self) -> npt.NDArray[np.int64]:
        """Return when each of the rows was written."""
        if self.timestamps is not None:
            return self.timestamps
        return np.full(self.rows.num_rows, self.timestamp_ms, np.int64)

    @property
    def first_timestamp_ms(self) -> int:
        """Return when the first of the rows was written."""
        return self.timestamp_ms if self.timestamps is None else int(self.timestamps[0])


@dataclass(frozen=True, slots=True)
class Place:
    """Name a bucket as people do: by the name of its partition, if any, and its number."""

    partition: str | None
    bucket: int


Offsets = Mapping[Place, int]
"""A log offset for each bucket."""
