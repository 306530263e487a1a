"""The last rows of a bucket in one answer."""

from headwater.errors import HeadwaterError, RecordTooLargeError, RequestError
from headwater.rows.log_batch import iterate
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of
from headwater.wire import fluss_pb2 as pb


async def limit_scan(request: pb.LimitScanRequest, context: Context) -> pb.LimitScanResponse:
    """Return the batches that hold the last `limit` rows of a bucket."""
    try:
        async with context.session.turn:
            await context.session.writable()
            records = await _last_rows(request, context)
    except HeadwaterError as fault:
        return pb.LimitScanResponse(error_code=fault.code, error_message=str(fault))
    return pb.LimitScanResponse(is_log_table=True, records=records)


async def _last_rows(request: pb.LimitScanRequest, context: Context) -> bytes:
    if request.limit <= 0:
        raise RequestError(f"The limit must be positive, not {request.limit}.")
    tablet = await context.tablets.tablet(bucket_of(request.table_id, request))
    end = tablet.high_watermark
    offset = max(tablet.start_offset, end - request.limit)
    bytes_max = context.services.settings.request_bytes_max
    parts: list[memoryview] = []
    while offset < end:
        data = await tablet.read(offset, up_to=end, bytes_max=bytes_max)
        offset = [header for header, _ in iterate(data)][-1].end_offset
        parts.append(data)
        if sum(map(len, parts)) > bytes_max:
            raise RecordTooLargeError(
                f"The last {request.limit} rows take more than {bytes_max} bytes.",
                hint="Ask for fewer rows, or use a log scan.",
            )
    return b"".join(parts)
