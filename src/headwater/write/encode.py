"""Rows as bytes: Arrow batches for log tables, keys with compacted rows for primary-key tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from headwater import errors
from headwater.config import options
from headwater.config.table_options import statistics_columns
from headwater.model import LogPosition, Schema, TableInfo
from headwater.model.arrow import arrow_schema
from headwater.rows.compacted.coders import encoder_of
from headwater.rows.few_rows import FewRowsMessage
from headwater.rows.keys import primary_key_encoder
from headwater.rows.kv_batch import RECORD_BYTES_MIN, build_kv_body, frame_kv_batch
from headwater.rows.log_batch import build_batch
from headwater.rows.message import MessageWriter, arrow_codec
from headwater.rows.row_bytes import Longs, RowBytes
from headwater.rows.statistics import encode_statistics
from headwater.wire import fluss_pb2 as pb
from headwater.wire import write
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.messages import Part, answer_of
from headwater.write.batches import Answer, WriteRows

# The columns that an upsert writes.


def target_columns(schema: Schema, columns: Sequence[str] | None) -> tuple[int, ...] | None:
    """Return the positions of the columns to write, or None for all.

    Columns that the server numbers are never written, so the others are named instead of all.
    """
    if columns is None:
        if not schema.auto_increment:
            return None
        columns = [name for name in schema.names if name not in schema.auto_increment]
    _check_columns(schema, columns)
    return tuple(sorted(map(schema.index_of, columns)))


def check_unnumbered(batch: pa.RecordBatch, schema: Schema) -> None:
    """Refuse values for columns that the server numbers."""
    for name in schema.auto_increment:
        if name in batch.schema.names and batch.column(name).null_count < batch.num_rows:
            raise errors.InvalidTargetColumnError(
                f"The column '{name}' is numbered by the server, so it cannot be written.",
                hint="Leave it out.",
            )


def _check_columns(schema: Schema, columns: Sequence[str]) -> None:
    if unknown := [name for name in columns if name not in schema.names]:
        raise errors.InvalidTargetColumnError(
            f"There is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if missing := [name for name in schema.primary_key if name not in columns]:
        raise errors.InvalidTargetColumnError(
            f"The columns to write leave out '{missing[0]}'.",
            hint="Name every column of the primary key.",
        )
    if numbered := [name for name in columns if name in schema.auto_increment]:
        raise errors.InvalidTargetColumnError(
            f"The column '{numbered[0]}' is numbered by the server, so it cannot be written.",
            hint="Leave it out.",
        )


# Rows of a primary-key table on their way into bytes: keys, and rows with all columns.


class KvEncoding:
    """Encode rows of one table; made once for many batches."""

    def __init__(self, table: TableInfo) -> None:
        _check_keyed(table)
        self._schema = table.schema
        self._arrow = arrow_schema(table.schema)
        self.key_names = table.descriptor.physical_primary_key
        self.key_encoder = primary_key_encoder(table.descriptor)
        self._rows = encoder_of(table.schema)

    def keys(self, batch: pa.RecordBatch) -> RowBytes:
        """Return the key of every row."""
        return self.key_encoder.encode([batch.column(name) for name in self.key_names])

    def rows(self, batch: pa.RecordBatch, columns: Sequence[str] | None) -> RowBytes:
        """Return all columns of every row; those that are not written hold nulls."""
        names = set(batch.schema.names if columns is None else columns)
        if columns is None:
            check_unnumbered(batch, self._schema)
        filled = [
            batch.column(field.name)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in self._arrow
        ]
        return self._rows.encode(filled)


def _check_keyed(table: TableInfo) -> None:
    if not table.is_keyed:
        raise errors.NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so rows can only be appended to it.",
            hint="Append them.",
        )
    if options.KV_FORMAT.required(table.descriptor.properties) is not options.KvFormat.COMPACTED:
        raise errors.UnsupportedError(
            f"{table.path} stores its rows in a format other than compacted."
        )


# Rows and deletes of primary-key tables: keys with compacted rows.


@dataclass(frozen=True, slots=True, eq=False)
class KvRows:
    """Hold keys with their rows; a key without row bytes is deleted."""

    keys: RowBytes
    rows: RowBytes
    size_bytes: int

    @classmethod
    def of(cls, keys: RowBytes, rows: RowBytes) -> Self:
        """Measure rows."""
        size = int(keys.lengths.sum() + rows.lengths.sum())
        return cls(keys, rows, size + RECORD_BYTES_MIN * len(keys))

    @classmethod
    def deleting(cls, keys: RowBytes) -> Self:
        """Make deletes of keys."""
        return cls.of(keys, RowBytes(keys.data, keys.ends, keys.ends))

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.keys)

    def take(self, at: Longs | slice | None) -> Self:
        """Return the rows at these positions, or all."""
        if at is None:
            return self
        places = np.arange(len(self.keys))[at] if isinstance(at, slice) else at
        return self.of(self.keys.take(places), self.rows.take(places))

    def halves(self) -> tuple[Self, Self]:
        """Cut them in two."""
        middle = self.count // 2
        return self.take(slice(0, middle)), self.take(slice(middle, None))


@dataclass(frozen=True, slots=True, eq=False)
class KvPayload:
    """Hold records and what their header says besides the numbers."""

    body: bytes
    schema_id: int
    count: int

    def records(self, *, writer_id: int, sequence: int) -> Part:
        """Return the whole batch under these numbers."""
        return frame_kv_batch(
            self.body,
            schema_id=self.schema_id,
            record_count=self.count,
            writer_id=writer_id,
            sequence=sequence,
        )


@dataclass(frozen=True, slots=True, eq=False)
class KvLane:
    """Put rows into one table under one schema; no target columns mean all."""

    table_id: int
    schema_id: int
    target_columns: tuple[int, ...] | None
    only_if: tuple[LogPosition, ...] = ()
    """Rows are written only if the storage has these logs still."""

    @property
    def api(self) -> Api:
        """Return the API that puts rows."""
        return APIS[ApiKey.PUT_KV]

    def payload(self, rows: Sequence[WriteRows]) -> KvPayload:
        """Encode rows as one batch."""
        parts = [build_kv_body(each.keys, each.rows) for each in rows if isinstance(each, KvRows)]
        assert len(parts) == len(rows)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return KvPayload(body, self.schema_id, sum(each.count for each in rows))

    def request(
        self, buckets: Sequence[write.BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request to put."""
        return write.encode_put(self.request_of(buckets, acks=acks, timeout_ms=timeout_ms))

    def request_of(
        self, buckets: Sequence[write.BucketRecords], *, acks: int, timeout_ms: int
    ) -> write.PutRequest:
        """Return a request to put."""
        return write.PutRequest(
            acks=acks,
            table_id=self.table_id,
            timeout_ms=timeout_ms,
            target_columns=self.target_columns,
            buckets=buckets,
            only_if=self.only_if,
        )

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        message = answer_of(pb.PutKvResponse, body)
        return {
            (each.partition_id if each.HasField("partition_id") else None, each.bucket_id): Answer(
                each.log_end_offset if each.HasField("log_end_offset") else -1,
                errors.error_of_code(each.error_code, each.error_message)
                if each.error_code
                else None,
                each.incarnation,
            )
            for each in message.buckets_resp
        }

    def end_offset(self, offset: int, rows: int) -> int:  # noqa: ARG002 - as lanes are
        """Return where the log ends after the batch, which is what was answered."""
        return offset


# Rows of log tables: Arrow batches, compressed here and stored as they are sent.

INLINE_BYTES_MAX = 64 * 1024
"""Encoding more than this would keep the loop waiting."""
# Threads of their own for a few columns cost more than they save.
_THREADS_BYTES_MIN = 256 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """Hold rows to append, in the schema of their table."""

    batch: pa.RecordBatch
    size_bytes: int

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """Measure rows."""
        return cls(batch, batch.nbytes)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self.batch.num_rows

    def halves(self) -> tuple[Self, Self]:
        """Cut them in two."""
        middle, size = self.count // 2, self.size_bytes // 2
        return (
            type(self)(self.batch.slice(0, middle), size),
            type(self)(self.batch.slice(middle), self.size_bytes - size),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LogPayload:
    """Hold an Arrow message and what its header says besides the numbers."""

    message: memoryview
    statistics: bytes | None
    schema_id: int
    count: int

    def records(self, *, writer_id: int, sequence: int) -> Part:
        """Return the whole batch under these numbers."""
        return build_batch(
            self.message,
            schema_id=self.schema_id,
            record_count=self.count,
            writer_id=writer_id,
            sequence=sequence,
            statistics=self.statistics,
        )


class LogLane:
    """Append rows to one table under one schema."""

    api: Api = APIS[ApiKey.PRODUCE_LOG]

    def __init__(self, table: TableInfo, *, plain_bytes_max: Callable[[], int] = lambda: 0) -> None:
        if table.is_keyed:
            raise errors.InvalidTableError(
                f"{table.path} has a primary key, so rows cannot be appended to it.",
                hint="Upsert them.",
            )
        properties = table.descriptor.properties
        if options.LOG_FORMAT.required(properties) is not options.LogFormat.ARROW:
            raise errors.UnsupportedError(
                f"{table.path} stores its log in a format other than Arrow."
            )
        self.table_id = table.table_id
        self._schema_id = table.schema_id
        self._schema = table.schema
        self.arrow = arrow_schema(table.schema)
        self._plain_bytes_max = plain_bytes_max
        codec = _codec_of(table)
        self._is_compressed = codec is not None
        self._messages = MessageWriter(self.arrow, codec)
        chosen = statistics_columns(options.STATISTICS_COLUMNS.of(properties) or (), table.schema)
        self._statistics = tuple(table.schema.index_of(column.name) for column in chosen)
        self._few = None if self._statistics else FewRowsMessage.of(self.arrow)

    def payload(self, rows: Sequence[WriteRows]) -> LogPayload:
        """Encode rows as one batch, with statistics where the table asks for them."""
        batches = [each.batch for each in rows if isinstance(each, LogRows)]
        assert len(batches) == len(rows)
        return self.encoded(batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def encoded(self, batch: pa.RecordBatch) -> LogPayload:
        """Encode one batch, with statistics where the table asks for them."""
        statistics = None
        if self._statistics:
            statistics = encode_statistics(batch, self._schema, self._statistics)
        is_large = batch.nbytes >= _THREADS_BYTES_MIN
        message = self._messages.write(
            batch, plain_bytes_max=self._plain_bytes_max(), use_threads=is_large
        )
        return LogPayload(message, statistics, self._schema_id, batch.num_rows)

    def encoded_few(self, columns: Sequence[tuple[object, ...]]) -> LogPayload | None:
        """Encode few rows of plain values, given as columns; None leaves them to Arrow."""
        if self._few is None:
            return None
        bytes_max = self._plain_bytes_max() if self._is_compressed else INLINE_BYTES_MAX
        message = self._few.write(columns, bytes_max=min(bytes_max, INLINE_BYTES_MAX))
        if message is None:
            return None
        return LogPayload(memoryview(message), None, self._schema_id, len(columns[0]))

    def request(
        self, buckets: Sequence[write.BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request to append."""
        return write.encode_produce(self.request_of(buckets, acks=acks, timeout_ms=timeout_ms))

    def request_of(
        self, buckets: Sequence[write.BucketRecords], *, acks: int, timeout_ms: int
    ) -> write.ProduceRequest:
        """Return a request to append."""
        return write.ProduceRequest(acks, self.table_id, timeout_ms, buckets)

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        message = answer_of(pb.ProduceLogResponse, body)
        return {
            (each.partition_id if each.HasField("partition_id") else None, each.bucket_id): Answer(
                each.base_offset if each.HasField("base_offset") else -1,
                errors.error_of_code(each.error_code, each.error_message)
                if each.error_code
                else None,
                each.incarnation,
            )
            for each in message.buckets_resp
        }

    def end_offset(self, offset: int, rows: int) -> int:
        """Return where the log ends after so many rows, given where the batch begins."""
        return offset + rows


def _codec_of(table: TableInfo) -> pa.Codec | None:
    properties = table.descriptor.properties
    level = options.LOG_COMPRESSION_ZSTD_LEVEL.required(properties)
    return arrow_codec(options.LOG_COMPRESSION.required(properties), zstd_level=level)
