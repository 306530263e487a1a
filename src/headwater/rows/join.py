"""Small batches joined into one that keeps what their headers said."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.model import Schema
from headwater.model.arrow import arrow_schema
from headwater.rows import log_batch
from headwater.rows.message import PLAIN_BYTES_MAX, MessageWriter
from headwater.rows.statistics import encode_statistics, statistics_columns

Longs = npt.NDArray[np.int64]
Data = bytes | memoryview

DECODED_BYTES_MAX = 32 << 20
"""Bytes of joined rows after decompression."""
CHECKSUMS_KEPT = 16
"""A writer's last batches, whose checksums are kept: no earlier one is sent again."""
_VERSION = 1
_HEAD = struct.Struct("<Bi")
_COLUMNS = ("<i4", "<i8", "<i8", "<i4", "<u4")
_WIDTH = sum(np.dtype(kind).itemsize for kind in _COLUMNS)
_CODEC = pa.Codec("zstd", compression_level=3)
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_SCHEMAS_KEPT = 64


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The headers of joined batches, a column for each field."""

    counts: Longs
    timestamps: Longs
    writer_ids: Longs
    sequences: Longs
    checksums: Longs

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def starts(self) -> Longs:
        """The position of the first row of each part."""
        starts: Longs = np.cumsum(self.counts) - self.counts
        return starts

    def row_timestamps(self) -> Longs:
        """Repeat the timestamp of each part for its rows."""
        return np.repeat(self.timestamps, self.counts)

    def first_at(self, timestamp_ms: int) -> int:
        """Find the first row of this time or later."""
        at = int(np.searchsorted(self.timestamps, timestamp_ms))
        return int(self.counts[:at].sum())


def read_parts(batch: Data, header: log_batch.BatchHeader) -> Parts:
    """Read the parts of a batch; one that was not joined is a single part."""
    if not header.is_joined:
        fields = (
            header.record_count,
            header.commit_timestamp,
            header.writer_id,
            header.sequence,
            header.crc,
        )
        return Parts(*(np.array([each], np.int64) for each in fields))
    sections = log_batch.read_sections(batch, header)
    parts = _decoded(bytes(memoryview(batch)[sections.parts_start : sections.parts_end]))
    is_sound = (
        len(parts) > 0
        and int(parts.counts.min()) > 0
        and int(parts.counts.sum()) == header.record_count
        and bool((np.diff(parts.timestamps) >= 0).all())
        and int(parts.timestamps[-1]) == header.commit_timestamp
    )
    if not is_sound:
        raise CorruptBatchError("The parts of a joined batch do not match its header.")
    return parts


def original_headers(batch: Data, header: log_batch.BatchHeader) -> Iterator[log_batch.BatchHeader]:
    """Yield the headers of the batches that were joined, or of a batch that was not.

    Their lengths are no longer known and set to 0.
    """
    if not header.is_joined:
        yield header
        return
    parts = read_parts(batch, header)
    columns = (parts.starts, parts.counts, parts.timestamps)
    writers = (parts.writer_ids, parts.sequences, parts.checksums)
    for start, count, timestamp, writer_id, sequence, crc in zip(
        *(column.tolist() for column in (*columns, *writers)), strict=True
    ):
        yield replace(
            header,
            base_offset=header.base_offset + start,
            length=0,
            commit_timestamp=timestamp,
            crc=crc,
            attributes=header.attributes & ~log_batch.JOINED,
            last_offset_delta=count - 1,
            writer_id=writer_id,
            sequence=sequence,
            record_count=count,
        )


def encode_parts(parts: Parts) -> bytes:
    """Encode the table of parts."""
    columns = (
        parts.counts,
        np.diff(parts.timestamps, prepend=0),
        np.diff(parts.writer_ids, prepend=0),
        np.diff(parts.sequences, prepend=0),
        parts.checksums,
    )
    plain = b"".join(
        column.astype(kind).tobytes() for column, kind in zip(columns, _COLUMNS, strict=True)
    )
    packed = _CODEC.compress(plain, asbytes=True)
    return b"".join((_HEAD.pack(_VERSION, len(parts)), packed))


def _decoded(data: bytes) -> Parts:
    try:
        version, count = _HEAD.unpack_from(data)
        if version != _VERSION or count < 0:
            raise CorruptBatchError(f"A joined batch has {count} parts of version {version}.")
        packed, size = data[_HEAD.size :], count * _WIDTH
        plain = _CODEC.decompress(packed, decompressed_size=size, asbytes=True)
    except (struct.error, OSError, pa.ArrowException) as error:
        raise CorruptBatchError(f"The parts of a joined batch cannot be read: {error}.") from None
    columns, position = [], 0
    for kind in _COLUMNS:
        column = np.frombuffer(plain, kind, count=count, offset=position)
        position += column.nbytes
        columns.append(column.astype(np.int64))
    counts, timestamps, writer_ids, sequences, checksums = columns
    # Sequences wrap at 31 bits, and so do their differences.
    sequences = np.cumsum(sequences).astype(np.int32).astype(np.int64)
    return Parts(counts, np.cumsum(timestamps), np.cumsum(writer_ids), sequences, checksums)


@dataclass(frozen=True, slots=True)
class JoinKind:
    """What batches must have in common to be joined."""

    schema_id: int
    attributes: int
    statistics: tuple[int, ...] | None


def kind_of(batch: Data, header: log_batch.BatchHeader) -> JoinKind:
    """Work out the join kind of a batch, joined or not."""
    columns = None
    if header.magic == log_batch.MAGIC_STATISTICS:
        sections = log_batch.read_sections(batch, header)
        found = memoryview(batch)[sections.statistics_start : sections.statistics_end]
        columns = statistics_columns(found) if len(found) else ()
    return JoinKind(header.schema_id, header.attributes & ~log_batch.JOINED, columns)


class Joiner:
    """Join batches of one table, and split joined ones."""

    def __init__(self, schema_of: Callable[[int], Schema], codec: pa.Codec | None) -> None:
        self._schema_of = schema_of
        self._codec = codec
        self._message_writer = lru_cache(_SCHEMAS_KEPT)(self._make_writer)

    def join(self, batches: Sequence[Data]) -> bytes | None:
        """Join consecutive batches of one kind.

        None means that the result would be too large after decompression.
        """
        headers = [log_batch.read_header(batch) for batch in batches]
        sections = [log_batch.read_sections(*pair) for pair in zip(batches, headers, strict=True)]
        schema = self._schema_of(headers[0].schema_id)
        kind = kind_of(batches[0], headers[0])
        rows = _rows_of(batches, headers, sections, schema)
        if rows.nbytes > DECODED_BYTES_MAX:
            return None
        parts = _all_parts([read_parts(*pair) for pair in zip(batches, headers, strict=True)])
        statistics = None
        if kind.statistics is not None:
            statistics = encode_statistics(rows, schema, kind.statistics) or b""
        return log_batch.build_batch(
            self._message(rows, headers[0].schema_id),
            schema_id=kind.schema_id,
            record_count=rows.num_rows,
            statistics=statistics,
            parts=encode_parts(_without_old_checksums(parts)),
            changes=_all_changes(batches, headers, sections),
            base_offset=headers[0].base_offset,
            timestamp_ms=headers[-1].commit_timestamp,
        )

    def split(self, batch: Data, header: log_batch.BatchHeader, *, offset: int) -> Iterator[bytes]:
        """Yield batches, one for each time from an offset on, for readers without parts.

        They have no statistics, which are only useful before a batch is read.
        """
        sections = log_batch.read_sections(batch, header)
        schema = self._schema_of(header.schema_id)
        rows = _rows_of([batch], [header], [sections], schema)
        changes = _all_changes([batch], [header], [sections])
        times = read_parts(batch, header).row_timestamps()
        starts = np.flatnonzero(np.diff(times, prepend=times[0] - 1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(times)], strict=True):
            if header.base_offset + end <= offset:
                continue
            yield log_batch.build_batch(
                self._message(rows.slice(start, end - start), header.schema_id),
                schema_id=header.schema_id,
                record_count=end - start,
                changes=None if changes is None else changes[start:end],
                base_offset=header.base_offset + start,
                timestamp_ms=int(times[start]),
            )

    def _message(self, rows: pa.RecordBatch, schema_id: int) -> memoryview:
        return self._message_writer(schema_id).write(rows, plain_bytes_max=PLAIN_BYTES_MAX)

    def _make_writer(self, schema_id: int) -> MessageWriter:
        return MessageWriter(arrow_schema(self._schema_of(schema_id)), self._codec)


def _rows_of(
    batches: Sequence[Data],
    headers: Sequence[log_batch.BatchHeader],
    sections: Sequence[log_batch.BatchSections],
    schema: Schema,
) -> pa.RecordBatch:
    arrow = arrow_schema(schema)
    messages = (
        memoryview(batch)[section.changes_end : header.size]
        for batch, header, section in zip(batches, headers, sections, strict=True)
    )
    # One stream is read at once, however many messages it has.
    stream = b"".join((arrow.serialize().to_pybytes(), *messages))
    try:
        table = pa.ipc.open_stream(stream, options=_ONE_THREAD).read_all()
    except (pa.ArrowException, OSError) as error:
        raise CorruptBatchError(f"Arrow rejects batches to be joined: {error}.") from None
    count = sum(header.record_count for header in headers)
    if table.num_rows != count:
        raise CorruptBatchError(f"Batches of {count} records have {table.num_rows} rows.")
    return table.combine_chunks().to_batches()[0]


def _all_parts(parts: Sequence[Parts]) -> Parts:
    return Parts(
        np.concatenate([each.counts for each in parts]),
        np.concatenate([each.timestamps for each in parts]),
        np.concatenate([each.writer_ids for each in parts]),
        np.concatenate([each.sequences for each in parts]),
        np.concatenate([each.checksums for each in parts]),
    )


def _without_old_checksums(parts: Parts) -> Parts:
    """Drop checksums that are no longer needed, since they cannot be compressed."""
    order = np.argsort(parts.writer_ids, kind="stable")
    ordered = parts.writer_ids[order]
    ends = np.searchsorted(ordered, ordered, side="right")
    kept = np.zeros(len(parts), np.bool_)
    kept[order] = ends - np.arange(len(parts)) <= CHECKSUMS_KEPT
    return replace(parts, checksums=np.where(kept, parts.checksums, 0))


def _all_changes(
    batches: Sequence[Data],
    headers: Sequence[log_batch.BatchHeader],
    sections: Sequence[log_batch.BatchSections],
) -> bytes | None:
    if headers[0].is_append_only:
        return None
    return b"".join(
        bytes(memoryview(batch)[section.changes_start : section.changes_end])
        for batch, section in zip(batches, sections, strict=True)
    )
