"""One batch of writes on its way through a merge rule."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.kv.merge.turns import Turns
from headwater.kv.merge.writes import Writes

Ids = Callable[[int], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold writes, the turns of those that count, and the source of numbers for new rows."""

    writes: Writes
    turns: Turns
    ids: Ids | None = None
