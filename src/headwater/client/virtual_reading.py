"""Reading the log of a table in the shape of one of its virtual tables."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.client.reading.filters import Filter, Where
from headwater.client.reading.log_batch import LogBatch, Offsets, Place
from headwater.client.reading.log_scan import LogScan
from headwater.client.reading.tail import Tail
from headwater.client.schema_in import schema_of
from headwater.client.showing import few, shown
from headwater.client.virtual import (
    LOG_OFFSET,
    Binlog,
    Changelog,
    VirtualKind,
    shaper,
    virtual_schema,
)
from headwater.errors import InvalidProjectionError
from headwater.model.bucket import TableBucket


class Shape:
    """Turn batches of a log into rows of a virtual table, bucket by bucket."""

    def __init__(
        self,
        rows: pa.Schema,
        kind: VirtualKind,
        *,
        columns: Sequence[str] | None,
        where: Where | None,
    ) -> None:
        whole = virtual_schema(rows, kind)
        self._rows, self.kind = rows, kind
        self._columns = None if columns is None else _known(columns, whole)
        self._filter = None if where is None else Filter.of(where, schema_of(whole))
        self._shapers: dict[TableBucket, Changelog | Binlog] = {}
        names = self._columns or tuple(whole.names)
        self.schema = pa.schema([whole.field(name) for name in names])

    def of(self, batch: LogBatch) -> LogBatch:
        """Return the rows that a batch of the log completes, each with the offset it reports."""
        known = self._shapers.get(batch.bucket)
        if known is None:
            known = self._shapers[batch.bucket] = shaper(self._rows, self.kind)
        shaped = known.shape(batch)
        if self._filter is not None:
            shaped = shaped.filter(self._filter.mask(shaped))
        offsets = shaped.column(LOG_OFFSET.name).to_numpy()
        if self._columns is not None:
            shaped = shaped.select(list(self._columns))
        return replace(batch, rows=shaped, offsets=offsets, changes=None)

    def forget(self, buckets: Collection[TableBucket]) -> None:
        """Drop what is held back in buckets that are read elsewhere from here on."""
        for bucket in buckets:
            self._shapers.pop(bucket, None)

    def held_offsets(self) -> dict[TableBucket, int]:
        """Return where to read on after a loss in buckets that hold something back."""
        return {
            bucket: known.held_offset
            for bucket, known in self._shapers.items()
            if isinstance(known, Binlog) and known.held_offset is not None
        }


class VirtualScan:
    """Read a part of a log as rows of a virtual table."""

    def __init__(self, scan: LogScan, shape: Shape, *, limit: int | None) -> None:
        self._scan = scan
        self._shape = shape
        self._limit = limit

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._shape.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        return self._scan.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        left = self._limit
        async with aclosing(self._scan.batches()) as batches:
            async for batch in batches:
                rows = self._shape.of(batch).rows
                if left is not None:
                    rows = rows.slice(0, left)
                    left -= rows.num_rows
                yield rows
                if left == 0:
                    return


class VirtualTail:
    """Follow a log as rows of a virtual table."""

    def __init__(self, tail: Tail, shape: Shape) -> None:
        self._tail = tail
        self._shape = shape
        self._places: dict[TableBucket, Place] = {}

    @property
    def name(self) -> str:
        """Return the name of the virtual table."""
        return f"{self._tail.name}${self._shape.kind}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are given."""
        return tuple(self._shape.schema.names)

    def __repr__(self) -> str:
        return shown(self, self.name, columns=few(self.columns))

    @property
    def position(self) -> Offsets:
        """Return the offset at which another tail would go on in each bucket."""
        held = {
            self._places[bucket]: offset for bucket, offset in self._shape.held_offsets().items()
        }
        return {**self._tail.position, **held}

    async def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return the batches that are there, waiting no longer than the timeout for the first."""
        batches = await self._tail.poll(timeout_s)
        for batch in batches:
            self._places[batch.bucket] = Place(batch.partition, batch.bucket.bucket)
        return [self._shape.of(batch) for batch in batches]

    async def __aiter__(self) -> AsyncIterator[LogBatch]:
        """Yield batches for ever."""
        while True:
            for batch in await self.poll():
                yield batch

    async def start(self) -> None:
        """Find the buckets and where to begin."""
        await self._tail.start()

    async def seek(self, offsets: Offsets) -> None:
        """Read on from other offsets in some of the buckets."""
        await self._tail.seek(offsets)
        self._forget([place for place in self._places.values() if place in offsets])

    async def assign(self, places: Offsets) -> None:
        """Follow these buckets and no others; one that goes on where it is is not disturbed."""
        before = self._tail.position
        await self._tail.assign(places)
        goes_on = {place for place, offset in places.items() if before.get(place) == offset}
        self._forget([place for place in self._places.values() if place not in goes_on])

    def _forget(self, places: Collection[Place]) -> None:
        self._shape.forget([bucket for bucket, place in self._places.items() if place in places])

    async def close(self) -> None:
        """Stop following."""
        await self._tail.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _known(columns: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    if unknown := [name for name in columns if name not in schema.names]:
        raise InvalidProjectionError(
            f"There is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    return tuple(columns)
