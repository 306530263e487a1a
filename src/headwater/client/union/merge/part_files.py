"""Changes as rows of files, by partition."""

import pyarrow as pa

from headwater.client.union.merge.keys import TableKey, hashes_of
from headwater.client.union.merge.part import Part
from headwater.client.union.merge.spill import SpillFiles, SpillRun, by_partition, partitions_of


def part_written(files: SpillFiles, part: Part) -> SpillRun:
    """Put changes into a file by partition."""
    rows = with_deletions(part)
    return files.write(rows.schema, by_partition(rows, partitions_of(hashes_of(part.keys))))


def with_deletions(part: Part) -> pa.RecordBatch:
    """Return changes as rows; their last column says whether the row was deleted."""
    fields = [*part.rows.schema, pa.field("is_deleted", pa.bool_())]
    columns = [*part.rows.columns, pa.array(part.is_deleted)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def part_read(key: TableKey, rows: pa.RecordBatch) -> Part:
    """Return changes that were written as rows."""
    is_deleted = rows.column(rows.num_columns - 1).to_numpy(zero_copy_only=False)
    rows = rows.select(list(range(rows.num_columns - 1)))
    return Part(rows, is_deleted, key.columns(rows))
