"""All rows of a bucket as they were at one log offset, a piece at a time."""

import numpy as np

from headwater.kv.heap import LENGTH_BYTES, HeapView
from headwater.kv.location import Locations
from headwater.kv.values import SCHEMA_ID_BYTES, values_of
from headwater.rows.row_bytes import RowBytes

ROWS_MAX = 10_000


class StateScan:
    """Read rows in the order in which they lie; later changes are not seen."""

    def __init__(self, view: HeapView, locations: Locations, offset: int) -> None:
        self.offset = offset
        self._view = view
        self._locations = locations
        self._position = 0

    def __len__(self) -> int:
        return len(self._locations)

    @property
    def is_done(self) -> bool:
        """Tell whether all rows were read."""
        return self._position >= len(self._locations)

    def read(self, bytes_max: int) -> RowBytes:
        """Return the next values, as many as fit but at least one."""
        ahead = self._locations[self._position : self._position + ROWS_MAX]
        # Lengths include keys, so that a little less than allowed is returned.
        sizes = self._view.lengths(ahead) + LENGTH_BYTES + SCHEMA_ID_BYTES
        count = max(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), 1)
        self._position += min(count, len(ahead))
        return values_of(self._view.read(ahead[:count]))
