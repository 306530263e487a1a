"""The state of one bucket of a primary-key table: what its changelog makes of each key."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.audit.batch_walk import DAMAGED_READS_MAX
from headwater.audit.bucket import AuditedBucket
from headwater.audit.comparing import Sample, StateCompare, Tally, Wrong
from headwater.audit.contents import ChangeContents, ChangeCounts
from headwater.audit.finding import Check
from headwater.audit.logs import LogWalk
from headwater.audit.lookups import prove_by_key, prove_fold_by_key
from headwater.client.reading.bucket_scan import BucketScan
from headwater.client.reading.offsets import count_rows
from headwater.client.reading.value_reader import ValueReader
from headwater.client.reading.view import View
from headwater.errors import (
    HeadwaterError,
    PartitionMissingError,
    ScannerExpiredError,
    ScannerLimitError,
    ScannerMissingError,
    StorageError,
    TableMissingError,
    UnsupportedError,
    error_of_code,
)
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.aside import aside
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST

# A table that is written all the time can be elsewhere at every look.
LOOKS_MAX = 5
LOOK_AGAIN_S = 0.2
_SCAN_KV = API_OF_REQUEST[pb.ScanKvRequest]


@dataclass(slots=True)
class StateProof:
    """Hold how much of a state was proven, and why not more."""

    row_count: int = 0
    lookup_count: int = 0
    notes: list[str] = field(default_factory=list)


# ---- quick: the number of rows


async def prove_count(audited: AuditedBucket, walk: LogWalk, counts: ChangeCounts) -> StateProof:
    """Compare the number of rows with what inserts and deletes leave.

    A number counts if nothing was written while it was told, and a difference if it is still
    there after a while.
    """
    proof, suspected = StateProof(), (-1, -1)
    for _ in range(LOOKS_MAX):
        before = await offset_of_state(audited)
        try:
            told = await _told_count(audited)
        except UnsupportedError:
            proof.notes.append("the servers do not tell how many rows there are")
            return proof
        end = await offset_of_state(audited)
        if before is None or end is None:
            proof.notes.append("too many scans of it are open to see where it stands")
            return proof
        if before != end or end < walk.check.offset:
            continue
        await walk.go_to(end)
        if told == counts.row_count or not counts.is_whole:
            proof.row_count = told if counts.is_whole else 0
            return proof
        if suspected == (end, told):
            proof.row_count = told
            _tell_count(audited, told, counts, end)
            return proof
        suspected = (end, told)
        await audited.cluster.clock.sleep(LOOK_AGAIN_S)
    proof.notes.append("it is written to all the time: --deep compares it at one offset")
    return proof


async def _told_count(audited: AuditedBucket) -> int:
    return await count_rows(audited.cluster, audited.table, buckets={audited.place: audited.bucket})


def _tell_count(audited: AuditedBucket, told: int, counts: ChangeCounts, end: int) -> None:
    audited.bad(
        Check.STATE,
        f"The state holds {told:,} rows, but the changelog up to offset {end} leaves"
        f" {counts.row_count:,}.",
        remedy=f"See which with --deep; then stop the server and: {audited.rebuild}",
    )


# ---- deep: every row


async def prove_rows(audited: AuditedBucket, walk: LogWalk, contents: ChangeContents) -> StateProof:
    """Compare every row with the last change of its key; a scan that breaks off begins again."""
    for _ in range(LOOKS_MAX - 1):
        with suppress(ScannerMissingError, ScannerExpiredError):
            return await _prove_rows(audited, walk, contents)
    return await _prove_rows(audited, walk, contents)


async def _prove_rows(
    audited: AuditedBucket, walk: LogWalk, contents: ChangeContents
) -> StateProof:
    """Compare every row with the last change of its key, at one offset of the log.

    1. Begin a scan, which holds the state still at an offset. 2. Fold the changelog up to there.
    3. Compare. 4. Look some of the rows up by their keys.
    """
    proof = StateProof()
    scan = BucketScan(audited.cluster, audited.bucket, limit=None)
    try:
        await offset_of_state(audited)
        async with aclosing(scan.parts()) as parts:
            first = await anext(parts, None)
            assert scan.log_offset is not None
            if scan.log_offset < walk.check.offset:
                proof.notes.append("the state is behind the log, and was not compared")
                return proof
            await walk.go_to(scan.log_offset)
            sample = Sample()
            fold = contents.fold
            compare = StateCompare(contents.prints, fold.held(), fold.is_whole)
            async for rows in _rows(audited, first, parts):
                await aside(compare.take, rows)
                sample.take(rows)
        compare.finish()
    except UnsupportedError:
        proof.notes.append("the servers cannot be asked for all rows: some were looked up")
        proof.lookup_count = await prove_fold_by_key(audited, walk, contents)
        return proof
    proof.row_count = compare.row_count
    _tell(audited, compare, scan.log_offset)
    wanted = sample.rows()
    if wanted is not None:
        at = scan.log_offset
        proof.lookup_count = await prove_by_key(audited, walk, contents, wanted=wanted, at=at)
    return proof


async def _rows(
    audited: AuditedBucket, first: RowBytes | None, parts: AsyncGenerator[RowBytes, None]
) -> AsyncGenerator[pa.RecordBatch, None]:
    reader, part = ValueReader(audited.cluster, View.of(audited.table)), first
    while part is not None:
        versions = await reader.prepare(part)
        yield await aside(reader.read, part, versions)
        part = await anext(parts, None)


def _tell(audited: AuditedBucket, compare: StateCompare, at: int) -> None:
    for wrong, tally in compare.tallies.items():
        key = f", the first with the key {tally.key}" if tally.key else ""
        audited.bad(
            Check.STATE,
            f"{_rows_text(tally)} of the state at offset {at} {_verb(wrong, tally)}{key}.",
            offset=tally.offset,
            remedy=f"Stop the server, then: {audited.rebuild}",
        )


def _rows_text(tally: Tally) -> str:
    return f"{tally.count:,} rows" if tally.count > 1 else "1 row"


def _verb(wrong: Wrong, tally: Tally) -> str:
    text = str(wrong)
    if tally.count > 1:
        return text
    return text.replace("differ ", "differs ", 1).replace("are ", "is ", 1).replace("them", "it")


# ---- asking


async def offset_of_state(audited: AuditedBucket) -> int | None:
    """Return the offset that a state stands at, or where its log ends, if no server tells.

    With too many scans open nobody knows: the state may be ahead of what is durable of the log.
    Raise what is wrong with a state that the server refuses to serve, without long retries.
    """
    try:
        found = await _scanned_offset(audited)
    except UnsupportedError:
        found = None
    except ScannerLimitError:
        return None
    return await audited.offset("latest") if found is None else found


async def _scanned_offset(audited: AuditedBucket) -> int | None:
    """Begin a scan of a single row, for the offset that comes with it."""
    asked = pb.ScanKvBucketRequest(
        table_id=audited.bucket.table_id,
        partition_id=audited.bucket.partition_id,
        bucket_id=audited.bucket.bucket,
        limit=1,
    )
    request = pb.ScanKvRequest(bucket_scan_req=asked, call_seq_id=0, batch_size_bytes=1)
    for attempt in range(1, DAMAGED_READS_MAX + 1):
        body = await audited.cluster.retries.run(
            lambda: audited.cluster.call_leader(
                audited.bucket, _SCAN_KV, [request.SerializeToString()]
            ),
            what=f"Asking for the state of {audited.bucket}",
        )
        answer = pb.ScanKvResponse.FromString(bytes(body))
        fault = error_of_code(answer.error_code, answer.error_message)
        if not answer.error_code:
            return answer.log_offset
        if isinstance(fault, ScannerLimitError):
            raise fault
        if not isinstance(fault, StorageError):
            return None
        if attempt == DAMAGED_READS_MAX:
            raise fault
        # Another server may lead the bucket by now, or this one be ready.
        audited.cluster.stale(audited.bucket)
        await audited.cluster.clock.sleep(audited.cluster.retries.backoff_s(attempt))
    return None


def unreadable_state(audited: AuditedBucket, fault: HeadwaterError) -> None:
    """Note that the state of a bucket cannot be read, unless it was dropped."""
    if isinstance(fault, TableMissingError | PartitionMissingError):
        raise fault
    audited.bad(
        Check.READABLE,
        f"The state cannot be read: {fault.message}",
        remedy="If nothing is wrong with its log, stop the server, then:"
        f" {audited.rebuild}; else mend the log first.",
    )
