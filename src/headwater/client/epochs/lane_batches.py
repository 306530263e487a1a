"""The rows of one lane, in order and cut into the batches that every attempt sends."""

import numpy as np
import pyarrow as pa

from headwater.client.epochs.coding import Coding
from headwater.client.epochs.cut import Sizes, batches_of
from headwater.client.epochs.held import Gathered, PlaceRows
from headwater.client.writing.batches import Payload
from headwater.model.schema import Schema


class LaneBatches:
    """Hold the batches of one lane; each is encoded when it is asked for."""

    def __init__(self, held: PlaceRows, coding: Coding, schema: Schema) -> None:
        sizes, order = Sizes(schema), coding.order.of(held.chunks)
        self._coding = coding
        self._rows = Gathered(held.chunks)
        self._deletes = np.concatenate(held.deletes)
        measured = np.concatenate([sizes.of(chunk) for chunk in held.chunks])
        self._batches = batches_of(order, measured[order.places])

    def __len__(self) -> int:
        return len(self._batches)

    def row_count(self, number: int) -> int:
        """Return how many rows a batch has."""
        return len(self._batches[number])

    def rows(self, number: int) -> pa.RecordBatch:
        """Return the rows of a batch."""
        return self._rows.take(self._batches[number])

    def payload(self, number: int) -> Payload:
        """Encode a batch; the same bytes in every attempt of the same version."""
        deletes = self._deletes[self._batches[number]]
        return self._coding.lane.payload([self._coding.rows(self.rows(number), deletes)])
