"""Stored batches as a server sends them, turned into the rows that a reader wants."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import LogBatch
from headwater.client.reading.view import View
from headwater.errors import CorruptBatchError, DamagedRangeError, RecordTooLargeError
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.schema import Column, Schema
from headwater.rows.joined import read_parts
from headwater.rows.log_batch import (
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    read_header,
    read_sections,
)
from headwater.wire.fields import Part


@dataclass(frozen=True, slots=True, eq=False)
class StoredBatch:
    """Hold a batch as it came."""

    header: BatchHeader
    data: memoryview


@dataclass(frozen=True, slots=True)
class Source:
    """Say which bucket batches came from, and whether the server has cut them to the columns."""

    bucket: TableBucket
    partition: str | None
    is_projected: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adaptation:
    """Know the columns of batches of one schema, and where the wanted ones stand among them."""

    schema: pa.Schema
    sources: tuple[int | None, ...]


def stored_batches(records: Sequence[Part]) -> list[StoredBatch]:
    """Return the whole batches of an answer; servers may cut the last one off."""
    batches: list[StoredBatch] = []
    for part in records:
        batches += _whole_batches(memoryview(part))
    if not batches and any(records):
        raise RecordTooLargeError(
            "The first batch of an answer was cut off.",
            hint="Raise `fetch_bucket_bytes_max` above the size of a batch.",
        )
    return batches


def _whole_batches(data: memoryview) -> Iterator[StoredBatch]:
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield StoredBatch(header, data[position : position + header.size])
        position += header.size


class LogReader:
    """Decode batches of any schema version into one view of the table."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._cluster = cluster
        self._view = view
        self._read_schema = arrow_schema(Schema(columns=view.read_columns))
        self._projected = _adaptation(view.read_columns, view.read_columns)
        self._by_schema: dict[int, Adaptation] = {}

    def knows(self, batches: Iterable[StoredBatch]) -> bool:
        """Tell whether the schemas of batches are known."""
        return all(batch.header.schema_id in self._by_schema for batch in batches)

    async def prepare(self, batches: Iterable[StoredBatch]) -> None:
        """Learn the schemas of batches, before they are decoded without waiting."""
        for schema_id in {batch.header.schema_id for batch in batches}:
            if schema_id not in self._by_schema:
                schema = await self._cluster.schema(self._view.table, schema_id)
                adaptation = _adaptation(schema.columns, self._view.read_columns)
                self._by_schema[schema_id] = adaptation

    def read(
        self,
        batches: Sequence[StoredBatch],
        wanted: OffsetRange,
        *,
        source: Source,
    ) -> list[LogBatch]:
        """Return the wanted rows of these offsets; a batch may begin before or end behind them."""
        found, offset = [], wanted.start
        for batch in batches:
            header = batch.header
            if header.base_offset > offset and self._view.predicate is None:
                raise DamagedRangeError(
                    f"The log of {source.bucket} goes from offset {offset} to {header.base_offset}."
                )
            offset = max(offset, header.end_offset)
            # The checksum of a projected batch is that of the whole one where Fluss serves it.
            if self._cluster.settings.checks_crc and not source.is_projected:
                check_crc(batch.data, header)
            if header.record_count and header.base_offset < wanted.end:
                rows = self._rows(batch, is_projected=source.is_projected)
                part = self._cut(rows, batch, wanted=wanted, source=source)
                if part.rows.num_rows:
                    found.append(part)
        return found

    def _rows(self, batch: StoredBatch, *, is_projected: bool) -> pa.RecordBatch:
        header = batch.header
        adaptation = self._projected if is_projected else self._by_schema[header.schema_id]
        start = read_sections(batch.data, header).changes_end
        try:
            rows = pa.ipc.read_record_batch(_copied(batch.data[start:]), adaptation.schema)
        except (pa.ArrowInvalid, OSError) as fault:
            raise CorruptBatchError(f"A batch holds no readable rows: {fault}") from None
        if rows.num_rows != header.record_count:
            raise CorruptBatchError(
                f"A batch of {header.record_count} records holds {rows.num_rows} rows."
            )
        return _adapted(rows, adaptation, self._read_schema)

    def _cut(
        self, rows: pa.RecordBatch, batch: StoredBatch, *, wanted: OffsetRange, source: Source
    ) -> LogBatch:
        header, view = batch.header, self._view
        base = header.base_offset
        low, high = max(wanted.start - base, 0), min(wanted.end - base, header.record_count)
        rows = rows.slice(low, max(high - low, 0))
        offsets = np.arange(base + low, base + low + rows.num_rows)
        changes = None
        if not header.is_append_only:
            sections = read_sections(batch.data, header)
            types = batch.data[sections.parts_end : sections.changes_end]
            changes = np.frombuffer(bytes(types), np.uint8)[low : low + rows.num_rows]
        times = None
        if header.is_joined:
            times = read_parts(batch.data, header).row_timestamps()[low : low + rows.num_rows]
        if view.filter is not None:
            mask = view.filter.mask(rows)
            kept = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            rows, offsets = rows.filter(mask), offsets[kept]
            changes = None if changes is None else changes[kept]
            times = None if times is None else times[kept]
        return LogBatch(
            rows=view.given(rows),
            changes=changes,
            offsets=offsets,
            timestamp_ms=header.commit_timestamp
            if times is None or not len(times)
            else int(times[-1]),
            bucket=source.bucket,
            partition=source.partition,
            timestamps=times,
        )


def _copied(message: memoryview) -> pa.Buffer:
    """Return a copy that is aligned, as others want Arrow to be, and keeps no answer in memory."""
    buffer = pa.allocate_buffer(len(message))
    # NumPy lets others run while it copies.
    np.frombuffer(buffer, np.uint8)[:] = np.frombuffer(message, np.uint8)
    return buffer


def _adaptation(written: Sequence[Column], wanted: Sequence[Column]) -> Adaptation:
    position_of = {column.column_id: position for position, column in enumerate(written)}
    return Adaptation(
        arrow_schema(Schema(columns=tuple(written))),
        tuple(position_of.get(column.column_id) for column in wanted),
    )


def _adapted(rows: pa.RecordBatch, adaptation: Adaptation, schema: pa.Schema) -> pa.RecordBatch:
    """Return the wanted columns by id; those that were added later hold nulls."""
    arrays = [
        pa.nulls(rows.num_rows, field.type) if source is None else rows.column(source)
        for source, field in zip(adaptation.sources, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)
