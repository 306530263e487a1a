"""Values of primary-key tables: all of one bucket at one offset, turned into Arrow columns."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.model import Schema, TableBucket
from headwater.model.arrow import arrow_schema
from headwater.read.filters import RowView
from headwater.rows.compacted.coders import RowDecoder, decoder_of
from headwater.rows.compacted.one_row import OneRowDecoder
from headwater.rows.row_bytes import Longs, RowBytes, overlapping
from headwater.runtime.tasks import to_the_end
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.messages import answer_of, encode_columns
from headwater.wire.value_batch import read_value_batch

# Values of primary-key tables, a schema id and a row each, turned into Arrow columns.

_ID_BYTES = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Know how to read rows of one schema, and where the wanted columns stand in them."""

    many: RowDecoder
    single: OneRowDecoder | None
    sources: tuple[int | None, ...]
    is_whole: bool

    def columns(self, rows: RowBytes) -> list[pa.Array]:
        if len(rows) == 1 and self.single is not None:
            found = self.single.decode(rows.to_list()[0])
            if found is not None:
                return found
        return self.many.decode(rows, enforce_not_null=self.is_whole)


class ValueReader:
    """Decode values of any schema version into the columns that a view reads."""

    def __init__(self, cluster: Cluster, view: RowView) -> None:
        self._cluster = cluster
        self._view = view
        self._schema = arrow_schema(Schema(columns=view.read_columns))
        self._readers: dict[int, _Reader] = {}
        self.column_ids = view.column_ids
        """What servers are told of the columns read: the others may be null."""

    async def prepare(self, values: RowBytes) -> list[int]:
        """Return the schema versions of values, having learnt those that are new."""
        versions = _distinct_versions(values)
        for version in versions:
            if version not in self._readers:
                self._learn(version, await self._cluster.schema(self._view.table, version))
        return versions

    def known(self, values: RowBytes) -> list[int] | None:
        """Return the schema versions of values; None if there is one that was never asked for."""
        versions = _distinct_versions(values)
        for version in versions:
            if version not in self._readers:
                schema = self._cluster.known_schema(self._view.table, version)
                if schema is None:
                    return None
                self._learn(version, schema)
        return versions

    def _learn(self, version: int, schema: Schema) -> None:
        position_of = {each.column_id: at for at, each in enumerate(schema.columns)}
        sources = tuple(position_of.get(each.column_id) for each in self._view.read_columns)
        single = OneRowDecoder.of([each.type for each in schema.columns])
        self._readers[version] = _Reader(
            decoder_of(schema), single, sources, is_whole=not self.column_ids
        )

    def read(self, values: RowBytes, versions: list[int]) -> pa.RecordBatch:
        """Return the rows of values whose versions were prepared."""
        if not versions:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        if len(versions) == 1:
            return self._read_version(values, versions[0])
        of_rows = _versions(values)
        places: list[Longs] = [np.flatnonzero(of_rows == version) for version in versions]
        parts = [
            self._read_version(values.take(rows), version)
            for rows, version in zip(places, versions, strict=True)
        ]
        joined = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        return joined.take(pa.array(np.argsort(np.concatenate(places))))

    def _read_version(self, values: RowBytes, version: int) -> pa.RecordBatch:
        reader = self._readers[version]
        columns = reader.columns(RowBytes(values.data, values.starts + _ID_BYTES, values.ends))
        arrays = [
            pa.nulls(len(values), field.type) if source is None else columns[source]
            for source, field in zip(reader.sources, self._schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self._schema)


def _distinct_versions(values: RowBytes) -> list[int]:
    if not len(values):
        return []
    if int(values.lengths.min()) < _ID_BYTES:
        raise errors.CorruptBatchError("A value ends inside its schema id.")
    return sorted(set(_versions(values).tolist()))


def _versions(values: RowBytes) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    found = overlapping(values.data, np.int16)[values.starts]
    return found.astype(np.int16, copy=False)


# All values of one bucket of a primary-key table, as they are at one log offset.

_SCAN_KV = API_OF_REQUEST[pb.ScanKvRequest]
_CLOSE_WITHIN_S = 5.0


class BucketScan:
    """Scan one bucket; the next part is asked for while the caller handles the last.

    The server holds the state still from the first call on. When its scanner is lost, the rest
    of that state is lost as well, and only a new scan can help.
    """

    def __init__(
        self,
        cluster: Cluster,
        bucket: TableBucket,
        *,
        limit: int | None,
        columns: Sequence[int] = (),
    ) -> None:
        self._cluster = cluster
        self._columns = columns
        self._bucket = bucket
        self._limit = limit
        self._node = 0
        self._calls = 0
        self._scanner_id = b""
        self.log_offset: int | None = None
        """The offset at which the log goes on from the state; None before the first part."""

    async def parts(self) -> AsyncGenerator[RowBytes, None]:
        """Yield the values, each with its schema id in front."""
        following: asyncio.Task[pb.ScanKvResponse] | None = None
        try:
            answer = await self._cluster.retries.run(self._open, what=f"Scanning {self._bucket}")
            self.log_offset = answer.log_offset
            while True:
                following = None
                if answer.has_more_results:
                    following = asyncio.get_running_loop().create_task(self._continue())
                if answer.records:
                    yield read_value_batch(memoryview(answer.records))
                if following is None:
                    return
                answer = await following
        finally:
            if following is not None:
                following.cancel()
            if self._scanner_id:
                await self._close()

    async def _open(self) -> pb.ScanKvResponse:
        begun = pb.ScanKvBucketRequest(
            table_id=self._bucket.table_id,
            partition_id=self._bucket.partition_id,
            bucket_id=self._bucket.bucket,
            limit=self._limit,
        )
        try:
            self._node = await self._cluster.leader(self._bucket)
            request = pb.ScanKvRequest(bucket_scan_req=begun, call_seq_id=0)
            # Whoever gives up now still hears of the scanner, and closes it.
            opening = asyncio.get_running_loop().create_task(self._call(request))
            return await to_the_end(opening)
        except errors.ScannerLimitError as fault:
            # Others are scanning; there will be room when they are done.
            raise errors.RetryLaterError(fault.message) from fault
        except errors.HeadwaterError as fault:
            if errors.moves_leader(fault):
                self._cluster.stale(self._bucket)
            raise

    async def _continue(self) -> pb.ScanKvResponse:
        self._calls += 1
        request = pb.ScanKvRequest(scanner_id=self._scanner_id, call_seq_id=self._calls)
        try:
            return await self._call(request)
        except errors.HeadwaterError as fault:
            self._scanner_id = b""
            if not fault.retriable:
                raise
            raise errors.ScannerMissingError(
                f"The scan of {self._bucket} was interrupted: {fault}", hint="Start it again."
            ) from fault

    async def _close(self) -> None:
        # The server forgets a scanner that is not used, so this need not succeed.
        request = pb.ScanKvRequest(scanner_id=self._scanner_id, close_scanner=True)
        with suppress(errors.HeadwaterError):
            await self._call(request, timeout_s=_CLOSE_WITHIN_S)

    async def _call(
        self, request: pb.ScanKvRequest, *, timeout_s: float | None = None
    ) -> pb.ScanKvResponse:
        if self._columns and not request.close_scanner:
            request.columns = encode_columns(self._columns)
        request.batch_size_bytes = self._cluster.settings.state_scan_bytes_max
        body = await self._cluster.call_node(
            self._node, _SCAN_KV, [request.SerializeToString()], timeout_s=timeout_s
        )
        answer = answer_of(pb.ScanKvResponse, body)
        if answer.error_code:
            raise errors.error_of_code(answer.error_code, answer.error_message)
        if not request.close_scanner:
            self._scanner_id = answer.scanner_id if answer.has_more_results else b""
        return answer
