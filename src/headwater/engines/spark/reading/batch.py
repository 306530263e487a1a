"""Reading a table once."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.client.union.split import UnionSplit
from headwater.engines.spark.reading.batch_plan import plan_batch
from headwater.engines.spark.reading.planned import planned_of
from headwater.engines.spark.reading.sizes import estimated_rows
from headwater.engines.spark.reading.task import read_share
from headwater.engines.spark.reading.union_shares import rows_of
from headwater.engines.spark.reading.view_read import (
    ViewShare,
    read_view,
    shares_of,
    view_splits,
)
from headwater.engines.spark.reading.views import viewed
from headwater.engines.spark.source_options import SourceOptions


class BatchReader(DataSourceReader):
    """Read the rows of a table as they are when the read is planned, however often it is run.

    A table with a lake is read from there, and from its log where the lake ends. Else a log table
    is read from its first row to its last, a primary-key table as its rows are at one offset of
    each bucket.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        planned = None if options.planned is None else planned_of(options.planned)
        self._is_tail = planned is not None and planned.is_tail
        self._planned = None if planned is None else planned.splits
        self._options = replace(options, planned=None)
        self._schema = schema
        # The view travels to the tasks with the reader, once for all of their shares.
        whole, self._view = viewed(options)
        self._reading = whole.asked(schema, follows=False)

    def __getstate__(self) -> dict[str, object]:
        # Tasks have their own splits.
        own = ("_splits", "_planned")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads."""
        if self._view is not None:
            return [InputPartition(share) for share in shares_of(self._splits, self._options)]
        link = self._reading.link()
        planned = link.loop.run(plan_batch(link.awaiting.cluster, self._reading, self._options))
        return [InputPartition(share) for share in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        # Where there is nothing to read, Spark makes a task of its own that has no share.
        share = partition.value or ()
        if self._view is not None:
            share = ViewShare(self._view, share, self._is_tail)
            return read_view(self._reading, share, schema=self._schema, options=self._options)
        return read_share(
            self._reading,
            share,
            schema=self._schema,
            truncates_nanoseconds=self._options.truncates_nanoseconds,
        )

    def estimated_rows(self) -> int:
        """Return how many rows there are about: of a filtered read, as many as it looks at."""
        if self._view is None:
            return estimated_rows(self._options)
        rows = sum(map(rows_of, self._splits))
        return rows if self._options.limit is None else min(rows, self._options.limit)

    @cached_property
    def _splits(self) -> tuple[UnionSplit, ...]:
        if self._planned is not None:
            return self._planned
        assert self._view is not None
        return view_splits(self._view, self._reading, self._options)
