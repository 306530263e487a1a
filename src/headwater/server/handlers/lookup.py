"""Reading rows of primary-key tables by their key, or by the start of it."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from headwater.errors import HeadwaterError, TimedOutError
from headwater.kv.heap import framed
from headwater.model.bucket import TableBucket
from headwater.rows.row_bytes import RowBytes
from headwater.rows.sieve import ValueSieve
from headwater.runtime.tasks import gathered, in_turns
from headwater.server.context import Context
from headwater.server.tablets import Tablets
from headwater.store.disk import Part
from headwater.tablet.pk_tablet import PkTablet
from headwater.tablet.state_read import HeldValues, Room, Values
from headwater.wire.apis import ApiKey
from headwater.wire.lookup import (
    EMPTY_VALUE,
    VALUE_TAGS,
    BucketFault,
    BucketKeys,
    BucketValues,
    LookupRequest,
    decode_lookup,
    encoded_value_lists,
    encoded_values,
    lookup_answer,
)

# Fewer keys and bytes than that are answered at once, where nothing has to be waited for.
SHORT_KEYS_MAX = 16
SHORT_REQUEST_BYTES_MAX = 2 << 10
SHORT_ANSWER_BYTES_MAX = 64 << 10
TIMEOUT_MS = 30_000
DURABLE = -1


def values_now(
    bucket: TableBucket, keys: Sequence[bytes], tablets: Tablets
) -> list[bytes | None] | None:
    """Return the values of a few keys if that takes no waiting; None otherwise, or on a fault."""
    if len(keys) > SHORT_KEYS_MAX:
        return None
    tablet = tablets.keyed.ready(bucket)
    return None if tablet is None else tablet.values_now(keys, bytes_max=SHORT_ANSWER_BYTES_MAX)


def lookup_now(
    body: memoryview, tablets: Tablets, may_read: Callable[[int], bool] | None = None
) -> list[Part] | None:
    """Answer a request for a few keys of one bucket without waiting; None leaves it to `lookup`."""
    if len(body) > SHORT_REQUEST_BYTES_MAX:
        return None
    request = decode_lookup(body)
    if len(request.buckets) != 1 or request.insert_if_not_exists:
        return None
    if may_read is not None and not may_read(request.table_id):
        return None
    (asked,) = request.buckets
    values = values_now(_bucket(request, asked), asked.keys, tablets)
    if values is None:
        return None
    return lookup_answer(
        [BucketValues(asked.bucket_id, asked.partition_id, encoded_values(values))]
    )


async def lookup(request: LookupRequest, context: Context) -> list[Part]:
    """Return the row of each key; where asked to, insert those that are missing."""
    _check_insert(request, context)
    room = _room(context)
    found = (_looked_up(bucket, request, context, room) for bucket in request.buckets)
    if len(request.buckets) == 1:
        return lookup_answer([await next(found)])
    return lookup_answer(await gathered(found))


async def prefix_lookup(request: LookupRequest, context: Context) -> list[Part]:
    """Return the rows whose keys begin with each prefix."""
    answers: list[BucketValues | BucketFault] = []
    room = _room(context)
    async for bucket in in_turns(request.buckets):
        try:
            tablet = await context.tablets.pk_tablet(_bucket(request, bucket))
            values = await tablet.prefix_lookup(bucket.keys, room)
            if (sieve := context.values_sieve(request.table_id, request.columns)) is not None:
                values = [_held_of(found, sieve) for found in values]
            encoded = encoded_value_lists(values)
            answers.append(BucketValues(bucket.bucket_id, bucket.partition_id, encoded))
        except HeadwaterError as fault:
            answers.append(_fault(bucket, fault, context, api=ApiKey.PREFIX_LOOKUP))
    return lookup_answer(answers)


async def _looked_up(
    bucket: BucketKeys, request: LookupRequest, context: Context, room: Room
) -> BucketValues | BucketFault:
    try:
        tablet = await context.tablets.pk_tablet(_bucket(request, bucket))
        if request.insert_if_not_exists:
            await _insert_missing(bucket, request, context, tablet=tablet)
        values = await tablet.lookup(bucket.keys, room)
        if (sieve := context.values_sieve(request.table_id, request.columns)) is not None:
            values = await _sifted(values, sieve)
        encoded = _encoded(values)
    except HeadwaterError as fault:
        return _fault(bucket, fault, context, api=ApiKey.LOOKUP)
    except TimeoutError:
        late = TimedOutError("The missing rows were not durable in time.")
        return _fault(bucket, late, context, api=ApiKey.LOOKUP)
    return BucketValues(bucket.bucket_id, bucket.partition_id, encoded)


def _check_insert(request: LookupRequest, context: Context) -> None:
    """Refuse to insert what is missing for those to whom rows that are there seem to be."""
    if not request.insert_if_not_exists:
        return
    restriction = context.restriction(request.table_id)
    if restriction is not None and restriction.has_filter:
        context.require_whole(request.table_id, what="a lookup cannot insert what it does not find")


async def _sifted(values: Values, sieve: ValueSieve) -> Values:
    """Return of some values what may be seen."""
    if not isinstance(values, HeldValues):
        return _sifted_few(values, sieve)
    present = np.flatnonzero(values.is_held)
    found = await asyncio.to_thread(sieve.sift, values.values.take(present))
    seen, count = present[found.seen], len(values.is_held)
    is_held = np.zeros(count, np.bool_)
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    is_held[seen], starts[seen], ends[seen] = True, found.values.starts, found.values.ends
    return HeldValues(RowBytes(found.values.data, starts, ends), is_held)


def _sifted_few(values: Sequence[bytes | None], sieve: ValueSieve) -> list[bytes | None]:
    present = [value for value in values if value is not None]
    found = sieve.sift(RowBytes.of(present))
    kept = iter(found.values.to_list())
    seen = iter(found.seen.tolist())
    return [next(kept) if value is not None and next(seen) else None for value in values]


def _held_of(values: Sequence[bytes], sieve: ValueSieve) -> list[bytes]:
    return [value for value in _sifted_few(values, sieve) if value is not None]


async def _insert_missing(
    bucket: BucketKeys, request: LookupRequest, context: Context, *, tablet: PkTablet
) -> None:
    values = await tablet.lookup(bucket.keys, _room(context))
    if isinstance(values, HeldValues):
        is_held = values.is_held.tolist()
    else:
        is_held = [value is not None for value in values]
    missing = [key for key, held in zip(bucket.keys, is_held, strict=True) if not held]
    if not missing:
        return
    context.services.space.refuse_if_full()
    partition: dict[str, str] = {}
    if bucket.partition_id is not None:
        partition = dict(context.catalog.partitions.by_id(bucket.partition_id).spec)
    acks = DURABLE if request.acks is None else request.acks
    async with asyncio.timeout((request.timeout_ms or TIMEOUT_MS) / 1000):
        await tablet.insert_missing(missing, partition=partition, acks=acks)


def _encoded(values: Values) -> Part:
    return _encoded_in_place(values) if isinstance(values, HeldValues) else encoded_values(values)


def _encoded_in_place(held: HeldValues) -> Part:
    """Put fields around values where they lie, then copy them behind each other."""
    values, present = held.values, np.flatnonzero(held.is_held)
    outer_tag, inner_tag = VALUE_TAGS
    if len(present) == len(values):
        fields = framed(values, outer_tag=outer_tag, inner_tag=inner_tag)
    elif not len(present):
        return EMPTY_VALUE * len(values)
    else:
        # The start of the buffer is free, so it can hold the field of a missing value.
        values.data[: len(EMPTY_VALUE)] = np.frombuffer(EMPTY_VALUE, np.uint8)
        starts = np.zeros(len(values), np.int64)
        ends = np.full(len(values), len(EMPTY_VALUE), np.int64)
        framed_ones = framed(values.take(present), outer_tag=outer_tag, inner_tag=inner_tag)
        starts[present], ends[present] = framed_ones.starts, framed_ones.ends
        fields = RowBytes(values.data, starts, ends)
    packed = fields.to_arrow()
    return memoryview(packed.buffers()[2])[: int(fields.lengths.sum())]


def _room(context: Context) -> Room:
    return Room(context.services.settings.request_bytes_max)


def _bucket(request: LookupRequest, bucket: BucketKeys) -> TableBucket:
    return TableBucket(request.table_id, bucket.bucket_id, bucket.partition_id)


def _fault(
    bucket: BucketKeys, fault: HeadwaterError, context: Context, *, api: ApiKey
) -> BucketFault:
    context.bucket_refused(api, fault.code, f"Bucket {bucket.bucket_id}: {fault}")
    return BucketFault(bucket.bucket_id, bucket.partition_id, fault.code, str(fault))
