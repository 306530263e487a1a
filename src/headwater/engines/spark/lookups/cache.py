"""Answers that are kept for a while, so that a key that comes often is asked for seldom."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engines.spark.lookups.answers import Answers
from headwater.engines.spark.lookups.keys import DistinctKeys
from headwater.rows.row_bytes import Longs
from headwater.runtime.clock import Clock

_NOWHERE = -1
Ask = Callable[[DistinctKeys, Longs], Answers]
"""Look up those of the keys that are at these positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Say how much is held: so many keys and rows, so large, for so long."""

    rows_max: int
    bytes_max: int
    age_max_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Hold keys with their answers and the moments at which they were asked for."""

    ids: pa.Array
    answers: Answers
    asked_at: npt.NDArray[np.float64]

    def fits(self, room: "Room") -> bool:
        # A key without a row takes room as well.
        count = len(self.ids) + self.answers.rows.num_rows
        return count <= room.rows_max and self.answers.rows.nbytes <= room.bytes_max

    def select(self, positions: Longs) -> "_Held":
        answers = self.answers.select(positions).compact()
        return _Held(self.ids.take(pa.array(positions)), answers, self.asked_at[positions])

    def plus(self, others: "_Held") -> "_Held":
        return _Held(
            pa.concat_arrays([self.ids, others.ids]),
            self.answers.plus(others.answers),
            np.concatenate((self.asked_at, others.asked_at)),
        )


class Cache:
    """Keep as many answers as there is room for."""

    def __init__(self, clock: Clock, room: Room) -> None:
        self._clock = clock
        self._room = room
        self._held: _Held | None = None

    def answer(self, keys: DistinctKeys, ask: Ask) -> Answers:
        """Answer keys from what is held, and ask for the others."""
        now = self._clock.monotonic()
        held = self._fresh(now)
        positions = _positions(keys.ids, held)
        missing = np.flatnonzero(positions == _NOWHERE)
        if held is None or len(missing):
            asked = _Held(keys.ids.take(pa.array(missing)), ask(keys, missing), _at(now, missing))
            positions[missing] = np.arange(len(missing)) + (0 if held is None else len(held.ids))
            held = asked if held is None else held.plus(asked)
        if not held.fits(self._room):
            # Full: what was not asked for this time makes room for what was.
            held = held.select(positions)
            positions = np.arange(len(positions))
        self._held = held if held.fits(self._room) else None
        return held.answers.select(positions)

    def _fresh(self, now: float) -> _Held | None:
        held = self._held
        if held is None:
            return None
        is_fresh = held.asked_at > now - self._room.age_max_s
        return held if is_fresh.all() else held.select(np.flatnonzero(is_fresh))


def _positions(ids: pa.Array, held: _Held | None) -> Longs:
    if held is None:
        return np.full(len(ids), _NOWHERE, np.int64)
    found = pc.index_in(ids, value_set=held.ids).fill_null(_NOWHERE)
    return np.asarray(found).astype(np.int64)


def _at(now: float, keys: Longs) -> npt.NDArray[np.float64]:
    return np.full(len(keys), now)
