"""Ask servers for more of the logs they lead: one long poll at a time for each."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.config.client import ClientSettings
from headwater.model import Lineage, TableBucket
from headwater.model.bucket import NO_LINEAGE, Start, lineage_of
from headwater.read.filters import RowView
from headwater.read.log import FetchedBatch, is_remote, stored_batches, with_records
from headwater.read.offsets import Place
from headwater.runtime.tasks import Tasks
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch import BucketAnswer, decode_fetch_answer
from headwater.wire.limits import BUCKETS_MAX
from headwater.wire.predicates import predicate_to_wire

# A bucket that is followed: how far it was asked for, how far it was given to the caller.

BEFORE_ALL = -1
PollLane = tuple[int, bool]
"""A server, and whether it is asked to cut columns: what one request can hold."""


@dataclass(slots=True, eq=False, kw_only=True)
class Followed:
    """Hold where a reader is in one bucket."""

    place: Place
    bucket: TableBucket
    position: int
    """What the caller is given next."""
    next_offset: int
    """What is asked for next."""
    end: int | None = None
    projects: bool
    node: int | None = None
    is_busy: bool = False
    """Whether a request for it, or for its leader, is under way."""
    failures: int = 0
    lineage: Lineage = NO_LINEAGE
    """Who wrote what was read, as far as the server told."""
    ready_at: float = 0.0

    @property
    def lane(self) -> PollLane | None:
        """Return the lane in which the bucket is asked for, if its leader is known."""
        return None if self.node is None else (self.node, self.projects)

    def learn(self, incarnation: int, starts: Sequence[int]) -> None:
        """Take note of who wrote the row before what is asked for, and who those behind it."""
        if not self.lineage.starts:
            self.lineage = Lineage((Start(incarnation, BEFORE_ALL),))
        for start in lineage_of(starts).starts:
            self.lineage = self.lineage.continued(start.incarnation, start.offset)

    @property
    def is_asked_up(self) -> bool:
        """Tell whether everything up to the end was asked for."""
        return self.end is not None and self.next_offset >= self.end

    @property
    def is_done(self) -> bool:
        """Tell whether the caller has everything up to the end."""
        return self.end is not None and self.position >= self.end


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Hold what came of one bucket and is not decoded yet."""

    followed: Followed
    batches: list[FetchedBatch]
    start: int
    end: int
    """The offset up to which the server looked; the last record may lie before it."""
    is_projected: bool
    has_holes: bool = False
    """Whether the server may have left rows out."""

    @property
    def size(self) -> int:
        """Return the bytes that have to be decoded."""
        return sum(len(batch.data) for batch in self.batches)


@dataclass(frozen=True, slots=True, eq=False)
class FetchFault:
    """Hold what went wrong with one bucket."""

    followed: Followed
    fault: errors.HeadwaterError


# The request for more of several logs, written for one server.

_NO_FOLLOWER = -1
_BYTES_MIN = 1


@dataclass(frozen=True, slots=True)
class FetchSize:
    """Bound what one answer may hold, in all and of each bucket."""

    bytes_max: int
    bucket_bytes_max: int

    @classmethod
    def of(cls, settings: ClientSettings) -> "FetchSize":
        """Return the sizes for reading all there is."""
        return cls(settings.fetch_bytes_max, settings.fetch_bucket_bytes_max)

    def share_of(self, buckets: int) -> int:
        """Return what each of some buckets may bring if they come at once."""
        return max(self.bucket_bytes_max, self.bytes_max // max(buckets, 1))


def fetch_request(
    view: RowView, followed: Sequence[Followed], *, size: FetchSize, wait_ms: int, projects: bool
) -> pb.FetchLogRequest:
    """Ask for what comes next in these buckets, cut down as far as a server can do it."""
    table = pb.FetchLogTableRequest(
        table_id=view.table.table_id,
        projection_pushdown_enabled=projects,
        buckets_req=[
            pb.FetchLogBucketRequest(
                partition_id=each.bucket.partition_id,
                bucket_id=each.bucket.bucket,
                fetch_offset=each.next_offset,
                max_fetch_bytes=size.bucket_bytes_max,
                incarnation=each.lineage.writer_before(each.next_offset) or None,
            )
            for each in followed
        ],
    )
    if projects and view.positions is not None:
        table.projected_fields.extend(view.positions)
    if view.predicate is not None:
        table.filter_predicate.CopyFrom(predicate_to_wire(view.predicate, view.table.schema))
    if projects or view.predicate is not None:
        # Positions and ids mean those of this version; servers that take no notice only add
        # columns behind the others, so that positions mean the same in all versions.
        table.filter_schema_id = view.table.schema_id
    return pb.FetchLogRequest(
        follower_server_id=_NO_FOLLOWER,
        max_bytes=size.bytes_max,
        tables_req=[table],
        max_wait_ms=wait_ms,
        min_bytes=_BYTES_MIN,
        takes_joined=True,
        takes_sparse=True,
    )


# Asking servers for more of the logs they lead: one long poll at a time for each.

# What was damaged on its way is whole the next time, what was damaged on disk is not.
DAMAGED_READS_MAX = 3
_FETCH_LOG = API_OF_REQUEST[pb.FetchLogRequest]

Answered = tuple[Followed, BucketAnswer]


class LogPolls:
    """Keep one request under way at every leader, unless an answer of it was not taken yet."""

    def __init__(self, cluster: Cluster, view: RowView, size: FetchSize) -> None:
        self._cluster = cluster
        self._view = view
        self._size = size
        self._busy: set[PollLane] = set()
        self._untaken: set[PollLane] = set()
        self._tasks = Tasks()
        self.followed: dict[Place, Followed] = {}
        self.answers: deque[tuple[PollLane, list[Arrived]]] = deque()
        self.faults: deque[FetchFault | Exception] = deque()
        self.wake = asyncio.Event()
        self.last_fault: errors.HeadwaterError | None = None
        self.progress_at = cluster.clock.monotonic()

    def send(self) -> None:
        """Ask for leaders of buckets, and leaders for more, wherever nothing is under way."""
        now = self._cluster.clock.monotonic()
        groups: dict[PollLane | None, list[Followed]] = {}
        for each in self.followed.values():
            if not each.is_busy and not each.is_asked_up and each.ready_at <= now:
                groups.setdefault(each.lane, []).append(each)
        for lane, group in groups.items():
            if lane is None:
                self._start(group, self._find_leaders)
            elif lane not in self._busy and lane not in self._untaken:
                self._busy.add(lane)
                self._start(self._first_of(group), partial(self._fetch, lane))

    def _first_of(self, group: list[Followed]) -> list[Followed]:
        """Return what one request may name; the next begins with those that are left."""
        if len(group) <= BUCKETS_MAX:
            return group
        for each in group[:BUCKETS_MAX]:
            self.followed[each.place] = self.followed.pop(each.place)
        return group[:BUCKETS_MAX]

    def taken(self, lane: PollLane) -> None:
        """Let a lane go on, as its answer is being read."""
        self._untaken.discard(lane)
        self.send()

    async def close(self) -> None:
        """Stop asking."""
        await self._tasks.stop()

    # ---- work under way

    def _start(
        self, group: list[Followed], work: Callable[[list[Followed]], Awaitable[None]]
    ) -> None:
        for each in group:
            each.is_busy = True
        self._tasks.start(self._guarded(group, work), name="fetch")

    async def _guarded(
        self, group: list[Followed], work: Callable[[list[Followed]], Awaitable[None]]
    ) -> None:
        try:
            await work(group)
        except errors.HeadwaterError as fault:
            for each in group:
                self.failed(each, fault)
        except Exception as defect:  # noqa: BLE001 - the outer edge of a task; the caller is told
            self.faults.append(defect)
        finally:
            for each in group:
                each.is_busy = False
            self.wake.set()

    async def _find_leaders(self, group: Sequence[Followed]) -> None:
        await asyncio.gather(*map(self._find_leader, group))

    async def _find_leader(self, followed: Followed) -> None:
        try:
            followed.node = await self._cluster.leader(followed.bucket)
        except errors.HeadwaterError as fault:
            self.failed(followed, fault)

    async def _fetch(self, lane: PollLane, group: Sequence[Followed]) -> None:
        node, projects = lane
        settings = self._cluster.settings
        request = fetch_request(
            self._view, group, size=self._size, wait_ms=settings.fetch_wait_ms, projects=projects
        )
        try:
            body = await self._cluster.call_node(
                node,
                _FETCH_LOG,
                [request.SerializeToString()],
                timeout_s=settings.request_timeout_s + settings.fetch_wait_ms / 1000,
            )
            found = _answers(group, body)
            if any(is_remote(answer) for _, answer in found):
                found = await self._with_records(found)
            self._received(lane, found)
        finally:
            self._busy.discard(lane)

    # ---- answers

    async def _with_records(self, found: Sequence[Answered]) -> list[Answered]:
        """Read what servers only point to; what cannot be read fails alone."""
        remote_count = sum(is_remote(answer) for _, answer in found)
        chunk_bytes = self._size.share_of(remote_count)
        filled = await asyncio.gather(*(self._filled(*each, chunk_bytes) for each in found))
        return [each for each in filled if each is not None]

    async def _filled(
        self, followed: Followed, answer: BucketAnswer, chunk_bytes: int
    ) -> Answered | None:
        offset = followed.next_offset
        try:
            return followed, await with_records(answer, offset=offset, chunk_bytes=chunk_bytes)
        except errors.HeadwaterError as fault:
            self.failed(followed, fault)
            return None

    def _received(self, lane: PollLane, found: Sequence[Answered]) -> None:
        arrived = []
        for followed, answer in found:
            if self.followed.get(followed.place) is followed:
                arrived += self._bucket_received(followed, answer)
        if arrived:
            self._untaken.add(lane)
            self.answers.append((lane, arrived))

    def _bucket_received(self, followed: Followed, answer: BucketAnswer) -> list[Arrived]:
        try:
            arrived = _arrived(followed, answer)
        except errors.HeadwaterError as fault:
            self.failed(followed, fault)
            return []
        if not arrived.batches:
            followed.failures = 0
        if arrived.end <= followed.next_offset:
            return []
        followed.next_offset = arrived.end
        self.progress_at = self._cluster.clock.monotonic()
        # Behind the others, so that the next answer has room for those first.
        self.followed[followed.place] = self.followed.pop(followed.place)
        return [arrived]

    def read_again(self, arrived: Arrived, fault: errors.HeadwaterError) -> None:
        """Ask once more for what arrived and could not be read."""
        old = arrived.followed
        if self.followed.get(old.place) is not old:
            return
        # Another object, so that what is under way for the old one counts no longer.
        anew = replace(old, position=arrived.start, next_offset=arrived.start, is_busy=False)
        self.followed[old.place] = anew
        self.failed(anew, fault)

    def failed(self, followed: Followed, fault: errors.HeadwaterError) -> None:
        """Have a bucket tried again later; tell the caller what trying again will not mend."""
        if self.followed.get(followed.place) is not followed:
            return
        if isinstance(fault, errors.InvalidProjectionError) and followed.projects:
            # Some servers cannot cut batches that were written before a column was added.
            followed.projects = False
            return
        if errors.moves_leader(fault) or isinstance(fault, errors.PartitionMissingError):
            self._cluster.stale(followed.bucket)
            followed.node = None
        followed.failures += 1
        pause_s = self._cluster.retries.backoff_s(followed.failures)
        followed.ready_at = self._cluster.clock.monotonic() + pause_s
        self.last_fault = fault
        is_damaged = (
            isinstance(fault, errors.StorageError) and followed.failures >= DAMAGED_READS_MAX
        )
        if is_damaged or not fault.retriable:
            self.faults.append(FetchFault(followed, fault))


def _answers(group: Sequence[Followed], body: memoryview) -> list[Answered]:
    """Return what was answered for each bucket that was asked for."""
    asked, found = {each.bucket: each for each in group}, []
    for table in decode_fetch_answer(body):
        for answer in table.buckets:
            fields = answer.fields
            partition_id = fields.partition_id if fields.HasField("partition_id") else None
            bucket = TableBucket(table.table_id, fields.bucket_id, partition_id)
            if bucket in asked:
                found.append((asked[bucket], answer))
    return found


def _arrived(followed: Followed, answer: BucketAnswer) -> Arrived:
    """Return what came of a bucket and how far it reaches, or raise why nothing came."""
    fields = answer.fields
    if fields.error_code:
        raise _fault(followed, fields)
    followed.learn(fields.incarnation, fields.starts)
    batches = stored_batches(answer.records)
    ends = [batch.header.end_offset for batch in batches[-1:]]
    if fields.HasField("filtered_end_offset"):
        ends.append(fields.filtered_end_offset)
    return Arrived(
        followed,
        batches,
        start=followed.next_offset,
        end=max(ends, default=followed.next_offset),
        is_projected=followed.projects and not is_remote(answer),
        has_holes=fields.HasField("filtered_end_offset"),
    )


def _fault(followed: Followed, fields: pb.FetchLogBucketResponse) -> errors.HeadwaterError:
    fault = errors.error_of_code(fields.error_code, fields.error_message)
    if not isinstance(fault, errors.OffsetOutOfRangeError):
        return fault
    start, end = fields.log_start_offset, fields.high_watermark
    known = f"The log goes from {start} to {end}. " if max(start, end) > 0 else ""
    return errors.OffsetOutOfRangeError(
        f"{followed.place} has no offset {followed.next_offset}.",
        hint=f"{known}Old rows expire: start at 'earliest', or at a time.",
    )
