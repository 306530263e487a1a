"""Rows of a bucket: some of them in one response, or all at one offset over several calls."""

import asyncio
from collections import deque
from functools import partial

import numpy as np

from headwater.errors import HeadwaterError, InvalidScanError, RecordTooLargeError, RequestError
from headwater.kv.heap import with_lengths
from headwater.model.acl import Operation
from headwater.model.bucket import TableBucket
from headwater.rows.log_batch import iterate
from headwater.rows.row_bytes import RowBytes
from headwater.rows.sieve import ValueSieve
from headwater.server.context import Context, bucket_of
from headwater.server.readers import FIRST_CALL, Scanner
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.selection import Selection
from headwater.tablet.state_read import StateScan
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.messages import decode_columns
from headwater.wire.value_batch import value_batch_head

# Some rows of a bucket in one response.

REACH_FACTOR = 8
"""How much further back to look for rows that may be seen."""


async def limit_scan(request: pb.LimitScanRequest, context: Context) -> pb.LimitScanResponse:
    """Return the batches with the last `limit` rows of a bucket."""
    try:
        async with context.session.turn:
            await context.session.writable()
            context.services.answers.memory.check()
            if context.catalog.tables.by_id(request.table_id).descriptor.is_keyed:
                return await _some_rows(request, context)
            records = await _last_rows(request, context)
    except HeadwaterError as fault:
        context.bucket_refused(ApiKey.LIMIT_SCAN, fault.code, str(fault))
        return pb.LimitScanResponse(error_code=fault.code, error_message=str(fault))
    return pb.LimitScanResponse(is_log_table=True, records=records)


async def _some_rows(request: pb.LimitScanRequest, context: Context) -> pb.LimitScanResponse:
    """Return any `limit` rows of a bucket of a primary-key table, or as many as may be seen."""
    _check_limit(request.limit)
    tablet = await context.tablets.pk_tablet(bucket_of(request.table_id, request))
    sieve = context.values_sieve(request.table_id, decode_columns(request.columns))
    # Of rows that may be out of sight, nobody knows how many have to be looked at.
    scan = await tablet.scan(limit=request.limit if sieve is None else None)
    bytes_max = context.services.settings.request_bytes_max
    read = partial(_values, scan, request.limit, sieve=sieve, bytes_max=bytes_max)
    records = await asyncio.to_thread(read)
    return pb.LimitScanResponse(is_log_table=False, records=records)


def _values(scan: StateScan, limit: int, *, sieve: ValueSieve | None, bytes_max: int) -> bytes:
    values, size, left = [], 0, limit
    while not scan.is_done and left > 0:
        found = scan.read(bytes_max)
        if sieve is not None:
            found = sieve.sift(found).values
        part = with_lengths(found.take(np.arange(min(left, len(found))))).to_arrow()
        size += part.nbytes
        left -= len(part)
        if size > bytes_max:
            raise _too_large(limit, bytes_max)
        values.append(part)
    data = b"".join(part.buffers()[2] for part in values)
    return value_batch_head(sum(map(len, values)), len(data)) + data


async def _last_rows(request: pb.LimitScanRequest, context: Context) -> bytes:
    _check_limit(request.limit)
    tablet = await context.tablets.tablet(bucket_of(request.table_id, request))
    end, start = await tablet.settled(), tablet.start_offset
    selection = _selection(request, context)
    reach = request.limit
    while True:
        offset = max(start, end - reach)
        records = await _records(tablet, offset, request, selection=selection, context=context)
        if selection.sieve is None or offset == start:
            return records
        if await asyncio.to_thread(_count_of, records) >= request.limit:
            return records
        # Too many of the last rows are out of sight: look further back.
        reach *= REACH_FACTOR


def _selection(request: pb.LimitScanRequest, context: Context) -> Selection:
    tablets, table_id = context.tablets, request.table_id
    schemas, joiner = tablets.schemas(table_id), partial(tablets.joiner, table_id)
    restriction = context.restriction(table_id)
    if restriction is None:
        return Selection(schemas, split_joined=joiner)
    asked = decode_columns(request.columns)
    restriction.require_columns(asked or None)
    shown = None
    if restriction.columns is not None:
        shown = restriction.columns & frozenset(asked or restriction.columns)
    sieve = restriction.batches(schemas, projected=None, shown=shown, takes_sparse=False)
    return Selection(schemas, sieve=sieve)


async def _records(
    tablet: LogTablet,
    offset: int,
    request: pb.LimitScanRequest,
    *,
    selection: Selection,
    context: Context,
) -> bytes:
    """Return all batches from an offset on."""
    end, records = await tablet.settled(), b""
    bytes_max = context.services.settings.request_bytes_max
    while offset < end:
        selected = await tablet.select(
            offset, up_to=end, bytes_max=bytes_max, selection=selection, at_least_one=True
        )
        data = b"".join(selected.parts)
        if selected.pruned_up_to is not None:
            offset = selected.pruned_up_to
        else:
            offset = await asyncio.to_thread(_end_of, data)
        records += data
        if len(records) > bytes_max:
            raise _too_large(request.limit, bytes_max)
    return records


def _end_of(data: bytes) -> int:
    """Return the offset after the last of some batches, of which there may be many."""
    return deque(iterate(data), maxlen=1)[0][0].end_offset


def _count_of(data: bytes) -> int:
    return sum(header.record_count for header, _ in iterate(data))


def _check_limit(limit: int) -> None:
    if limit <= 0:
        raise RequestError(f"The limit must be positive, not {limit}.")


def _too_large(limit: int, bytes_max: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"{limit} rows take more than {bytes_max} bytes.",
        hint="Ask for fewer rows, or scan the table.",
    )


# All rows of a bucket as of one log offset, over several calls.


async def scan_kv(request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    """Start a scan, continue it, or close it."""
    try:
        _check(request)
        if request.close_scanner:
            context.services.scanners.close(request.scanner_id)
            return pb.ScanKvResponse(scanner_id=request.scanner_id, has_more_results=False)
        async with context.session.turn:
            await context.session.writable()
            if request.HasField("bucket_scan_req"):
                return await _begin(request, context)
            scanner = context.services.scanners.find(request.scanner_id, context.session)
            return await _next(scanner, request, context)
    except HeadwaterError as fault:
        context.bucket_refused(ApiKey.SCAN_KV, fault.code, str(fault))
        return pb.ScanKvResponse(error_code=fault.code, error_message=str(fault))


def _check(request: pb.ScanKvRequest) -> None:
    is_new, is_known = request.HasField("bucket_scan_req"), request.HasField("scanner_id")
    if is_new == is_known:
        raise InvalidScanError(
            "A scan request must have either a bucket or a scanner id, not both."
        )
    if request.close_scanner and is_new:
        raise InvalidScanError("A scan cannot be started and closed in one call.")
    if not request.close_scanner and request.batch_size_bytes <= 0:
        raise InvalidScanError("The batch size in bytes is missing or not above 0.")
    if not request.close_scanner and not request.HasField("call_seq_id"):
        raise InvalidScanError("The number of the call is missing.")
    if is_new and request.call_seq_id != FIRST_CALL:
        raise InvalidScanError(f"The first call of a scan must have number {FIRST_CALL}.")


async def _begin(request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    asked, scanners = request.bucket_scan_req, context.services.scanners
    partition_id = asked.partition_id if asked.HasField("partition_id") else None
    bucket = TableBucket(asked.table_id, asked.bucket_id, partition_id)
    context.require(Operation.READ, bucket.table_id)
    tablet = await context.tablets.pk_tablet(bucket)
    context.services.answers.memory.check()
    scanners.check_room(bucket, rows=tablet.row_count)
    if (meter := context.session.meter) is not None:
        meter.check_scans(**scanners.counts(context.session))
    is_whole = not context.has_rules or not _is_sifted(bucket, request, context)
    is_limited = asked.limit > 0 and is_whole
    scan = await tablet.scan(limit=asked.limit if is_limited else None)
    if scan.is_done:
        return pb.ScanKvResponse(has_more_results=False, log_offset=scan.offset)
    scanner = scanners.add(bucket, scan, context.session)
    try:
        answer = await _next(scanner, request, context)
    except BaseException:
        # Nobody will read the response.
        scanners.close(scanner.scanner_id)
        raise
    answer.log_offset = scan.offset
    return answer


def _is_sifted(bucket: TableBucket, request: pb.ScanKvRequest, context: Context) -> bool:
    """Tell whether rows may be out of sight, or refuse columns that are."""
    return context.values_sieve(bucket.table_id, decode_columns(request.columns)) is not None


async def _next(scanner: Scanner, request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    # The client may have lost its permission since the last part.
    context.require(Operation.READ, scanner.bucket.table_id)
    if scanner.is_busy:
        raise InvalidScanError("The previous call of this scan is still running.")
    if request.call_seq_id != scanner.next_call:
        raise InvalidScanError(
            f"This is call {request.call_seq_id} of the scan, expected {scanner.next_call}."
        )
    bytes_max = min(request.batch_size_bytes, context.services.settings.response_bytes_max)
    if context.session.meter is not None:
        bytes_max = min(bytes_max, context.session.meter.answer_bytes_max)
    scanner.next_call += 1
    scanner.is_busy = True
    try:
        # A scan cannot return the same rows again, so it always advances.
        async with context.services.answers.room(bytes_max, at_any_cost=True) as granted:
            if context.has_rules:
                records, count = await _part(scanner, request, granted, context)
            else:
                records, count = await asyncio.to_thread(_read, scanner.scan, granted)
    finally:
        scanner.is_busy = False
    if scanner.scan.is_done:
        context.services.scanners.close(scanner.scanner_id)
    return pb.ScanKvResponse(
        scanner_id=scanner.scanner_id,
        has_more_results=not scanner.scan.is_done,
        records=value_batch_head(count, len(records)) + records,
    )


async def _part(
    scanner: Scanner, request: pb.ScanKvRequest, bytes_max: int, context: Context
) -> tuple[bytes, int]:
    """Return the next rows that may be seen, by the rules that hold once they were read."""
    table_id = scanner.bucket.table_id
    values = await asyncio.to_thread(scanner.scan.read, bytes_max)
    while True:
        version = context.permissions_version
        context.require(Operation.READ, table_id)
        sieve = context.values_sieve(table_id, decode_columns(request.columns))
        # Packing writes between the values, so each attempt has its own.
        mine = RowBytes(values.data.copy(), values.starts, values.ends)
        found = await asyncio.to_thread(_sifted, mine, sieve)
        if context.permissions_version == version:
            return found


def _read(scan: StateScan, bytes_max: int) -> tuple[bytes, int]:
    return _packed(scan.read(bytes_max))


def _sifted(values: RowBytes, sieve: ValueSieve | None) -> tuple[bytes, int]:
    return _packed(values if sieve is None else sieve.sift(values).values)


def _packed(found: RowBytes) -> tuple[bytes, int]:
    values = with_lengths(found)
    packed = values.to_arrow()
    return bytes(memoryview(packed.buffers()[2])[: int(values.lengths.sum())]), len(values)
