"""Virtual tables that are followed: what is held back is not lost."""

import numpy as np
import pyarrow as pa

from headwater.model.bucket import TableBucket
from headwater.read.offsets import LogBatch, Place
from headwater.read.virtual import VirtualKind, VirtualShape, VirtualTail
from headwater.rows.log_batch import ChangeType

ROWS = pa.schema([("id", pa.int32())])
BUCKET = TableBucket(1, 0)


def batch(first, *changes):
    return LogBatch(
        rows=pa.record_batch({"id": pa.array([7] * len(changes), pa.int32())}),
        changes=np.array(changes, np.uint8),
        offsets=np.arange(first, first + len(changes)),
        timestamp_ms=1,
        bucket=BUCKET,
        partition=None,
    )


class FakeTail:
    """Give batches one after the other."""

    def __init__(self, *batches):
        self._batches = list(batches)
        self.position = {Place(None, 0): 0}

    async def poll(self, timeout_s=1.0):
        given = self._batches.pop(0)
        self.position = {Place(None, 0): int(given.offsets[-1]) + 1}
        return [given]


def binlog(*batches):
    shape = VirtualShape(ROWS, VirtualKind.BINLOG, columns=["_change_type"], where=None)
    return VirtualTail(FakeTail(*batches), shape)


async def test_another_tail_would_begin_with_the_half_that_is_held_back():
    tail = binlog(
        batch(0, ChangeType.INSERT, ChangeType.UPDATE_BEFORE), batch(2, ChangeType.UPDATE_AFTER)
    )

    first = await tail.poll()
    held_at = tail.position
    second = await tail.poll()

    assert [each.rows["_change_type"].to_pylist() for each in first + second] == [
        ["insert"],
        ["update"],
    ]
    assert held_at == {Place(None, 0): 1}
    assert tail.position == {Place(None, 0): 3}


async def test_every_shaped_row_has_the_offset_that_it_reports():
    tail = binlog(batch(4, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE))

    [shaped] = await tail.poll()

    assert shaped.offsets.tolist() == [4, 6]
    assert shaped.changes is None
