"""Rows of log tables: Arrow batches, compressed here and stored as they are sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from headwater.client.writing.batches import Answer, Rows
from headwater.config.choices import LogFormat
from headwater.config.options import (
    LOG_COMPRESSION,
    LOG_COMPRESSION_ZSTD_LEVEL,
    LOG_FORMAT,
    STATISTICS_COLUMNS,
)
from headwater.config.statistics import statistics_columns
from headwater.errors import InvalidTableError, UnsupportedError, error_of_code
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo
from headwater.rows.log_batch import build_batch
from headwater.rows.message_write import MessageWriter, arrow_codec
from headwater.rows.statistics import encode_statistics
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.fields import Part
from headwater.wire.produce import ProduceRequest, encode_produce

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
            raise InvalidTableError(
                f"{table.path} has a primary key, so rows cannot be appended to it.",
                hint="Upsert them.",
            )
        properties = table.descriptor.properties
        if LOG_FORMAT.required(properties) is not LogFormat.ARROW:
            raise UnsupportedError(f"{table.path} keeps its log in another format than Arrow.")
        self.table_id = table.table_id
        self._schema_id = table.schema_id
        self._schema = table.schema
        self.arrow = arrow_schema(table.schema)
        self._plain_bytes_max = plain_bytes_max
        self._messages = MessageWriter(self.arrow, _codec_of(table))
        chosen = statistics_columns(STATISTICS_COLUMNS.of(properties) or (), table.schema)
        self._statistics = tuple(table.schema.index_of(column.name) for column in chosen)

    def payload(self, rows: Sequence[Rows]) -> LogPayload:
        """Encode rows as one batch, with statistics where the table asks for them."""
        batches = [each.batch for each in rows if isinstance(each, LogRows)]
        assert len(batches) == len(rows)
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        statistics = encode_statistics(batch, self._schema, self._statistics)
        is_large = batch.nbytes >= _THREADS_BYTES_MIN
        message = self._messages.write(
            batch, plain_bytes_max=self._plain_bytes_max(), use_threads=is_large
        )
        return LogPayload(message, statistics, self._schema_id, batch.num_rows)

    def request(
        self, buckets: Sequence[BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request to append."""
        return encode_produce(ProduceRequest(acks, self.table_id, timeout_ms, buckets))

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        message = pb.ProduceLogResponse.FromString(bytes(body))
        return {
            (each.partition_id if each.HasField("partition_id") else None, each.bucket_id): Answer(
                each.base_offset if each.HasField("base_offset") else -1,
                error_of_code(each.error_code, each.error_message) if each.error_code else None,
                each.incarnation,
            )
            for each in message.buckets_resp
        }

    def end_offset(self, offset: int, rows: int) -> int:
        """Return where the log ends after so many rows, given where the batch begins."""
        return offset + rows


def _codec_of(table: TableInfo) -> pa.Codec | None:
    properties = table.descriptor.properties
    level = LOG_COMPRESSION_ZSTD_LEVEL.required(properties)
    return arrow_codec(LOG_COMPRESSION.required(properties), zstd_level=level)
