"""The rows of an epoch while they are put in order: in memory, or in files where they are many."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.client.reading.log_batch import Place
from headwater.rows.row_bytes import Longs, Mask

MEMORY_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class PlaceRows:
    """Hold the rows of one bucket as they came, and which of them delete their key."""

    chunks: list[pa.RecordBatch] = field(default_factory=list)
    deletes: list[Mask] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return sum(chunk.num_rows for chunk in self.chunks)

    @property
    def only_deletes(self) -> bool:
        """Tell whether no row is written."""
        return all(bool(each.all()) for each in self.deletes)


class HeldRows:
    """Hold rows by bucket; beyond a limit they are moved to files, which need no memory."""

    def __init__(self, *, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.places: dict[Place, PlaceRows] = {}
        self._memory_bytes_max = memory_bytes_max
        self._memory_bytes = 0
        # How many chunks of each place are in files already.
        self._moved: dict[Place, int] = {}

    def add(self, place: Place, rows: pa.RecordBatch, *, deletes: Mask | None) -> None:
        """Put rows behind those of their bucket."""
        held = self.places.setdefault(place, PlaceRows())
        held.chunks.append(rows)
        held.deletes.append(np.zeros(rows.num_rows, np.bool_) if deletes is None else deletes)
        self._memory_bytes += rows.nbytes

    @property
    def is_full(self) -> bool:
        """Tell whether rows should be moved to a file before more are added."""
        return self._memory_bytes > self._memory_bytes_max

    def spill(self) -> None:
        """Move what is in memory to a file that is gone as soon as nobody reads it any more."""
        with tempfile.NamedTemporaryFile(prefix="headwater-epoch-") as file:
            moving = [
                (place, at)
                for place, held in self.places.items()
                for at in range(self._moved.get(place, 0), len(held.chunks))
            ]
            chunks = [self.places[place].chunks[at] for place, at in moving]
            for (place, at), chunk in zip(moving, _moved(chunks, Path(file.name)), strict=True):
                self.places[place].chunks[at] = chunk
                self._moved[place] = at + 1
        self._memory_bytes = 0

    def pop(self, place: Place) -> PlaceRows:
        """Give the rows of one bucket away; those in memory as one chunk, which is quicker."""
        held = self.places.pop(place)
        if place not in self._moved and len(held.chunks) > 1:
            held.chunks = [pa.concat_batches(held.chunks)]
        return held


def _moved(chunks: Sequence[pa.RecordBatch], path: Path) -> list[pa.RecordBatch]:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, chunks[0].schema) as writer:
        for chunk in chunks:
            writer.write_batch(chunk)
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(at) for at in range(reader.num_record_batches)]


class Gathered:
    """Take rows from chunks by their places, as if they lay one after the other."""

    def __init__(self, chunks: Sequence[pa.RecordBatch]) -> None:
        self._chunks = chunks
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in chunks)])

    def take(self, places: Longs) -> pa.RecordBatch:
        """Return rows in the order of the places."""
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(places))
        which = np.searchsorted(self._starts, places, side="right") - 1
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(self._chunks) + 1))
        parts = [
            chunk.take(pa.array(places[order[low:high]] - start))
            for chunk, start, low, high in zip(
                self._chunks, self._starts[:-1], bounds[:-1], bounds[1:], strict=True
            )
            if high > low
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))
