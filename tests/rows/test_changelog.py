"""Changelog batches: rows with what happened to them."""

import numpy as np
import pyarrow as pa

from headwater.rows.changelog import build_changelog, read_changelog
from headwater.rows.log_batch import ChangeType, read_header
from tests.cases import cases

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("text", pa.string())])


def read_back(rows, types, **options):
    batch = build_changelog(rows, types, schema_id=1, writer=(7, 3), **options)
    header = read_header(memoryview(batch))
    return header, *read_changelog(batch, header, SCHEMA)


@cases("codec", [None, pa.Codec("zstd"), pa.Codec("lz4")])
def test_rows_and_their_changes_are_read_back(codec):
    rows = pa.record_batch([[1, 1, 2], ["a", None, "é" * 100]], schema=SCHEMA)
    types = np.array([ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE])

    header, read_types, read_rows = read_back(rows, types.astype(np.uint8), codec=codec)

    assert (header.writer_id, header.sequence, header.record_count) == (7, 3, 3)
    assert read_types.tolist() == types.tolist()
    assert read_rows.equals(rows)


def test_a_batch_without_changes_carries_its_sequence_and_no_rows():
    header, types, rows = read_back(None, np.empty(0, np.uint8), codec=None)

    assert (header.writer_id, header.sequence, header.record_count) == (7, 3, 0)
    assert (len(types), rows.num_rows) == (0, 0)
    assert rows.schema.equals(SCHEMA)
