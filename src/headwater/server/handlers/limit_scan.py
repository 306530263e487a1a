"""Some rows of a bucket in one answer."""

import asyncio
from collections import deque
from functools import partial

from headwater.errors import HeadwaterError, RecordTooLargeError, RequestError
from headwater.kv.values import with_lengths
from headwater.rows.log_batch import iterate
from headwater.server.context import Context
from headwater.server.handlers.paths import bucket_of
from headwater.tablet.selection import Selection
from headwater.tablet.state_scan import StateScan
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.value_batch import value_batch_head


async def limit_scan(request: pb.LimitScanRequest, context: Context) -> pb.LimitScanResponse:
    """Return the batches that hold the last `limit` rows of a bucket."""
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
    """Return any `limit` rows of a bucket of a primary-key table."""
    _check_limit(request.limit)
    tablet = await context.tablets.pk_tablet(bucket_of(request.table_id, request))
    scan = await tablet.scan(limit=request.limit)
    bytes_max = context.services.settings.request_bytes_max
    records = await asyncio.to_thread(_values, scan, request.limit, bytes_max=bytes_max)
    return pb.LimitScanResponse(is_log_table=False, records=records)


def _values(scan: StateScan, limit: int, *, bytes_max: int) -> bytes:
    values, size = [], 0
    while not scan.is_done:
        part = with_lengths(scan.read(bytes_max)).to_arrow()
        size += part.nbytes
        if size > bytes_max:
            raise _too_large(limit, bytes_max)
        values.append(part)
    data = b"".join(part.buffers()[2] for part in values)
    return value_batch_head(sum(map(len, values)), len(data)) + data


async def _last_rows(request: pb.LimitScanRequest, context: Context) -> bytes:
    _check_limit(request.limit)
    tablet = await context.tablets.tablet(bucket_of(request.table_id, request))
    end = await tablet.settled()
    offset = max(tablet.start_offset, end - request.limit)
    bytes_max = context.services.settings.request_bytes_max
    tablets, table_id = context.tablets, request.table_id
    joiner = partial(tablets.joiner, table_id)
    selection = Selection(tablets.schemas(table_id), split_joined=joiner)
    records = b""
    while offset < end:
        selected = await tablet.select(
            offset, up_to=end, bytes_max=bytes_max, selection=selection, at_least_one=True
        )
        data = b"".join(selected.parts)
        offset = await asyncio.to_thread(_end_of, data)
        records += data
        if len(records) > bytes_max:
            raise _too_large(request.limit, bytes_max)
    return records


def _end_of(data: bytes) -> int:
    """Return the offset after the last of some batches, of which there may be many."""
    return deque(iterate(data), maxlen=1)[0][0].end_offset


def _check_limit(limit: int) -> None:
    if limit <= 0:
        raise RequestError(f"The limit must be positive, not {limit}.")


def _too_large(limit: int, bytes_max: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"{limit} rows take more than {bytes_max} bytes.",
        hint="Ask for fewer rows, or scan the table.",
    )
