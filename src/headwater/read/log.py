"""Stored batches of a log, from servers or from a remote store, turned into rows for a reader."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyarrow import fs

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.model import Column, OffsetRange, Schema, TableBucket
from headwater.model.arrow import arrow_schema
from headwater.read.filters import RowView
from headwater.read.offsets import LogBatch
from headwater.rows import log_batch
from headwater.rows.join import read_parts
from headwater.runtime.tasks import aside
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch import BucketAnswer
from headwater.wire.messages import Part

# Parts of a log that a cluster has moved to a remote store, read from there by the client.

FILE_SYSTEMS_MAX = 16
_OFFSET_DIGITS = 20
_LOCAL = "file"
_AS_S3 = {"s3a": "s3", "s3n": "s3"}  # as Hadoop calls it


def is_remote(answer: BucketAnswer) -> bool:
    """Tell whether an answer only says where the records are."""
    return answer.fields.HasField("remote_log_fetch_info")


async def with_records(answer: BucketAnswer, *, offset: int, chunk_bytes: int) -> BucketAnswer:
    """Return the answer with the records from the batch on that holds an offset.

    They are as they were written: a remote store cuts no columns and leaves out no rows.
    """
    if not is_remote(answer):
        return answer
    info = answer.fields.remote_log_fetch_info
    records = await aside(_read, info, offset=offset, chunk_bytes=chunk_bytes)
    return BucketAnswer(answer.fields, [records])


def _read(info: pb.RemoteLogFetchInfo, *, offset: int, chunk_bytes: int) -> memoryview:
    for index, segment in enumerate(info.remote_log_segments):
        if segment.remote_log_end_offset <= offset:
            continue
        start = info.first_start_pos if index == 0 else 0
        path = _path(info.remote_log_tablet_dir, segment)
        try:
            with _file_system(path).open_input_file(_within(path)) as file:
                found = _from(file, start, offset=offset, chunk_bytes=chunk_bytes)
        except FileNotFoundError as fault:
            # It expired meanwhile, or was moved: the leader knows what there is now.
            raise errors.LeaderMissingError(f"{path} is gone.") from fault
        except (OSError, pa.ArrowException) as fault:
            raise _unreadable(path, fault) from fault
        if found is not None:
            return found
    raise errors.RemoteLogError(
        f"No remote segment in {info.remote_log_tablet_dir} holds {offset}."
    )


def _from(
    file: pa.NativeFile, position: int, *, offset: int, chunk_bytes: int
) -> memoryview | None:
    """Return whole batches from the one on that holds an offset, or None if none does."""
    size = file.size()
    while position < size:
        data = memoryview(file.read_at(min(chunk_bytes, size - position), position))
        first, end = _span(data, offset)
        if first < end:
            return data[first:end]
        # All were too early, or one alone is longer than what was read.
        position += end
        chunk_bytes = max(chunk_bytes, _length(file, position))
    return None


def _span(data: memoryview, offset: int) -> tuple[int, int]:
    """Return where the first wanted batch begins and where the last whole one ends."""
    first = end = 0
    while len(data) - end >= log_batch.HEADER_BYTES:
        header = log_batch.read_header(data, end)
        if end + header.size > len(data):
            break
        end += header.size
        if header.end_offset <= offset:
            first = end
    return first, end


def _length(file: pa.NativeFile, position: int) -> int:
    """Return the bytes of the batch at a position; a file that ends within it is damaged."""
    head = file.read_at(log_batch.HEADER_BYTES, position)
    if not head:
        return 0
    length = log_batch.read_header(head).length + log_batch.LENGTH_END
    if position + length > file.size():
        raise errors.CorruptBatchError(
            f"A remote segment ends within the batch at byte {position}."
        )
    return length


def _path(directory: str, segment: pb.RemoteLogSegment) -> str:
    name = f"{segment.remote_log_start_offset:0{_OFFSET_DIGITS}}.log"
    return f"{directory.rstrip('/')}/{segment.remote_log_segment_id}/{name}"


def _file_system(path: str) -> fs.FileSystem:
    scheme, host, _ = _split(path)
    return _opened(scheme, host)


@lru_cache(maxsize=FILE_SYSTEMS_MAX)
def _opened(scheme: str, host: str) -> fs.FileSystem:
    """Open a store once, as its first connection may take seconds."""
    if scheme == _LOCAL:
        return fs.LocalFileSystem()
    found, _ = fs.FileSystem.from_uri(f"{_AS_S3.get(scheme, scheme)}://{host}/")
    return found


def _within(path: str) -> str:
    """Return a path as its store knows it."""
    scheme, host, rest = _split(path)
    return rest if scheme in (_LOCAL, "hdfs", "viewfs") else f"{host}{rest}"


def _split(path: str) -> tuple[str, str, str]:
    """Return scheme, host and path; by hand, as names may hold what has a meaning in addresses."""
    scheme, is_address, rest = path.partition("://")
    if not is_address:
        return _LOCAL, "", path.removeprefix("file:")
    host, slash, within = rest.partition("/")
    return scheme, host, slash + within


def _unreadable(path: str, fault: Exception) -> errors.RemoteLogError:
    return errors.RemoteLogError(
        f"{path} cannot be read: {fault}.",
        hint="Give this machine access to the remote store of the cluster, with credentials "
        "where pyarrow looks for them, or start at a later offset.",
    )


# Stored batches as a server sends them, turned into the rows that a reader wants.


@dataclass(frozen=True, slots=True, eq=False)
class FetchedBatch:
    """Hold a batch as it came."""

    header: log_batch.BatchHeader
    data: memoryview


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """Say which bucket batches came from, and whether the server has cut them to the columns."""

    bucket: TableBucket
    partition: str | None
    is_projected: bool
    has_holes: bool = False
    """Whether the server may have left rows out."""


@dataclass(frozen=True, slots=True, eq=False)
class Adaptation:
    """Know the columns of batches of one schema, and where the wanted ones stand among them."""

    schema: pa.Schema
    sources: tuple[int | None, ...]


def refuse_cut(answer: BucketAnswer, bucket: TableBucket) -> None:
    """Refuse the rows of somebody who may not read all, where it takes all to draw conclusions."""
    if answer.fields.HasField("filtered_end_offset"):
        raise errors.AccessError(
            f"The log of {bucket} has rows that you may not READ.",
            hint="Ask an operator to grant READ on all rows of the table.",
        )


def stored_batches(records: Sequence[Part]) -> list[FetchedBatch]:
    """Return the whole batches of an answer; servers may cut the last one off."""
    batches: list[FetchedBatch] = []
    for part in records:
        batches += _whole_batches(memoryview(part))
    if not batches and any(records):
        raise errors.RecordTooLargeError(
            "The first batch of an answer was cut off.",
            hint="Raise `fetch_bucket_bytes_max` above the size of a batch.",
        )
    return batches


def _whole_batches(data: memoryview) -> Iterator[FetchedBatch]:
    position = 0
    while len(data) - position >= log_batch.HEADER_BYTES:
        header = log_batch.read_header(data, position)
        if position + header.size > len(data):
            return
        yield FetchedBatch(header, data[position : position + header.size])
        position += header.size


class LogReader:
    """Decode batches of any schema version into one view of the table."""

    def __init__(self, cluster: Cluster, view: RowView) -> None:
        self._cluster = cluster
        self._view = view
        self._read_schema = arrow_schema(Schema(columns=view.read_columns))
        self._projected = _adaptation(view.read_columns, view.read_columns)
        self._by_schema: dict[int, Adaptation] = {}

    def knows(self, batches: Iterable[FetchedBatch]) -> bool:
        """Tell whether the schemas of batches are known."""
        return all(batch.header.schema_id in self._by_schema for batch in batches)

    async def prepare(self, batches: Iterable[FetchedBatch]) -> None:
        """Learn the schemas of batches, before they are decoded without waiting."""
        for schema_id in {batch.header.schema_id for batch in batches}:
            if schema_id not in self._by_schema:
                schema = await self._cluster.schema(self._view.table, schema_id)
                adaptation = _adaptation(schema.columns, self._view.read_columns)
                self._by_schema[schema_id] = adaptation

    def read(
        self,
        batches: Sequence[FetchedBatch],
        wanted: OffsetRange,
        *,
        source: BatchOrigin,
    ) -> list[LogBatch]:
        """Return the wanted rows of these offsets; a batch may begin before or end behind them."""
        found, offset = [], wanted.start
        for batch in batches:
            header = batch.header
            is_whole = self._view.predicate is None and not source.has_holes
            if header.base_offset > offset and is_whole:
                raise errors.DamagedRangeError(
                    f"The log of {source.bucket} goes from offset {offset} to {header.base_offset}."
                )
            offset = max(offset, header.end_offset)
            # The checksum of a projected batch is that of the whole one where Fluss serves it.
            if self._cluster.settings.checks_crc and not source.is_projected:
                log_batch.check_crc(batch.data, header)
            if header.record_count and header.base_offset < wanted.end:
                rows = self._rows(batch, is_projected=source.is_projected)
                part = self._cut(rows, batch, wanted=wanted, source=source)
                if part.rows.num_rows:
                    found.append(part)
        return found

    def _rows(self, batch: FetchedBatch, *, is_projected: bool) -> pa.RecordBatch:
        header = batch.header
        adaptation = self._projected if is_projected else self._by_schema[header.schema_id]
        start = log_batch.read_sections(batch.data, header).changes_end
        try:
            rows = pa.ipc.read_record_batch(_copied(batch.data[start:]), adaptation.schema)
        except (pa.ArrowInvalid, OSError) as fault:
            raise errors.CorruptBatchError(f"A batch holds no readable rows: {fault}") from None
        if rows.num_rows != header.record_count:
            raise errors.CorruptBatchError(
                f"A batch of {header.record_count} records holds {rows.num_rows} rows."
            )
        return _adapted(rows, adaptation, self._read_schema)

    def _cut(
        self, rows: pa.RecordBatch, batch: FetchedBatch, *, wanted: OffsetRange, source: BatchOrigin
    ) -> LogBatch:
        header, view = batch.header, self._view
        offsets = log_batch.read_offsets(batch.data, header)
        low, high = np.searchsorted(offsets, (wanted.start, wanted.end)).tolist()
        rows, offsets = rows.slice(low, high - low), offsets[low:high]
        changes = None
        if not header.is_append_only:
            sections = log_batch.read_sections(batch.data, header)
            types = batch.data[sections.changes_start : sections.changes_end]
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
