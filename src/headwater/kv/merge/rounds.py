"""The fold of one column, record by record for each key but for many keys at a time.

Round r takes the r-th record of every key that has so many. Once few keys are left, their records
are folded value by value, so that a hot key does not cost one vector operation for each record.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import RecordTooLargeError
from headwater.kv.merge.functions import VectorFold, vector_form
from headwater.kv.merge.scalar import Fold, Value, scalar_form
from headwater.kv.merge.turns import Turns
from headwater.model.aggregate import AggregateFunction

# Below so many keys a round costs more as vectors than value by value.
ROUND_KEYS_MIN: Final = 64
# Each record of a key shows the whole value, so a long text on a hot key grows quadratically.
COLUMN_BYTES_MAX: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Rounds:
    """Hold which turns each round takes; keys with more turns come first.

    `steps` are the rounds done as vectors, `tail` the turns left of each key after them, and
    `places` brings the results back into the order of turns.
    """

    keys: npt.NDArray[np.int64]
    steps: tuple[npt.NDArray[np.int64], ...]
    tail: tuple[range, ...]
    places: npt.NDArray[np.int64] | None
    is_delete: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, turns: Turns) -> Self:
        """Arrange turns in rounds."""
        starts = np.flatnonzero(turns.is_first)
        lengths = np.diff(starts, append=len(turns.keys))
        longest_first = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[longest_first], lengths[longest_first]
        steps: list[npt.NDArray[np.int64]] = []
        count = len(starts)
        while count and count >= ROUND_KEYS_MIN:
            steps.append(starts[:count] + len(steps))
            count = int(np.searchsorted(-lengths, -len(steps), side="left"))
        tail = tuple(
            range(int(start) + len(steps), int(start) + int(length))
            for start, length in zip(starts[:count], lengths[:count], strict=True)
        )
        return cls(turns.keys[starts], tuple(steps), tail, _places(steps, tail), turns.is_delete)

    def fold(self, function: AggregateFunction, *, held: pa.Array, written: pa.Array) -> pa.Array:
        """Return the value after each turn, given those held by key and those written by turn."""
        shown, stored = written.type, _stored_type(written.type)
        held, written = held.view(stored).take(pa.array(self.keys)), written.view(stored)
        folded = self._by_vector(vector_form(function, stored), held=held, written=written)
        if self.tail:
            last = folded[-1] if folded else held
            scalar = scalar_form(function, stored)
            with np.errstate(over="ignore"):  # a float that is too large is infinite, as in Java
                folded.append(self._by_value(scalar, last=last, written=written))
        joined = pa.concat_arrays(folded) if len(folded) > 1 else folded[0]
        return _taken(joined, self.places).view(shown)

    def _by_vector(self, fold: VectorFold, *, held: pa.Array, written: pa.Array) -> list[pa.Array]:
        folded: list[pa.Array] = []
        is_single = not self.tail and len(self.steps) == 1 and self.places is None
        has_deletes, size = bool(self.is_delete.any()), 0
        for step in self.steps:
            last = folded[-1].slice(0, len(step)) if folded else held
            result = fold(last, _taken(written, None if is_single else step))
            if has_deletes:
                gone = pa.array(self.is_delete[step])
                result = pc.if_else(gone, pa.scalar(None, result.type), result)
            folded.append(result)
            size += result.nbytes
            _check_size(size)
        return folded

    def _by_value(self, fold: Fold, *, last: pa.Array, written: pa.Array) -> pa.Array:
        values: list[Value | None] = []
        size, first = 0, last.slice(0, len(self.tail)).to_pylist()
        for value, turns in zip(first, self.tail, strict=True):
            news = written.slice(turns.start, len(turns)).to_pylist()
            gone = self.is_delete[turns.start : turns.stop].tolist()
            for after in _accumulated(fold, value, zip(news, gone, strict=True)):
                values.append(after)
                if isinstance(after, str | bytes):
                    size += len(after)
                    _check_size(size)
        return pa.array(values, type=written.type)


def _accumulated(
    fold: Fold, value: Value | None, turns: Iterable[tuple[Value | None, bool]]
) -> Iterator[Value | None]:
    """Yield the value after each turn; what a delete writes is missing, like its row."""
    for new, is_gone in turns:
        if is_gone or value is None:
            value = new
        elif new is not None:
            value = fold(value, new)
        yield value


def _check_size(byte_count: int) -> None:
    if byte_count > COLUMN_BYTES_MAX:
        raise RecordTooLargeError(
            f"The merged values take over {COLUMN_BYTES_MAX} bytes.",
            hint="Each record of a key shows the whole value; write smaller batches.",
        )


def _stored_type(shown: pa.DataType) -> pa.DataType:
    """Return the type to compute in: a point in time is a number."""
    if not pa.types.is_temporal(shown):
        return shown
    return pa.int64() if shown.bit_width == 64 else pa.int32()  # noqa: PLR2004


def _taken(column: pa.Array, rows: npt.NDArray[np.int64] | None) -> pa.Array:
    return column if rows is None else column.take(pa.array(rows))


def _places(
    steps: list[npt.NDArray[np.int64]], tail: tuple[range, ...]
) -> npt.NDArray[np.int64] | None:
    taken = np.concatenate([*steps, *(np.array(turns, dtype=np.int64) for turns in tail)])
    places = np.empty_like(taken)
    places[taken] = np.arange(len(taken))
    return None if np.array_equal(places, np.arange(len(taken))) else places
