"""The number of the task that writes a row: one for all rows of a bucket."""

import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.casting import cast_column
from headwater.client.routing import Router
from headwater.model.arrow import arrow_schema
from headwater.model.descriptor import TableDescriptor


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """Number the tasks that rows of a table are for."""

    descriptor: TableDescriptor
    count: int

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns by which rows find their bucket; none if any bucket will do."""
        keys = self.descriptor.bucket_keys or self.descriptor.physical_primary_key
        return tuple(dict.fromkeys((*self.descriptor.partition_keys, *keys))) if keys else ()

    def of(self, *columns: pa.Array) -> pa.Array:
        """Return the task of each row, given the columns that `names` names."""
        schema = arrow_schema(self.descriptor.schema)
        fields = [schema.field(name) for name in self.names]
        batch = pa.RecordBatch.from_arrays(
            [cast_column(column, field) for column, field in zip(columns, fields, strict=True)],
            names=list(self.names),
        )
        tasks = np.zeros(batch.num_rows, np.int32)
        for share in Router.of(self.descriptor).route(batch):
            assert share.bucket is not None
            # Partitions begin at different tasks, or the first would have most of the work.
            first = 0 if share.partition is None else zlib.crc32(share.partition.encode())
            tasks[slice(None) if share.rows is None else share.rows] = (
                first + share.bucket
            ) % self.count
        return pa.array(tasks)
