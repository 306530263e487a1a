"""Batches that landed, compared with those that would be sent now."""

import asyncio

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.epochs.lane_batches import LaneBatches
from headwater.client.reading.log_reader import LogReader, Source, StoredBatch
from headwater.client.reading.view import View
from headwater.client.writing.log_lane import LogLane, LogRows
from headwater.errors import EpochDiffersError
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.table import TableInfo
from headwater.rows.changelog import sent_checksum
from headwater.rows.kv_batch import read_kv_header
from headwater.rows.log_batch import read_header


class LogVerifier:
    """Compare stored batches of a log table with those of an attempt."""

    def __init__(self, cluster: Cluster, table: TableInfo, bucket: TableBucket) -> None:
        self._bucket = bucket
        self._lane = LogLane(table)
        self._reader = LogReader(cluster, View.of(table))

    async def check(self, stored: StoredBatch, batches: LaneBatches, number: int) -> None:
        """Refuse to go on behind a batch that holds other rows than the one of this attempt."""
        if stored.header.record_count == batches.row_count(number):
            if await asyncio.to_thread(_has_crc_of, stored, batches, number):
                return
            await self._reader.prepare([stored])
            if await asyncio.to_thread(self._has_rows_of, stored, batches.rows(number)):
                return
        raise EpochDiffersError(
            f"Rows that are in the log of {self._bucket} from an earlier attempt are not those"
            " that came now."
        )

    def _has_rows_of(self, stored: StoredBatch, rows: pa.RecordBatch) -> bool:
        """Compare row by row, as another version of a library may compress in another way."""
        wanted = OffsetRange(stored.header.base_offset, stored.header.end_offset)
        source = Source(self._bucket, None, is_projected=False)
        (found,) = self._reader.read([stored], wanted, source=source)
        written, read = (self._lane.payload([LogRows.of(each)]) for each in (rows, found.rows))
        return bytes(written.message) == bytes(read.message)


async def check_sent(
    stored: StoredBatch, batches: LaneBatches, number: int, *, bucket: TableBucket
) -> None:
    """Refuse a changelog batch that was made of another request than the one of this attempt."""
    sent = sent_checksum(stored.data, stored.header)
    if sent is None or sent == await asyncio.to_thread(_kv_crc, stored, batches, number):
        return
    raise EpochDiffersError(
        f"Rows that are in {bucket} from an earlier attempt are not those that came now: it gave"
        " the rows of a key in another order, or was at an epoch that the storage has forgotten"
        " since it was restored.",
        hint="Write under another sink; rows of the epoch that are there may be written again.",
    )


def _kv_crc(stored: StoredBatch, batches: LaneBatches, number: int) -> int:
    header = stored.header
    sent = batches.payload(number).records(writer_id=header.writer_id, sequence=header.sequence)
    return read_kv_header(memoryview(sent)).crc


def _has_crc_of(stored: StoredBatch, batches: LaneBatches, number: int) -> bool:
    header = stored.header
    sent = batches.payload(number).records(writer_id=header.writer_id, sequence=header.sequence)
    return read_header(memoryview(sent)).crc == header.crc
