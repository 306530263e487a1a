"""Compare the state of one bucket of a primary-key table with changelog, lookups and lake."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater import errors
from headwater.audit import changes
from headwater.audit.digest import Prints
from headwater.audit.logs import DAMAGED_READS_MAX, AuditedBucket, LogWalk
from headwater.audit.report import Check, Finding, Notes
from headwater.client.table import AsyncTable
from headwater.client.view import AsyncView
from headwater.read.filters import RowView
from headwater.read.lookup import TableLookups
from headwater.read.offsets import count_rows
from headwater.read.values import BucketScan, ValueReader
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Longs, Mask, RowBytes, Words
from headwater.runtime.tasks import aside
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.messages import answer_of

# Lookups by key must return the rows of the state or of its changelog.


async def prove_by_key(
    audited: AuditedBucket,
    walk: LogWalk,
    contents: changes.ChangeContents,
    *,
    wanted: pa.RecordBatch,
    at: int,
) -> int:
    """Look up rows that a scan returned at an offset; return how many have not changed since."""
    prints = contents.prints
    keys, rows = prints.keys(wanted), prints.rows(wanted)
    types = np.full(len(keys), ChangeType.INSERT, np.uint8)
    expected = changes.Changes(types, keys, rows, np.full(len(keys), at))
    found = await _found(audited, prints, wanted)
    await walk.go_to(await audited.offset("latest"))
    held = contents.fold.held()
    places = changes.lookup(held, keys)
    # A key that is missing from whole changes was deleted since.
    is_same = np.full(len(keys), not contents.fold.is_whole)
    known = places >= 0
    is_same[known] = held.offsets[places[known]] < at
    return _judge(audited, prints, wanted, is_same=is_same, is_bad=_differ(expected, found))


async def prove_fold_by_key(
    audited: AuditedBucket, walk: LogWalk, contents: changes.ChangeContents
) -> int:
    """Look up keys that the changelog names; return how many did not change meanwhile."""
    prints, sampled = contents.prints, contents.sample.rows()
    if sampled is None:
        return 0
    _, first = np.unique(prints.keys(sampled), return_index=True)
    wanted = sampled.take(pa.array(first))
    keys, before = prints.keys(wanted), contents.fold.held()
    expected = _placed(before, keys)
    found = await _found(audited, prints, wanted)
    await walk.go_to(await audited.offset("latest"))
    after = _placed(contents.fold.held(), keys)
    is_same = (expected.offsets == after.offsets) & (expected.types == after.types)
    if not contents.fold.is_whole:
        is_same &= changes.lookup(before, keys) >= 0
    return _judge(audited, prints, wanted, is_same=is_same, is_bad=_differ(expected, found))


async def _found(audited: AuditedBucket, prints: Prints, wanted: pa.RecordBatch) -> changes.Changes:
    """The rows found for keys, ordered by print."""
    lookups = TableLookups(audited.cluster, audited.table)
    table = await lookups.lookup(wanted.select(list(prints.key)))
    batches = table.combine_chunks().to_batches()
    if not batches:
        return changes.NO_CHANGES
    keys, rows = prints.keys(batches[0]), prints.rows(batches[0])
    order = np.argsort(keys, kind="stable")
    types = np.full(len(keys), ChangeType.INSERT, np.uint8)
    return changes.Changes(types, keys[order], rows[order], order)


def _placed(held: changes.Changes, keys: Words) -> changes.Changes:
    """The change of each key; a delete if there is none."""
    places = changes.lookup(held, keys)
    types = np.full(len(keys), ChangeType.DELETE, np.uint8)
    rows, offsets = np.zeros(len(keys), np.uint64), np.full(len(keys), -1, np.int64)
    known = places >= 0
    types[known], rows[known] = held.types[places[known]], held.rows[places[known]]
    offsets[known] = held.offsets[places[known]]
    return changes.Changes(types, keys, rows, offsets)


def _differ(expected: changes.Changes, found: changes.Changes) -> Mask:
    """Tell for each key whether a lookup returned a wrong row, none, or one too many."""
    places: Longs = changes.lookup(found, expected.keys)
    is_found = places >= 0
    is_wanted = expected.types != ChangeType.DELETE
    is_other = np.zeros(len(places), np.bool_)
    is_other[is_found] = found.rows[places[is_found]] != expected.rows[is_found]
    # Rows come in key order, each once; otherwise one was returned for another key.
    order = found.offsets[places[is_found]]
    is_late = np.append([False], order[1:] < np.maximum.accumulate(order)[:-1])[: len(order)]
    is_other[is_found] |= is_late
    is_other |= np.isin(expected.keys, found.keys[1:][found.keys[1:] == found.keys[:-1]])
    mask: Mask = (is_found != is_wanted) | is_other
    return mask


def _judge(
    audited: AuditedBucket,
    prints: Prints,
    wanted: pa.RecordBatch,
    *,
    is_same: Mask,
    is_bad: Mask,
) -> int:
    count, bad = int(is_same.sum()), np.flatnonzero(is_bad & is_same)
    if len(bad):
        key = prints.shown(wanted, int(bad[0]))
        audited.bad(
            Check.LOOKUPS,
            f"{len(bad):,} of {count:,} lookups do not return the expected row, the first "
            f"for the key {key}.",
            remedy=f"Stop the server, then: {audited.rebuild}",
        )
    return count


# Comparing the state with its changelog.

# A table that is written all the time may have moved at every attempt.
LOOKS_MAX = 5
LOOK_AGAIN_S = 0.2
_SCAN_KV = API_OF_REQUEST[pb.ScanKvRequest]


@dataclass(slots=True)
class StateProof:
    """How much of a state was proven, and why not more."""

    row_count: int = 0
    lookup_count: int = 0
    notes: list[str] = field(default_factory=list)


# ---- quick: the number of rows


async def prove_count(
    audited: AuditedBucket, walk: LogWalk, counts: changes.ChangeCounts
) -> StateProof:
    """Compare the number of rows with what inserts and deletes leave.

    The number counts only if nothing was written meanwhile, and a difference only if it persists.
    """
    proof, suspected = StateProof(), (-1, -1)
    for _ in range(LOOKS_MAX):
        before = await offset_of_state(audited)
        try:
            told = await _told_count(audited)
        except errors.UnsupportedError:
            proof.notes.append("the servers do not report the number of rows")
            return proof
        end = await offset_of_state(audited)
        if before is None or end is None:
            proof.notes.append("too many scans are open to read its offset")
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
    proof.notes.append("it is written to all the time; --deep compares it at one offset")
    return proof


async def _told_count(audited: AuditedBucket) -> int:
    return await count_rows(audited.cluster, audited.table, buckets={audited.place: audited.bucket})


def _tell_count(audited: AuditedBucket, told: int, counts: changes.ChangeCounts, end: int) -> None:
    audited.bad(
        Check.STATE,
        f"The state holds {told:,} rows, but the changelog up to offset {end} leaves "
        f"{counts.row_count:,}.",
        remedy=(
            f"Find out which rows with --deep; then stop the server and run: {audited.rebuild}"
        ),
    )


# ---- deep: every row


async def prove_rows(
    audited: AuditedBucket, walk: LogWalk, contents: changes.ChangeContents
) -> StateProof:
    """Compare every row with the last change of its key; an interrupted scan starts again."""
    for _ in range(LOOKS_MAX - 1):
        with suppress(errors.ScannerMissingError, errors.ScannerExpiredError):
            return await _prove_rows(audited, walk, contents)
    return await _prove_rows(audited, walk, contents)


async def _prove_rows(
    audited: AuditedBucket, walk: LogWalk, contents: changes.ChangeContents
) -> StateProof:
    """Compare every row with the last change of its key, at one offset of the log.

    1. Begin a scan, which freezes the state at an offset. 2. Fold the changelog up to there. 3.
       Compare. 4. Look up some of the rows by key.
    """
    proof = StateProof()
    scan = BucketScan(audited.cluster, audited.bucket, limit=None)
    try:
        await offset_of_state(audited)
        async with aclosing(scan.parts()) as parts:
            first = await anext(parts, None)
            assert scan.log_offset is not None
            if scan.log_offset < walk.check.offset:
                proof.notes.append("the state is behind the log and was not compared")
                return proof
            await walk.go_to(scan.log_offset)
            sample = changes.Sample()
            fold = contents.fold
            compare = changes.StateCompare(contents.prints, fold.held(), fold.is_whole)
            async for rows in _rows(audited, first, parts):
                await aside(compare.take, rows)
                sample.take(rows)
        compare.finish()
    except errors.UnsupportedError:
        proof.notes.append("the servers cannot return all rows: some were looked up")
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
    reader, part = ValueReader(audited.cluster, RowView.of(audited.table)), first
    while part is not None:
        versions = await reader.prepare(part)
        yield await aside(reader.read, part, versions)
        part = await anext(parts, None)


def _tell(audited: AuditedBucket, compare: changes.StateCompare, at: int) -> None:
    for wrong, tally in compare.tallies.items():
        key = f", the first with the key {tally.key}" if tally.key else ""
        audited.bad(
            Check.STATE,
            f"{_rows_text(tally)} of the state at offset {at} {_verb(wrong, tally)}{key}.",
            offset=tally.offset,
            remedy=f"Stop the server, then: {audited.rebuild}",
        )


def _rows_text(tally: changes.Tally) -> str:
    return f"{tally.count:,} rows" if tally.count > 1 else "1 row"


_ONE = {"differ": "differs", "exist": "exists", "are": "is", "them": "it"}
_SINGULAR = re.compile(rf"\b({'|'.join(_ONE)})\b")


def _verb(wrong: changes.Wrong, tally: changes.Tally) -> str:
    text = str(wrong)
    if tally.count > 1:
        return text
    return _SINGULAR.sub(lambda found: _ONE[found[0]], text)


# ---- asking


async def offset_of_state(audited: AuditedBucket) -> int | None:
    """The offset of a state, or the end of its log if no server tells.

    With too many scans open nobody knows: the state may be ahead of the durable log. Raises without
    long retries if the server refuses to serve the state.
    """
    try:
        found = await _scanned_offset(audited)
    except errors.UnsupportedError:
        found = None
    except errors.ScannerLimitError:
        return None
    return await audited.offset("latest") if found is None else found


async def _scanned_offset(audited: AuditedBucket) -> int | None:
    """Begin a scan of a single row, for the offset that comes with it."""
    bucket_scan = pb.ScanKvBucketRequest(
        table_id=audited.bucket.table_id,
        partition_id=audited.bucket.partition_id,
        bucket_id=audited.bucket.bucket,
        limit=1,
    )
    request = pb.ScanKvRequest(bucket_scan_req=bucket_scan, call_seq_id=0, batch_size_bytes=1)
    for attempt in range(1, DAMAGED_READS_MAX + 1):
        body = await audited.cluster.retries.run(
            lambda: audited.cluster.call_leader(
                audited.bucket, _SCAN_KV, [request.SerializeToString()]
            ),
            what=f"Asking for the state of {audited.bucket}",
        )
        answer = answer_of(pb.ScanKvResponse, body)
        fault = errors.error_of_code(answer.error_code, answer.error_message)
        if not answer.error_code:
            return answer.log_offset
        if isinstance(fault, errors.ScannerLimitError):
            raise fault
        if not isinstance(fault, errors.StorageError):
            return None
        if attempt == DAMAGED_READS_MAX:
            raise fault
        # Another server may lead the bucket by now, or this one be ready.
        audited.cluster.stale(audited.bucket)
        await audited.cluster.clock.sleep(audited.cluster.retries.backoff_s(attempt))
    return None


def unreadable_state(audited: AuditedBucket, fault: errors.HeadwaterError) -> None:
    """Report that the state of a bucket cannot be read, unless it was dropped."""
    if isinstance(fault, errors.TableMissingError | errors.PartitionMissingError):
        raise fault
    audited.bad(
        Check.READABLE,
        f"The state cannot be read: {fault.message}",
        remedy=(
            f"If its log is fine, stop the server and run: {audited.rebuild}; otherwise "
            "repair the log first."
        ),
    )


# Comparing the state with lake and log together, if the log alone is incomplete.

_SAID = {
    changes.Wrong.OTHER: "differ between the state and lake plus log",
    changes.Wrong.EXTRA: "are in the state but in neither lake nor log",
    changes.Wrong.MISSING: "are in lake and log but not in the state",
    changes.Wrong.TWICE: "are in the state more than once",
    changes.Wrong.DELETED: "are in the state although they were deleted",
}


async def prove_with_lake(table: AsyncTable, notes: Notes) -> tuple[int, str]:
    """Compare all rows of the state with those of a union read at the same position.

    Return how many were compared or, if none, why not.
    """
    try:
        union = await table.view()
        state = await table.view(offsets=union.offsets, mode="log")
        # The lake keeps the rows of partitions that the storage has dropped.
        partitions = await table.partitions() if table.info.is_partitioned else None
        prints = Prints(union.value.table, through_lake=True)
        held = await _held(union, prints, partitions)
        compare = changes.StateCompare(prints, held, is_whole=True)
        async for rows in state.scan(partitions=partitions):
            await aside(compare.take, rows)
    except errors.HeadwaterError as fault:
        return 0, f"lake and log cannot be read together: {fault.message}"
    compare.finish()
    for wrong, tally in compare.tallies.items():
        key = f", the first with the key {tally.key}" if tally.key else ""
        notes.bad(
            Finding(
                check=Check.STATE,
                table=str(table.path),
                message=f"{tally.count:,} rows {_SAID[wrong]}{key}.",
                remedy=(
                    "First run 'headwater audit --deep' on the lake: if that is clean, "
                    "the state is wrong, and its files must be restored from a copy."
                ),
            )
        )
    return compare.row_count, ""


async def _held(
    view: AsyncView, prints: Prints, partitions: Sequence[dict[str, str]] | None
) -> changes.Changes:
    """The prints of all rows of a view, in key order."""
    keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]

    def take(batch: pa.RecordBatch) -> None:
        keys.append(prints.keys(batch))
        rows.append(prints.rows(batch))

    async for batch in view.scan(partitions=partitions):
        await aside(take, batch)
    all_keys, all_rows = np.concatenate(keys), np.concatenate(rows)
    order = np.argsort(all_keys)
    types = np.full(len(order), ChangeType.INSERT, np.uint8)
    return changes.Changes(types, all_keys[order], all_rows[order], np.zeros(len(order), np.int64))
