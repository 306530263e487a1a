"""What a lake writer is given of a log."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.bucket import TableBucket
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType
from headwater.tiering.task import chunk_of

CHANGES = st.sampled_from(
    [ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE]
)


def batch(changes, count):
    return LogBatch(
        rows=pa.record_batch({"n": pa.array(range(count), pa.int64())}),
        changes=None if changes is None else np.array(changes, np.uint8),
        offsets=np.arange(count),
        timestamp_ms=0,
        bucket=TableBucket(1, 0),
        partition=None,
    )


def test_rows_of_a_log_table_are_given_as_they_are():
    given_rows = batch(None, 3)

    chunk = chunk_of(given_rows)

    assert chunk.rows is given_rows.rows
    assert chunk.deleted is None


@given(st.lists(CHANGES, max_size=30))
def test_rows_before_an_update_are_left_out_and_deletes_are_marked(changes):
    chunk = chunk_of(batch(changes, len(changes)))

    wanted = [at for at, kind in enumerate(changes) if kind is not ChangeType.UPDATE_BEFORE]
    assert chunk.rows["n"].to_pylist() == wanted
    assert chunk.deleted.to_pylist() == [changes[at] is ChangeType.DELETE for at in wanted]
