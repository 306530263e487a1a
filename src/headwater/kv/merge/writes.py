"""The records of one batch, as the merge rules see them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Writes:
    """Hold n records on k keys; every key is written at least once.

    `written` has n rows, null rows for deletes; `held` has k rows, null rows where nothing is
    held. Both are called at most once, and only where the values matter.
    """

    key_of: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]
    is_held: npt.NDArray[np.bool_]
    written: Callable[[], pa.RecordBatch]
    held: Callable[[], pa.RecordBatch]

    @property
    def record_count(self) -> int:
        """Return the number of records, n."""
        return len(self.key_of)

    @property
    def key_count(self) -> int:
        """Return the number of keys, k."""
        return len(self.is_held)
