"""Find out what has happened to an epoch in one lane: from the ledger, and from the log.

Batches that landed earlier are compared with those that would be sent now.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.epochs.batches import LaneBatches
from headwater.epochs.lane_sender import Assignment, LaneHistory
from headwater.epochs.ledger import SinkLedger, Trail
from headwater.model import LogPosition, OffsetRange, TableBucket, TableInfo
from headwater.model.arrow import arrow_schema
from headwater.read.filters import RowView
from headwater.read.log import (
    BatchOrigin,
    FetchedBatch,
    LogReader,
    refuse_cut,
    stored_batches,
    with_records,
)
from headwater.read.offsets import Place, list_offsets
from headwater.read.polls import FetchSize, Followed, fetch_request
from headwater.rows.changelog import sent_checksum
from headwater.rows.kv_batch import read_kv_header
from headwater.rows.log_batch import read_header
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch import BucketAnswer, decode_fetch_answer
from headwater.write.encode import LogLane, LogRows

# One bucket's stored log, without the rows where only the batches matter.

_FETCH_LOG = API_OF_REQUEST[pb.FetchLogRequest]


class StoredLog:
    """Reads the log of one bucket."""

    def __init__(
        self, cluster: Cluster, table: TableInfo, bucket: TableBucket, *, with_rows: bool
    ) -> None:
        self._cluster = cluster
        self._bucket = bucket
        self._view = RowView.of(table, columns=None if with_rows else [_narrowest(table)])
        self._size = FetchSize.of(cluster.settings)
        self._projects = self._view.positions is not None
        self.seen: LogPosition | None = None
        """How far batches were read last, and in which incarnation of the log."""

    async def batches(self, wanted: OffsetRange) -> AsyncIterator[FetchedBatch]:
        """Yield the batches that start in a range."""
        offset = wanted.start
        while offset < wanted.end:
            for batch in await self._fetch(offset):
                offset = batch.header.end_offset
                if batch.header.base_offset < wanted.end:
                    yield batch

    async def _fetch(self, offset: int) -> Sequence[FetchedBatch]:
        return await self._cluster.retries.run(
            lambda: self._fetch_once(offset), what=f"Reading the log of {self._bucket}"
        )

    async def _fetch_once(self, offset: int) -> Sequence[FetchedBatch]:
        followed = Followed(
            place=Place(None, self._bucket.bucket),
            bucket=self._bucket,
            position=offset,
            next_offset=offset,
            projects=self._projects,
        )
        request = fetch_request(
            self._view, [followed], size=self._size, wait_ms=0, projects=self._projects
        )
        try:
            body = await self._cluster.call_leader(
                self._bucket, _FETCH_LOG, [request.SerializeToString()]
            )
            answer = decode_fetch_answer(body)[0].buckets[0]
            batches = await self._batches(answer, offset)
            followed.learn(answer.fields.incarnation, answer.fields.starts)
            end = batches[-1].header.end_offset
            self.seen = LogPosition(self._bucket, end, followed.lineage.writer_before(end))
            return batches
        except errors.InvalidProjectionError:
            if not self._projects:
                raise
            # Some servers cannot project batches that were written before a column was added.
            self._projects = False
            return await self._fetch_once(offset)
        except errors.HeadwaterError as fault:
            if errors.moves_leader(fault):
                self._cluster.stale(self._bucket)
            raise

    async def _batches(self, answer: BucketAnswer, offset: int) -> Sequence[FetchedBatch]:
        fields = answer.fields
        if fields.error_code:
            raise errors.error_of_code(fields.error_code, fields.error_message)
        chunk_bytes = self._size.share_of(1)
        full = await with_records(answer, offset=offset, chunk_bytes=chunk_bytes)
        refuse_cut(full, self._bucket)
        batches = stored_batches(full.records)
        if not batches:
            # The range ends at the log end that the leader reported; this server is behind.
            raise errors.LeaderMissingError("The log is shorter than the leader reported.")
        return batches


def _narrowest(table: TableInfo) -> str:
    """Find the column that takes the fewest bytes."""
    fields = arrow_schema(table.schema)

    def width(name: str) -> int:
        try:
            bits: int = fields.field(name).type.bit_width
        except ValueError:  # Values of this type differ in length.
            bits = 1 << 16
        return bits

    return min(fields.names, key=width)


# Comparing batches that landed with those that would be sent now.


class LogVerifier:
    """Compares stored batches of a log table with those of an attempt."""

    def __init__(self, cluster: Cluster, table: TableInfo, bucket: TableBucket) -> None:
        self._bucket = bucket
        self._lane = LogLane(table)
        self._reader = LogReader(cluster, RowView.of(table))

    async def check(self, stored: FetchedBatch, batches: LaneBatches, number: int) -> None:
        """Raise if a batch that landed holds other rows than the one of this attempt."""
        if stored.header.record_count == batches.row_count(number):
            if await asyncio.to_thread(_has_crc_of, stored, batches, number):
                return
            await self._reader.prepare([stored])
            if await asyncio.to_thread(self._has_rows_of, stored, batches.rows(number)):
                return
        raise errors.EpochDiffersError(
            f"Rows in the log of {self._bucket} from an earlier attempt differ from the rows "
            "given now: that attempt gave other rows, or wrote an epoch that the storage has "
            "forgotten since it was restored.",
            hint=(
                "Give the same rows in every attempt. If the storage was restored, write under "
                "another sink name; rows of the epoch that already landed may be written twice."
            ),
        )

    def _has_rows_of(self, stored: FetchedBatch, rows: pa.RecordBatch) -> bool:
        """Compare row by row, since another library version may compress differently."""
        wanted = OffsetRange(stored.header.base_offset, stored.header.end_offset)
        source = BatchOrigin(self._bucket, None, is_projected=False)
        (found,) = self._reader.read([stored], wanted, source=source)
        written, read = (self._lane.payload([LogRows.of(each)]) for each in (rows, found.rows))
        return bytes(written.message) == bytes(read.message)


async def check_sent(
    stored: FetchedBatch, batches: LaneBatches, number: int, *, bucket: TableBucket
) -> None:
    """Raise if a changelog batch was made from another request than the one of this attempt."""
    sent = sent_checksum(stored.data, stored.header)
    if sent is None or sent == await asyncio.to_thread(_kv_crc, stored, batches, number):
        return
    raise errors.EpochDiffersError(
        f"Rows in {bucket} from an earlier attempt differ from the rows given now: that "
        "attempt gave the rows of a key in another order, or wrote an epoch that the "
        "storage has forgotten since it was restored.",
        hint=(
            "Write under another sink name; rows of the epoch that already landed may be "
            "written twice."
        ),
    )


def _kv_crc(stored: FetchedBatch, batches: LaneBatches, number: int) -> int:
    header = stored.header
    sent = batches.payload(number).records(writer_id=header.writer_id, sequence=header.sequence)
    return read_kv_header(memoryview(sent)).crc


def _has_crc_of(stored: FetchedBatch, batches: LaneBatches, number: int) -> bool:
    header = stored.header
    sent = batches.payload(number).records(writer_id=header.writer_id, sequence=header.sequence)
    return read_header(memoryview(sent)).crc == header.crc


class LanePast:
    """Finds what all attempts, this one included, have done; without a ledger, from the log."""

    def __init__(
        self,
        cluster: Cluster,
        table: TableInfo,
        task: Assignment,
        *,
        epoch: int,
        ledger: SinkLedger | None,
    ) -> None:
        key, standing, begun = task.key, task.standing, task.begun
        self._cluster = cluster
        self._table = table
        self._key = key
        self._standing = standing
        self._epoch = epoch
        self._ledger = ledger
        # If epochs are missing in between, batches in the log may belong to one of them: a restored
        # storage does not know that it was finished. The ledger may say where this one began.
        is_begun = begun is not None and begun.epoch == epoch
        self._doubts = table.is_keyed and epoch > standing.epoch + 1 and not is_begun
        with_rows = not table.is_keyed or self._doubts
        self._log = StoredLog(cluster, table, key.bucket, with_rows=with_rows)

    async def look(self, batches: LaneBatches) -> LaneHistory:
        """Find which of these batches landed; raise if other rows landed.

        1. If the ledger says the epoch is finished, all are written. 2. Otherwise the log tells. 3.
           If the log has more batches, they may be of an epoch that began meanwhile.
        """
        finished = await self._finished(batches)
        if finished is not None:
            return finished
        trail = await self._follow(batches)
        found = LaneHistory(trail.count, trail.next, trail.end, self._log.seen)
        if trail.count <= len(batches):
            return found
        return await self._finished(batches) or found

    async def has_batches(self) -> bool:
        """Tell whether the log has batches of the lane that the ledger does not count."""
        trail = Trail(self._key, self._standing.position.with_room)
        log = StoredLog(self._cluster, self._table, self._key.bucket, with_rows=False)
        try:
            async for stored in log.batches(await self._range()):
                if trail.step(stored.header):
                    return True
        except (errors.OffsetOutOfRangeError, errors.DamagedRangeError):
            return True
        return False

    async def _finished(self, batches: LaneBatches) -> LaneHistory | None:
        if self._ledger is None:
            return None
        standing = (await self._ledger.look_up([self._key])).get(self._key)
        if standing is None or standing.epoch < self._epoch:
            return None
        return LaneHistory(len(batches), standing.position, standing.end, is_noted=True)

    async def _follow(self, batches: LaneBatches) -> Trail:
        trail = Trail(self._key, self._standing.position.with_room)
        verifier = None
        if not self._table.is_keyed:
            verifier = LogVerifier(self._cluster, self._table, self._key.bucket)
        wanted = await self._range()
        try:
            async for stored in self._log.batches(wanted):
                number = trail.count
                if not trail.step(stored.header) or number >= len(batches):
                    continue
                if verifier is not None:
                    await verifier.check(stored, batches, number)
                elif self._doubts:
                    await check_sent(stored, batches, number, bucket=self._key.bucket)
        except errors.OffsetOutOfRangeError as fault:
            raise errors.OffsetOutOfRangeError(
                f"Cannot tell whether rows of epoch {self._epoch} of sink "
                f"'{self._key.sink}' are written: the log of {self._key.bucket} no longer "
                f"has offset {wanted.start}.",
                hint="If none of them is in the table, write under another sink name.",
            ) from fault
        return trail

    async def _range(self) -> OffsetRange:
        """The range of the log where batches of this epoch may lie."""
        start = self._standing.known_end
        if self._ledger is not None:
            start = max(start, await self._ledger.floor(self._key, self._epoch))
        place = Place(None, self._key.bucket.bucket)
        buckets = {place: self._key.bucket}
        found = await list_offsets(self._cluster, self._table, "latest", buckets=buckets)
        if found[place] < start:
            raise errors.LogDivergedError(
                f"The log of {self._key.bucket} ends at {found[place]}, but {start} was "
                "already written: the storage was restored from a copy meanwhile.",
                hint="Retry the epoch.",
            )
        return OffsetRange(start, found[place])
