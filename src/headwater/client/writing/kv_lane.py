"""Rows and deletes of primary-key tables: keys with compacted rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from headwater.client.writing.batches import Answer, Rows
from headwater.errors import error_of_code
from headwater.model.lineage import LogPosition
from headwater.rows.kv_batch import RECORD_BYTES_MIN, build_kv_body, frame_kv_batch
from headwater.rows.row_bytes import Longs, RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.fields import Part
from headwater.wire.put import PutRequest, encode_put


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

    def payload(self, rows: Sequence[Rows]) -> KvPayload:
        """Encode rows as one batch."""
        parts = [build_kv_body(each.keys, each.rows) for each in rows if isinstance(each, KvRows)]
        assert len(parts) == len(rows)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return KvPayload(body, self.schema_id, sum(each.count for each in rows))

    def request(
        self, buckets: Sequence[BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request to put."""
        return encode_put(
            PutRequest(
                acks=acks,
                table_id=self.table_id,
                timeout_ms=timeout_ms,
                target_columns=self.target_columns,
                buckets=buckets,
                only_if=self.only_if,
            )
        )

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        message = pb.PutKvResponse.FromString(bytes(body))
        return {
            (each.partition_id if each.HasField("partition_id") else None, each.bucket_id): Answer(
                each.log_end_offset if each.HasField("log_end_offset") else -1,
                error_of_code(each.error_code, each.error_message) if each.error_code else None,
                each.incarnation,
            )
            for each in message.buckets_resp
        }

    def end_offset(self, offset: int, rows: int) -> int:  # noqa: ARG002 - as lanes are
        """Return where the log ends after the batch, which is what was answered."""
        return offset
