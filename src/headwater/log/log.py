"""One bucket's log: the conductor of appends, syncs, reads, checkpoints and retention."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.errors import CorruptBatchError, RecordTooLargeError, StorageError
from headwater.log.join import (
    SMALL_BYTES_MAX,
    Join,
    Joined,
    SegmentJoin,
    gain_of,
    should_roll,
    small_batches_in,
)
from headwater.log.reader import Reader
from headwater.log.recovery import Recovered, recover, remove_file, remove_segment
from headwater.log.retention import SEGMENT_BYTES_LIMIT, LogSettings, SegmentSpan
from headwater.log.scan import ReadLimits, StoredBatch
from headwater.log.segment import (
    CHECKPOINT,
    DeletedSegment,
    LogShape,
    Mark,
    Segment,
    SegmentName,
    covering,
    extend_chain,
    index_name,
)
from headwater.log.small_files import encode_checkpoint, encode_index
from headwater.log.state import LogState
from headwater.log.writers import NOBODY
from headwater.model.bucket import NO_LINEAGE, UNKNOWN, Lineage
from headwater.rows import log_batch
from headwater.rows.changelog import sent_checksum
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.store.disk import Disk, Part


@dataclass(frozen=True, slots=True)
class PlannedAppend:
    """Hold the bytes of an append, the marks in it and the tail behind it."""

    parts: list[Part]
    marks: list[Mark]
    tail: Mark


def checked_header(batch: Part) -> log_batch.BatchHeader:
    """Read the header of exactly one whole batch: what recovery would refuse is not written."""
    header = log_batch.read_header(batch)
    if len(batch) != header.size:
        raise CorruptBatchError(f"A batch of {header.size} bytes came with {len(batch)}.")
    log_batch.check_crc(batch, header)
    return header


def plan_append(
    batches: Sequence[tuple[Part, log_batch.BatchHeader]],
    *,
    last: Mark,
    tail: Mark,
    timestamp_ms: int,
    interval_bytes: int,
) -> PlannedAppend:
    """Stamp batches so that they follow the tail; timestamps never go back."""
    timestamp_ms = max(timestamp_ms, tail.timestamp_ms)
    parts: list[Part] = []
    marks: list[Mark] = []
    for batch, header in batches:
        if tail.position - last.position >= interval_bytes:
            marks.append(tail)
            last = tail
        chain = 0 if tail.position == last.position else tail.chain
        head, rest = log_batch.stamped(batch, base_offset=tail.offset, timestamp_ms=timestamp_ms)
        tail = Mark(
            tail.offset + header.last_offset_delta + 1,
            tail.position + header.size,
            timestamp_ms,
            extend_chain(
                chain, bytes(head) + bytes(rest[: log_batch.CRC_END - log_batch.CRC_START])
            ),
        )
        parts += (head, rest)
    return PlannedAppend(parts, marks, tail)


# One bucket's log: the conductor of appends, syncs, reads, checkpoints and retention.

HOT_BYTES = 8 << 20
_events = Events("log")


@dataclass(frozen=True, slots=True)
class Appended:
    """Tell where batches landed; a duplicate landed there before."""

    base_offset: int
    end_offset: int
    duplicate: bool = False


class Log:
    """Keep the batches of one bucket.

    Appends, rolls and retention are called from one thread; `sync`, `checkpoint`, `verify` and
    reads may run in others at the same time.
    """

    def __init__(
        self,
        recovered: Recovered,
        state: LogState,
        *,
        settings: LogSettings,
        clock: Clock,
        incarnation: int = UNKNOWN,
    ) -> None:
        self._state = state
        self._clock = clock
        self._settings = settings
        self._reader = Reader(state, interval_bytes=settings.index_interval_bytes)
        self._repairs = recovered.repairs
        self._checkpointed = _checkpointed(recovered)
        self._joining = threading.Lock()
        self._deleted = list(recovered.deleted)
        self._incarnation = incarnation
        # As the checkpoint on disk says: another incarnation is noted there before it writes.
        self._lineage = recovered.checkpoint.lineage if recovered.checkpoint else NO_LINEAGE
        self._is_first_append = incarnation != UNKNOWN and not self._lineage.is_of(incarnation)
        self._opened_at = self.end_offset
        # How often the checkpoint was written by this process.
        self.checkpoint_count = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        settings: LogSettings | None = None,
        clock: Clock,
        incarnation: int = UNKNOWN,
    ) -> "Log":
        """Recover the log in a directory, or start one there.

        1. recover what is there  2. sync it, since it may be read from now on
        3. report what was wrong
        """
        settings = settings or LogSettings()
        try:
            recovered = recover(disk, directory, settings)
        except OSError as error:
            raise StorageError(
                f"The log in {directory} cannot be opened: {error}.",
                hint="Check the disk, then restart the server.",
            ) from error
        state = LogState(recovered, disk=disk, directory=directory)
        log = cls(recovered, state, settings=settings, clock=clock, incarnation=incarnation)
        log.sync()
        for fault in (*log.faults, *log.repairs):
            _events.warning("recovered", directory=directory, fault=fault)
        return log

    @property
    def start_offset(self) -> int:
        """Return the first offset that is kept."""
        return self._state.shape.start_offset

    @property
    def end_offset(self) -> int:
        """Return the offset that the next record gets."""
        return self._state.shape.active.tail.offset

    @property
    def synced_offset(self) -> int:
        """Return the offset before which everything survives a crash."""
        return self._state.synced_offset

    @property
    def durable(self) -> tuple[Segment, Mark]:
        """Return the last segment that was synced, and how much of it is durable."""
        return self._state.durable

    @property
    def shape(self) -> LogShape:
        """Return the segments as they are now, the active one last."""
        return self._state.shape

    def has_segment(self, segment: Segment) -> bool:
        """Tell whether a segment is still part of the log; its file, if it was open before."""
        with self._state.syncing:  # A rename is visible in the shape by now.
            return segment in self._state.shape.segments

    @property
    def directory(self) -> str:
        """Return where the files are, from the root of the disk."""
        return self._state.directory

    @property
    def lineage(self) -> Lineage:
        """Return who wrote the log, whoever writes from now on included."""
        return self._lineage.continued(self._incarnation, self._opened_at)

    @property
    def size_bytes(self) -> int:
        """Return the readable bytes of all segments."""
        return sum(segment.size for segment in self._state.shape.segments)

    @property
    def segment_count(self) -> int:
        """Return how many segments there are, the active one included."""
        return len(self._state.shape.segments)

    @property
    def spans(self) -> tuple[SegmentSpan, ...]:
        """Return what retention needs to know, the active segment last."""
        return tuple(map(_span, self._state.shape.segments))

    @property
    def faults(self) -> tuple[str, ...]:
        """Return what an operator has to look at."""
        return tuple(map(str, self._state.shape.damages))

    @property
    def repairs(self) -> tuple[str, ...]:
        """Return what was mended when the log was opened, as after any crash."""
        return self._repairs

    @property
    def is_fenced(self) -> bool:
        """Tell whether the log stopped taking writes after a disk error."""
        return self._state.is_fenced

    @property
    def is_checkpoint_due(self) -> bool:
        """Tell whether the log rolled or grew enough since the last checkpoint."""
        active = self._state.shape.segments[-1]
        base_offset, position = self._checkpointed
        grown = active.tail.position - position
        is_other = active.marks[0].offset != base_offset
        return is_other or grown >= self._settings.checkpoint_interval_bytes

    def notes_first(self, headers: Sequence[log_batch.BatchHeader], *, owner: int) -> bool:
        """Tell whether an append waits for the disk to note who writes."""
        if self._is_first_append:
            return True
        return owner != NOBODY and bool(self._state.writers.unclaimed(headers, owner))

    def is_full_for(self, size: int) -> bool:
        """Tell whether an append of this many bytes starts a new segment."""
        active_size = self._state.shape.segments[-1].tail.position
        return active_size > 0 and active_size + size > self._settings.segment_bytes_max

    def is_hot(self, offset: int) -> bool:
        """Tell whether an offset was written so lately that reading it cannot wait for a disk."""
        active = self._state.shape.active
        if offset < active.base_offset:
            return False
        written_from = max(active.written_from, active.size - HOT_BYTES)
        return active.mark_before(offset).position >= written_from

    def bytes_from(self, offset: int) -> int:
        """Return how many bytes at the most lie behind an offset of the active segment."""
        active = self._state.shape.active
        return active.size - active.mark_before(offset).position

    def resent(
        self, writer_id: int, sequence: int, *, checksum: int, owner: int = NOBODY
    ) -> Appended | None:
        """Return where a request of a writer landed before, or None if it is the next one."""
        self._state.refuse_if_stopped()
        self._state.writers.check_owner(writer_id, owner)
        kept = self._state.writers.expect(writer_id, sequence, checksum=checksum)
        if kept is None:
            return None
        return Appended(kept.base_offset, kept.end_offset, duplicate=True)

    def append(
        self,
        batches: Sequence[Part],
        *,
        timestamp_ms: int,
        headers: Sequence[log_batch.BatchHeader] | None = None,
        owner: int = NOBODY,
    ) -> Appended:
        """Write batches behind each other, all of them or none.

        Whoever gives their headers has checked the batches against them already.

        1. check the bytes  2. answer a resend  3. note who writes, if that is news
        4. roll if full  5. stamp  6. write  7. publish
        """
        self._state.refuse_if_stopped()
        if headers is None:
            headers = [checked_header(batch) for batch in batches]
        checked = list(zip(batches, headers, strict=True))
        for header in headers:
            self._state.writers.check_owner(header.writer_id, owner)
        if resent := self._state.writers.resent(headers):
            return Appended(resent[0].base_offset, resent[-1].end_offset, duplicate=True)
        size = sum(map(len, batches))
        _require_fitting(size)
        if self._is_first_append or owner != NOBODY:
            self._note_writers(headers, owner=owner, now_ms=timestamp_ms)
        if self.is_full_for(size):
            self.roll()
        with self._state.writing:
            active = self._state.shape.segments[-1]
            planned = plan_append(
                checked,
                last=active.marks[-1],
                tail=active.tail,
                timestamp_ms=timestamp_ms,
                interval_bytes=self._settings.index_interval_bytes,
            )
            base_offset = active.tail.offset
            self._state.write(planned.parts)
            self._publish(active, checked, planned)
        return Appended(base_offset, planned.tail.offset)

    def sync(self) -> int:
        """Make everything written so far durable and return the offset after it."""
        return self._state.sync().tail.offset

    def roll(self) -> None:
        """Seal the active segment, unless it is empty, and start another one."""
        self._state.refuse_if_stopped()
        self._state.roll()

    def read(
        self, offset: int, *, bytes_max: int, up_to: int, at_least_one: bool = True
    ) -> memoryview:
        """Return whole batches from the one that holds an offset, up to a segment's end."""
        wanted = ReadLimits(offset, min(up_to, self.end_offset), bytes_max, at_least_one)
        return self._reader.read(wanted)

    def batches(self, offset: int, *, up_to: int) -> Iterator[StoredBatch]:
        """Yield the stored batches from the one that holds an offset, with only headers read."""
        return self._reader.batches(offset, min(up_to, self.end_offset))

    def offset_for_timestamp(self, timestamp_ms: int) -> int:
        """Return the first offset whose batch was committed at or after a time, else the end."""
        return self._reader.offset_for_timestamp(timestamp_ms)

    def verify(self, limit_bytes: int) -> int:
        """Check stored bytes that this process has not checked, and return how many that were."""
        return self._reader.verify(limit_bytes)

    @property
    def is_scattered(self) -> bool:
        """Tell whether the active segment should be rolled, so that its batches can be joined."""
        active = self._state.shape.active
        small, last_ms = active.small_batches or 0, active.tail.timestamp_ms
        return should_roll(small, last_ms=last_ms, now_ms=self._clock.now_ms())

    def join(self, join: Join) -> Joined | None:
        """Rewrite the oldest sealed segment with many small batches, if there is one.

        Closing the log ends it, and waits for it.
        """
        state = self._state
        with self._joining:
            self._count_small_batches()
            for segment in state.shape.segments[:-1]:
                state.refuse_if_stopped()
                # What a checkpoint says of a segment that was active must not be of another file.
                is_noted = segment.base_offset < self._checkpointed[0] and segment.is_indexed
                if segment.is_settled or segment.is_damaged or not is_noted:
                    continue
                joined, settings = None, self._settings
                file = state.disk.open(segment.path)
                gain = gain_of(segment, file, rows_max=settings.join_rows_max)
                if gain >= settings.join_gain_min:
                    joined = SegmentJoin(state, segment, join, settings=settings).run()
                segment.is_settled = True
                if joined is not None:
                    return joined
        return None

    def _count_small_batches(self) -> None:
        """Count what was there when the log was opened; appends count on from that."""
        with self._state.writing:
            active = self._state.shape.active
            file = active.file
            if file is None or active.small_batches is not None:
                return
            active.small_batches, end = 0, active.size
        found = small_batches_in(active, file, end=end)
        with self._state.writing:
            active.small_batches = (active.small_batches or 0) + found

    def limit_segments(self, segment_bytes_max: int) -> None:
        """Begin the next segment at another size from now on."""
        self._settings = replace(self._settings, segment_bytes_max=segment_bytes_max)

    def active_since_ms(self) -> int | None:
        """Return when the first batch of the active segment was committed; None if it is empty."""
        base_offset = self._state.shape.active.base_offset
        first = next(iter(self._reader.batches(base_offset, self.end_offset)), None)
        return None if first is None else first.header.commit_timestamp

    def delete_before(self, offset: int, *, due_ms: int | None = None) -> int:
        """Delete whole sealed segments before an offset and return the new log start.

        1. persist the start, so that a crash cannot bring back half of it  2. stop reads
        3. unlink, or rename what is to stay on disk until it is due
        """
        with self._state.syncing:
            shape = self._state.shape
            first = shape.at_or_before(offset) or shape.segments[0]
            start_offset = max(first.base_offset, shape.start_offset)
            removed = [each for each in shape.segments if each.base_offset < first.base_offset]
            if not removed:
                return shape.start_offset
            try:
                self._write_checkpoint(start_offset)
            except OSError as error:
                raise self._state.failed("writing a checkpoint", error) from error
            with self._state.writing:
                self._state.shape = self._state.shape.without(removed, start_offset=start_offset)
            self._unlink(removed, due_ms)
            return start_offset

    def has_deleted_files(self, now_ms: int) -> bool:
        """Tell whether files of deleted segments are due."""
        return any(each.due_ms <= now_ms for each in self._deleted)

    def remove_deleted(self, now_ms: int) -> None:
        """Unlink the files of deleted segments that are due."""
        state, due = self._state, [each for each in self._deleted if each.due_ms <= now_ms]
        try:
            for each in due:
                remove_file(state.disk, f"{state.directory}/{each}")
                self._deleted.remove(each)
        except OSError as error:
            _events.warning("unlinking failed", directory=state.directory, cause=str(error))

    def checkpoint(self) -> None:
        """Note what is durable, so that the next recovery starts there."""
        try:
            self._write_checkpoint(self.start_offset)
        except OSError as error:
            # Recovery can do without: it reads more, that is all.
            _events.warning("checkpoint failed", directory=self._state.directory, cause=str(error))

    def close(self) -> None:
        """Sync, write a checkpoint and take no more writes."""
        try:
            if not (self.is_fenced or self._state.is_closed):
                self.checkpoint()
        finally:
            self._state.close()
            with self._joining:
                pass  # It has noticed, and left everything as it was or is to be.

    def _note_writers(
        self, headers: Sequence[log_batch.BatchHeader], *, owner: int, now_ms: int
    ) -> None:
        """Note on disk which incarnation writes from here on, and whose new computed ids are.

        Before the first batch is there: a crash must not leave it to somebody else.
        """
        claimed = self._state.writers.claim(headers, owner, now_ms=now_ms)
        if claimed or self._is_first_append:
            try:
                self._write_checkpoint(self.start_offset)
            except OSError as error:
                self._state.writers.release(claimed)
                raise self._state.failed("writing a checkpoint", error) from error

    def _publish(
        self,
        active: Segment,
        batches: Sequence[tuple[Part, log_batch.BatchHeader]],
        planned: PlannedAppend,
    ) -> None:
        base_offset = active.tail.offset
        for batch, header in batches:
            self._state.writers.record(
                header,
                base_offset=base_offset,
                timestamp_ms=planned.tail.timestamp_ms,
                checksum=header.crc
                if header.attributes & log_batch.APPEND_ONLY
                else sent_checksum(batch, header),
            )
            base_offset += header.last_offset_delta + 1
            if active.small_batches is not None:
                is_joinable = header.record_count > 0 and len(batch) <= SMALL_BYTES_MAX
                active.small_batches += is_joinable
        active.marks.extend(planned.marks)
        active.tail = planned.tail

    def _write_checkpoint(self, start_offset: int) -> None:
        """Sync, index what is sealed and replace the checkpoint."""
        state = self._state
        with state.syncing:
            with state.writing:
                state.writers.forget_idle(before_ms=self._idle_before_ms())
            covered = state.sync(for_checkpoint=True)
            for segment in state.shape.segments[:-1]:
                if not (segment.is_indexed or segment.is_damaged):
                    path = f"{state.directory}/{index_name(segment.base_offset)}"
                    state.disk.replace(path, encode_index(covering(segment.marks, segment.tail)))
                    segment.is_indexed = True
            lineage = self.lineage.since(start_offset)
            content = encode_checkpoint(covered.checkpoint(start_offset, lineage))
            state.disk.replace(f"{state.directory}/{CHECKPOINT}", content)
            self._lineage = lineage
            self.checkpoint_count += 1
            self._is_first_append = False
            self._checkpointed = (covered.segment.base_offset, covered.tail.position)

    def _idle_before_ms(self) -> int:
        return self._clock.now_ms() - self._settings.writer_expiration_ms

    def _unlink(self, removed: Sequence[Segment], due_ms: int | None) -> None:
        state = self._state
        try:
            for segment in removed:
                name = SegmentName(segment.base_offset, segment.is_damaged)
                if due_ms is not None and not segment.is_damaged:
                    deleted = DeletedSegment(segment.base_offset, due_ms)
                    state.disk.rename(segment.path, f"{state.directory}/{deleted}")
                    self._deleted.append(deleted)
                remove_segment(state.disk, state.directory, name)
            state.disk.sync_directory(state.directory)
        except OSError as error:
            # The start offset is durable, so the next opening finishes this.
            _events.warning("unlinking failed", directory=state.directory, cause=str(error))


def _require_fitting(size: int) -> None:
    if size > SEGMENT_BYTES_LIMIT:
        raise RecordTooLargeError(f"An append of {size} bytes does not fit into a segment.")


def _span(segment: Segment) -> SegmentSpan:
    return SegmentSpan(
        segment.base_offset, segment.end_offset, segment.size, segment.tail.timestamp_ms
    )


def _checkpointed(recovered: Recovered) -> tuple[int, int]:
    """Return segment and position of the checkpoint that was found, to tell when one is due."""
    active = recovered.segments[-1]
    if recovered.checkpoint is None:
        return (active.base_offset, 0) if len(recovered.segments) == 1 else (-1, 0)
    return recovered.checkpoint.segment_base, recovered.checkpoint.marks[-1].position
