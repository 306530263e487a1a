"""What the state of a bucket needs from time to time: snapshots, compaction, expiry."""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import KvStorageError
from headwater.kv.heap import (
    LEAD,
    OFFSET_BITS,
    HeapSegment,
    HeapView,
    Locations,
    base_location,
    schema_of,
    segment_of,
)
from headwater.kv.state import KvState
from headwater.kv.store import KvStore, Snapshot, described
from headwater.rows.compute import pc
from headwater.rows.row_bytes import PADDING, RowBytes
from headwater.runtime.tasks import to_the_end
from headwater.tablet.keyed_table import AGE_STEPS, age_span_ms
from headwater.tablet.pk_tablet import PkTablet

# Decide which segments to rewrite, so that dead rows give their room back.

SMALL_COUNT_MIN = 8
VICTIM_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """Hold what planning needs to know about one sealed segment."""

    number: int
    size_bytes: int
    live_bytes: int
    oldest_ms: int
    newest_ms: int


def segments_to_compact(
    segments: Sequence[SegmentUse],
    *,
    small_bytes: int,
    dead_share_max: float,
    age_span_ms_max: int | None,
) -> tuple[int, ...]:
    """Return the segments to rewrite as one: those with too many dead rows, or many small ones.

    Where rows expire by age, only segments of about the same age are put together.
    """
    by_age = sorted(segments, key=lambda segment: (segment.oldest_ms, segment.number))
    for group in _of_similar_age(by_age, age_span_ms_max):
        dead = [segment for segment in group if _is_dirty(segment, dead_share_max)]
        small = [segment for segment in group if segment.size_bytes < small_bytes]
        chosen = {segment.number: segment for segment in dead}
        if len(small) >= SMALL_COUNT_MIN:
            chosen |= {segment.number: segment for segment in small}
        if chosen:
            return _bounded([segment for segment in group if segment.number in chosen])
    return ()


def _is_dirty(segment: SegmentUse, dead_share_max: float) -> bool:
    dead_bytes = segment.size_bytes - segment.live_bytes
    # One without any row is only deleted, which costs nothing.
    return not segment.live_bytes or dead_bytes > segment.size_bytes * dead_share_max


def _of_similar_age(
    segments: Sequence[SegmentUse], span_ms_max: int | None
) -> Sequence[Sequence[SegmentUse]]:
    if span_ms_max is None:
        return [segments]
    groups: list[list[SegmentUse]] = []
    for segment in segments:
        together = [*groups[-1], segment] if groups else [segment]
        newest_ms = max(each.newest_ms for each in together)
        if groups and newest_ms - together[0].oldest_ms <= span_ms_max:
            groups[-1] = together
        else:
            groups.append([segment])
    return groups


def _bounded(segments: Sequence[SegmentUse]) -> tuple[int, ...]:
    """Take as many as leave a segment of reasonable size, but at least one."""
    chosen: list[int] = []
    live_bytes = 0
    for segment in segments:
        live_bytes += segment.live_bytes
        if chosen and live_bytes > VICTIM_BYTES_MAX // 2:
            break
        chosen.append(segment.number)
    return tuple(chosen)


# What the state of a bucket needs from time to time: snapshots, compaction, expiry.

T = TypeVar("T")

COPY_ROWS = 65_536
EXPIRE_ROWS = 10_000
SMALL_SEGMENT_SHARE = 4
LOOK_INTERVAL_MS_MAX = 600_000


@dataclass(frozen=True, slots=True, eq=False)
class _Live:
    """Hold the rows of some segments, in the order in which they lie."""

    view: HeapView
    hashes: npt.NDArray[np.uint64]
    locations: Locations


class StateFiles:
    """Write the full segments of a state to files; one job at a time."""

    def __init__(self, state: KvState, store: KvStore, *, executor: Executor) -> None:
        self.store = store
        self.job = asyncio.Lock()
        self._state = state
        self._executor = executor

    async def spill(self) -> None:
        """Write full segments to files, so that their memory can be given back."""
        async with self.job:
            await self.write_sealed(dict(self._state.heap.segments))

    async def make_room(self) -> None:
        """Spill for a writer, and raise an error that tells it why there is no room."""
        try:
            await self.spill()
        except OSError as error:
            raise KvStorageError(
                f"There is no room for more rows: {error}.", hint="Check the disk of the server."
            ) from error

    async def write_sealed(self, segments: dict[int, HeapSegment]) -> None:
        """Write those of some segments that are full and have no file yet, within a job."""
        heap = self._state.heap
        for number, segment in segments.items():
            if segment.serial is None and number != heap.active:
                await self.in_thread(partial(self.store.write, segment))
                if heap.segments.get(number) is segment:
                    heap.remap(number, segment.data)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread; the job that asks for it lasts until it has ended."""
        loop = asyncio.get_running_loop()
        return await to_the_end(loop.run_in_executor(self._executor, work))


class StateUpkeep:
    """Save, compact and expire the state of one bucket; one job at a time."""

    def __init__(self, tablet: PkTablet, files: StateFiles, *, saved_offset: int = -1) -> None:
        self._tablet = tablet
        self._files = files
        self._store = files.store
        self._job = files.job
        self._saved_offset = saved_offset
        self._expire_from_ms = 0
        self._compact_from_s = -math.inf

    @property
    def needed_from(self) -> int:
        """Return the offset from which on the log is needed to rebuild the state."""
        return self._store.rebuild_offset

    @property
    def unsaved_rows(self) -> int:
        """Return how many changes the log has since the last snapshot."""
        return self._tablet.log.log.end_offset - max(self._saved_offset, 0)

    async def drop(self) -> None:
        """End the job that runs, then let go of the rows and their files."""
        async with self._job:
            await self._tablet.drop()

    # ---- files

    async def spill(self) -> None:
        """Write full segments to files, so that their memory can be given back."""
        await self._files.spill()

    async def snapshot(self) -> bool:
        """Save the state as it is now, unless nothing changed, and tell whether that was done.

        1. note what there is, under the turn  2. write segments that have no file
        3. wait for the log to be durable  4. make the snapshot count
        """
        async with self._job:
            tablet, heap = self._tablet, self._tablet.state.heap
            async with tablet.log.turn:
                tablet.refuse_if_failed()
                if self._is_saved:
                    return False
                heap.seal()
                segments = {
                    number: (segment, segment.live_bytes)
                    for number, segment in heap.segments.items()
                }
                snapshot = await tablet.log.alone(self._noted)
            await self._files.write_sealed(
                {number: segment for number, (segment, _) in segments.items()}
            )
            await tablet.log.acknowledge(snapshot.offset, acks=-1)
            files = tuple(
                replace(described(number, segment), live_bytes=live_bytes)
                for number, (segment, live_bytes) in segments.items()
            )
            in_use = {each.serial for each in heap.segments.values() if each.serial is not None}
            save = partial(self._store.save, replace(snapshot, segments=files), in_use=in_use)
            await self._files.in_thread(save)
            self._saved_offset = snapshot.offset
            return True

    @property
    def newest_snapshot(self) -> tuple[int, Snapshot] | None:
        """Return the newest snapshot on disk with its number."""
        return self._store.newest

    @property
    def _is_saved(self) -> bool:
        """Tell whether the newest snapshot still says where everything is."""
        heap = self._tablet.state.heap
        if self._tablet.log.log.end_offset != self._saved_offset:
            return False
        return self._store.names_all([each.serial for each in heap.segments.values()])

    def _noted(self) -> Snapshot:
        state = self._tablet.state
        hashes, locations = state.index.entries()
        return Snapshot(
            self._tablet.log.log.end_offset,
            state.seed,
            (),
            hashes,
            locations,
            dict(state.collided),
            state.prefixes.arrays() if state.prefixes else None,
            self._tablet.ids.range,
        )

    # ---- compaction

    async def compact_when_due(self, now_s: float) -> int:
        """Compact if the table's options allow it by now; the time is that of a steady clock."""
        options = self._tablet.table.latest().options.kv.compaction
        if not options.enabled or now_s < self._compact_from_s:
            return 0
        compacted = await self.compact()
        if compacted:
            self._compact_from_s = now_s + options.interval_ms / 1000
        return compacted

    async def compact(self) -> int:
        """Rewrite segments with many dead rows, or small ones, and return how many that were.

        1. choose them, and find their rows, under the turn  2. copy the rows to a new segment
        3. point to the copies, under the turn, where rows are still what they were
        """
        if not self._victims():
            return 0
        async with self._job:
            tablet = self._tablet
            async with tablet.log.turn:
                tablet.refuse_if_failed()
                victims = self._victims()
                if not victims:
                    return 0
                offset = tablet.log.log.end_offset
                live = await tablet.log.alone(partial(self._live_in, victims))
            segment, starts = await self._files.in_thread(partial(self._copied, live, victims))
            if len(live.locations):
                await self._files.in_thread(partial(self._store.write, segment))
            # Who reads a copy does not wait for the log, so it must be durable already.
            await tablet.log.acknowledge(offset, acks=-1)
            async with tablet.log.turn:
                with tablet.state.lock:
                    self._point_to_copies(segment, starts, live, victims)
            return len(victims)

    def _point_to_copies(
        self,
        segment: HeapSegment,
        starts: npt.NDArray[np.int64],
        live: _Live,
        victims: tuple[int, ...],
    ) -> None:
        state, heap = self._tablet.state, self._tablet.state.heap
        if len(live.locations):
            number = heap.add(segment)
            after = _relocated(live.locations, number, starts[:-1])
            moved = state.move(live.hashes, before=live.locations, after=after)
            segment.live_bytes = int(np.diff(starts)[moved].sum())
        for victim in victims:
            heap.remove(victim)

    def _victims(self) -> tuple[int, ...]:
        heap, version = self._tablet.state.heap, self._tablet.table.latest()
        segments = [
            SegmentUse(
                number,
                segment.end - LEAD,
                segment.live_bytes,
                segment.oldest_ms,
                segment.newest_ms,
            )
            for number, segment in heap.segments.items()
            if number != heap.active
        ]
        return segments_to_compact(
            segments,
            small_bytes=heap.segment_bytes_max // SMALL_SEGMENT_SHARE,
            dead_share_max=version.options.kv.compaction.dirty_ratio,
            age_span_ms_max=age_span_ms(version),
        )

    def _live_in(self, segments: tuple[int, ...]) -> _Live:
        state = self._tablet.state
        hashes, locations = state.entries()
        chosen = np.flatnonzero(np.isin(segment_of(locations), np.array(segments)))
        chosen = chosen[np.argsort(locations[chosen] & (base_location(1, 0) - 1))]
        return _Live(state.heap.frozen(), hashes[chosen], locations[chosen])

    def _copied(
        self, live: _Live, victims: tuple[int, ...]
    ) -> tuple[HeapSegment, npt.NDArray[np.int64]]:
        """Copy rows behind each other and return where each starts, and the end."""
        parts, starts = [np.zeros(LEAD, np.uint8)], [np.array([LEAD], np.int64)]
        for first in range(0, len(live.locations), COPY_ROWS):
            data, offsets = live.view.copy(live.locations[first : first + COPY_ROWS])
            parts.append(data)
            starts.append(starts[-1][-1] + offsets[1:])
        segments = [self._tablet.state.heap.segments[number] for number in victims]
        segment = HeapSegment(
            np.concatenate([*parts, np.zeros(PADDING, np.uint8)]),
            oldest_ms=min(each.oldest_ms for each in segments),
            newest_ms=max(each.newest_ms for each in segments),
        )
        ends = np.concatenate(starts)
        segment.end = int(ends[-1])
        return segment, ends

    # ---- expiry

    async def expire(self, now_ms: int) -> int:
        """Delete rows that are too old, as deletes in the changelog, and return how many."""
        options, expired = self._tablet.table.latest().options.kv, 0
        if not options.ttl_ms or now_ms < self._expire_from_ms:
            return 0
        if options.ttl_time_column is not None:
            # All rows have to be looked at, so that is not done at every turn.
            self._expire_from_ms = now_ms + min(options.ttl_ms // AGE_STEPS, LOOK_INTERVAL_MS_MAX)
        self._tablet.seal_aged(now_ms)
        before_ms = now_ms - options.ttl_ms
        old = self._old_segments(before_ms)
        if not old:
            return 0
        async with self._tablet.log.turn:
            live = await self._tablet.log.alone(partial(self._live_in, old))
        for first in range(0, len(live.locations), EXPIRE_ROWS):
            locations = live.locations[first : first + EXPIRE_ROWS]
            choose = partial(self._expired_keys, live.view, locations, before_ms)
            expired += await self._tablet.remove(*await self._files.in_thread(choose))
        return expired

    def _old_segments(self, before_ms: int) -> tuple[int, ...]:
        """Return the segments that were last written long ago, or all to look at a column."""
        by_column = self._tablet.table.latest().options.kv.ttl_time_column is not None
        return tuple(
            number
            for number, segment in self._tablet.state.heap.segments.items()
            if segment.live_bytes and (by_column or segment.newest_ms < before_ms)
        )

    def _expired_keys(
        self, view: HeapView, locations: Locations, before_ms: int
    ) -> tuple[RowBytes, Locations]:
        records = view.read(locations)
        version = self._tablet.table.latest()
        column = version.options.kv.ttl_time_column
        if column is None:
            return records.keys, locations
        rows = self._tablet.table.decode(
            records.rows, records.schema_ids, wanted=version, enforce_not_null=False
        )
        times = _milliseconds(rows.column(column))
        # A row without a time never expires.
        is_old = pc.fill_null(pc.less(times, before_ms), False).to_numpy(zero_copy_only=False)
        return records.keys.take(is_old), locations[is_old]


def _relocated(locations: Locations, number: int, offsets: npt.NDArray[np.int64]) -> Locations:
    return schema_of(locations) * base_location(1, 0) + (number << OFFSET_BITS) + offsets


def _milliseconds(times: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    return times
