"""All rows of a bucket as they are at one log offset, over several calls."""

import asyncio

from headwater.errors import HeadwaterError, InvalidScanError
from headwater.kv.values import with_lengths
from headwater.model.bucket import TableBucket
from headwater.server.context import Context
from headwater.server.scanners import FIRST_CALL, Scanner
from headwater.tablet.state_scan import StateScan
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.value_batch import value_batch_head


async def scan_kv(request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    """Begin a scan, go on with it, or close it."""
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
        raise InvalidScanError("A scan is begun with a bucket or continued by its id, not both.")
    if request.close_scanner and is_new:
        raise InvalidScanError("A scan cannot be begun and closed in one call.")
    if not request.close_scanner and request.batch_size_bytes <= 0:
        raise InvalidScanError("The size of a batch in bytes is missing or not above 0.")
    if not request.close_scanner and not request.HasField("call_seq_id"):
        raise InvalidScanError("The number of the call is missing.")
    if is_new and request.call_seq_id != FIRST_CALL:
        raise InvalidScanError(f"The first call of a scan is call {FIRST_CALL}.")


async def _begin(request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    asked, scanners = request.bucket_scan_req, context.services.scanners
    partition_id = asked.partition_id if asked.HasField("partition_id") else None
    bucket = TableBucket(asked.table_id, asked.bucket_id, partition_id)
    tablet = await context.tablets.pk_tablet(bucket)
    context.services.answers.memory.check()
    scanners.check_room(bucket, rows=tablet.row_count)
    scan = await tablet.scan(limit=asked.limit if asked.limit > 0 else None)
    if scan.is_done:
        return pb.ScanKvResponse(has_more_results=False, log_offset=scan.offset)
    scanner = scanners.add(bucket, scan, context.session)
    try:
        answer = await _next(scanner, request, context)
    except BaseException:
        # Nobody will ever hear of it.
        scanners.close(scanner.scanner_id)
        raise
    answer.log_offset = scan.offset
    return answer


async def _next(scanner: Scanner, request: pb.ScanKvRequest, context: Context) -> pb.ScanKvResponse:
    if scanner.is_busy:
        raise InvalidScanError("The call before this one is not answered yet.")
    if request.call_seq_id != scanner.next_call:
        raise InvalidScanError(
            f"This is call {request.call_seq_id} of the scan, expected is {scanner.next_call}."
        )
    bytes_max = min(request.batch_size_bytes, context.services.settings.response_bytes_max)
    scanner.next_call += 1
    scanner.is_busy = True
    try:
        # A scan that has begun cannot be asked for the same rows again, so it always gets on.
        async with context.services.answers.room(bytes_max, at_any_cost=True) as granted:
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


def _read(scan: StateScan, bytes_max: int) -> tuple[bytes, int]:
    values = with_lengths(scan.read(bytes_max))
    packed = values.to_arrow()
    return bytes(memoryview(packed.buffers()[2])[: int(values.lengths.sum())]), len(values)
