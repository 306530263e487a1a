"""Check the log of one bucket: offsets without gaps or repeats, and checksums that match."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from headwater import errors
from headwater.audit.report import Check, Finding, Notes, Severity
from headwater.audit.writers import LOOK_AT_WRITERS, SequenceOrder, anew_text, following
from headwater.cluster.cluster import Cluster
from headwater.model import OffsetRange, TableBucket, TableInfo
from headwater.read.filters import RowView
from headwater.read.log import FetchedBatch, refuse_cut, stored_batches, with_records
from headwater.read.offsets import Place, When, list_offsets
from headwater.read.polls import FetchSize, Followed, fetch_request
from headwater.read.position import has_lake
from headwater.rows.join import original_headers
from headwater.rows.log_batch import NO_WRITER, BatchHeader, check_crc
from headwater.runtime.tasks import aside
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch import BucketAnswer, decode_fetch_answer

# One audited bucket, and how to report what is wrong with it.


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedBucket:
    """A bucket's name, for people and for servers; collects findings about it."""

    cluster: Cluster
    table: TableInfo
    place: Place
    bucket: TableBucket
    notes: Notes

    def bad(
        self,
        check: Check,
        message: str,
        *,
        offset: int | None = None,
        remedy: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report that something is wrong in the bucket."""
        self.notes.bad(
            Finding(
                check=check,
                severity=severity,
                table=str(self.table.path),
                partition=self.place.partition,
                bucket=self.place.bucket,
                offset=offset,
                message=message,
                remedy=remedy,
            )
        )

    @property
    def shown(self) -> str:
        """The name of the bucket as people write it."""
        of_partition = "" if self.place.partition is None else f"partition {self.place.partition} "
        return f"{of_partition}bucket {self.place.bucket}"

    async def offset(self, when: When) -> int:
        """The offset of the log at a moment."""
        buckets = {self.place: self.bucket}
        return (await list_offsets(self.cluster, self.table, when, buckets=buckets))[self.place]

    def repair(self, cure: str) -> str:
        """The command that repairs the bucket, to be run where its data directory is."""
        of_partition = (
            "" if self.place.partition is None else f" --partition {self.place.partition}"
        )
        return (
            f"headwater repair DIRECTORY {self.table.path}{of_partition}"
            f" --bucket {self.place.bucket} {cure}"
        )

    @property
    def rebuild(self) -> str:
        """The command that rebuilds the state."""
        return self.repair("--rebuild-state")


# Reading the batches of a bucket's log from a server, skipping what cannot be read.

# Damage in transit is gone the next time; damage on disk is not.
DAMAGED_READS_MAX = 3
_FETCH_LOG = API_OF_REQUEST[pb.FetchLogRequest]


@dataclass(frozen=True, slots=True, eq=False)
class Unreadable:
    """Offsets that cannot be read, and why."""

    offsets: OffsetRange
    fault: errors.HeadwaterError


class BatchWalk:
    """Reads a log batch by batch; the next response is fetched while one is checked."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._cluster = audited.cluster
        self._audited = audited
        self._view = RowView.of(audited.table)
        self._size = FetchSize.of(audited.cluster.settings)

    async def parts(
        self, wanted: OffsetRange
    ) -> AsyncGenerator[list[FetchedBatch] | Unreadable, None]:
        """Yield the batches that hold some offsets, and between them what cannot be read."""
        offset, reading = wanted.start, None
        try:
            while offset < wanted.end:
                reading = reading or self._begun(offset)
                found, reading = await self._read(reading, OffsetRange(offset, wanted.end)), None
                if isinstance(found, Unreadable):
                    offset = found.offsets.end
                else:
                    offset = max(offset + 1, found[-1].header.end_offset)
                    reading = self._begun(offset) if offset < wanted.end else None
                yield found
        finally:
            if reading is not None:
                reading.cancel()

    def _begun(self, offset: int) -> asyncio.Task[list[FetchedBatch]]:
        return asyncio.get_running_loop().create_task(self._fetch(offset))

    async def _read(
        self, reading: asyncio.Task[list[FetchedBatch]], wanted: OffsetRange
    ) -> list[FetchedBatch] | Unreadable:
        try:
            came = await reading
            # Batches written after the end was chosen are not wanted; if the first one is such a
            # batch, it shows a gap.
            return [each for each in came if each.header.base_offset < wanted.end] or came[:1]
        except (errors.OffsetOutOfRangeError, errors.StorageError, errors.RemoteLogError) as fault:
            start = await self._audited.offset("earliest")
            if start > wanted.start:
                # Retention was faster.
                gone = errors.OffsetOutOfRangeError(fault.message, hint=fault.hint)
                return Unreadable(OffsetRange(wanted.start, min(start, wanted.end)), gone)
            if isinstance(fault, errors.OffsetOutOfRangeError):
                raise
            end = await self._next_readable(wanted)
            return Unreadable(OffsetRange(wanted.start, end), fault)

    # ---- around damage

    async def _next_readable(self, wanted: OffsetRange) -> int:
        """Find the first offset behind damage: leap until one can be read, then close in."""
        low, leap = wanted.start, 1
        while True:
            high = min(wanted.start + leap, wanted.end)
            if high == wanted.end or await self._is_readable(high):
                break
            low, leap = high, leap * 2
        while high - low > 1:
            middle = (low + high) // 2
            if await self._is_readable(middle):
                high = middle
            else:
                low = middle
        return high

    async def _is_readable(self, offset: int) -> bool:
        try:
            await self._fetch(offset, damaged_reads_max=1)
        except (errors.OffsetOutOfRangeError, errors.StorageError, errors.RemoteLogError):
            return False
        return True

    # ---- asking

    async def _fetch(
        self, offset: int, *, damaged_reads_max: int = DAMAGED_READS_MAX
    ) -> list[FetchedBatch]:
        """Fetch whole batches from the one that holds an offset, with retries."""
        cluster, failures = self._cluster, 0
        deadline = cluster.clock.monotonic() + cluster.settings.deadline_s
        while True:
            try:
                return await self._fetch_once(offset)
            except errors.HeadwaterError as fault:
                failures += 1
                if errors.moves_leader(fault):
                    cluster.stale(self._audited.bucket)
                is_damaged = (
                    isinstance(fault, errors.StorageError) and failures >= damaged_reads_max
                )
                is_late = cluster.clock.monotonic() >= deadline
                if is_damaged or is_late or not fault.retriable:
                    raise
            await cluster.clock.sleep(cluster.retries.backoff_s(failures))

    async def _fetch_once(self, offset: int) -> list[FetchedBatch]:
        audited = self._audited
        followed = Followed(
            place=audited.place,
            bucket=audited.bucket,
            position=offset,
            next_offset=offset,
            projects=False,
        )
        request = fetch_request(self._view, [followed], size=self._size, wait_ms=0, projects=False)
        body = await self._cluster.call_leader(
            audited.bucket, _FETCH_LOG, [request.SerializeToString()]
        )
        answers = [bucket for table in decode_fetch_answer(body) for bucket in table.buckets]
        batches = await self._batches(answers[0], offset) if answers else []
        if not batches:
            raise errors.TimedOutError(
                f"{audited.bucket} should have offset {offset}, but the server does not return it."
            )
        return batches

    async def _batches(self, answer: BucketAnswer, offset: int) -> list[FetchedBatch]:
        fields = answer.fields
        if fields.error_code:
            raise errors.error_of_code(fields.error_code, fields.error_message)
        chunk_bytes = self._size.share_of(1)
        full = await with_records(answer, offset=offset, chunk_bytes=chunk_bytes)
        refuse_cut(full, self._audited.bucket)
        return stored_batches(full.records)


# Checking the batches.

PROGRESS_ROWS = 100_000


class Contents(Protocol):
    """Checks what batches contain."""

    async def take(self, batches: Sequence[FetchedBatch]) -> None:
        """Check batches that follow those before."""
        ...

    def begin_anew(self) -> None:
        """Expect batches that do not follow, because something between them is unknown."""
        ...


class NoContents:
    """Checks nothing: checksums are enough."""

    async def take(self, batches: Sequence[FetchedBatch]) -> None:
        """Check nothing."""

    def begin_anew(self) -> None:
        """Nothing to forget."""


@dataclass(frozen=True, slots=True)
class LogFault:
    """What is wrong with a log, and from which offset on."""

    check: Check
    offset: int
    message: str
    severity: Severity = Severity.ERROR


@dataclass(slots=True)
class LogCheck:
    """Follows the batches of one log, and notes gaps, repeats and damage."""

    offset: int
    """The next offset."""
    timestamp_ms: int = 0
    batch_count: int = 0
    row_count: int = 0
    faults: list[LogFault] = field(default_factory=list)
    _is_begun: bool = False
    _sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number and time of the last batch of each writer."""

    def take(self, batches: Iterable[FetchedBatch]) -> list[list[FetchedBatch]]:
        """Check batches, and return the good ones in runs, with something bad between them."""
        runs: list[list[FetchedBatch]] = [[]]
        for batch in batches:
            is_repeated, is_gap = self._is_repeated(batch), self._is_behind_gap(batch)
            is_good = self._is_intact(batch) and not is_repeated
            if is_gap or not is_good:
                runs.append([])
                self._sequences.clear()
            if is_good:
                runs[-1].append(batch)
                self._check_writers(batch)
            self._go_behind(batch)
        return runs

    def pass_over(self, offsets: OffsetRange) -> None:
        """Continue after offsets that cannot be checked."""
        self.offset = max(self.offset, offsets.end)
        self._is_begun = False
        self._sequences.clear()

    def _is_repeated(self, batch: FetchedBatch) -> bool:
        header = batch.header
        # A log may begin in the middle of a batch, and so may what follows damage.
        is_cut = not self._is_begun and header.end_offset > self.offset
        if header.base_offset >= self.offset or is_cut:
            return False
        message = (
            f"Offset {header.base_offset} follows {self.offset - 1}: repeated, or out of order."
        )
        self.faults.append(LogFault(Check.OFFSETS, header.base_offset, message))
        return True

    def _is_behind_gap(self, batch: FetchedBatch) -> bool:
        base = batch.header.base_offset
        if base <= self.offset:
            return False
        message = f"The offsets {self.offset} to {base - 1} are missing."
        self.faults.append(LogFault(Check.OFFSETS, self.offset, message))
        return True

    def _is_intact(self, batch: FetchedBatch) -> bool:
        header = batch.header
        if header.commit_timestamp < self.timestamp_ms:
            message = (
                f"The time of the batch at offset {header.base_offset} is "
                f"{self.timestamp_ms - header.commit_timestamp} ms before that of the "
                "previous one."
            )
            fault = LogFault(Check.OFFSETS, header.base_offset, message, Severity.WARNING)
            self.faults.append(fault)
        try:
            check_crc(batch.data, header)
        except errors.CorruptBatchError as fault:
            self.faults.append(LogFault(Check.CHECKSUMS, header.base_offset, fault.message))
            return False
        return True

    def _check_writers(self, batch: FetchedBatch) -> None:
        try:
            for header in original_headers(batch.data, batch.header):
                self._check_writer(header)
        except errors.CorruptBatchError as fault:
            offset = batch.header.base_offset
            self.faults.append(LogFault(Check.CHECKSUMS, offset, fault.message))

    def _check_writer(self, header: BatchHeader) -> None:
        """Note a batch that its writer sent before, or one whose predecessors are missing."""
        if header.writer_id == NO_WRITER:
            return
        before = self._sequences.get(header.writer_id)
        self._sequences[header.writer_id] = header.sequence, header.commit_timestamp
        if before is None:
            return
        last, last_ms = before
        silent_ms = header.commit_timestamp - last_ms
        match following(header.sequence, last=last, silent_ms=silent_ms):
            case SequenceOrder.NEXT:
                return
            case SequenceOrder.ANEW:
                message = anew_text(header.writer_id, offset=header.base_offset, last=last)
                severity = Severity.WARNING
            case how:
                is_again = how is SequenceOrder.TWICE
                why = "it was written twice" if is_again else "others are missing"
                message = (
                    f"The batch at offset {header.base_offset} is number "
                    f"{header.sequence} of writer {header.writer_id}, but follows number "
                    f"{last}: {why}."
                )
                severity = Severity.ERROR if is_again else Severity.WARNING
        self.faults.append(LogFault(Check.OFFSETS, header.base_offset, message, severity))

    def _go_behind(self, batch: FetchedBatch) -> None:
        header = batch.header
        # A batch without rows takes one offset.
        self.row_count += max(0, header.record_count - max(0, self.offset - header.base_offset))
        self.offset = max(self.offset, header.end_offset)
        self.timestamp_ms = max(self.timestamp_ms, header.commit_timestamp)
        self.batch_count += 1
        self._is_begun = True


class LogWalk:
    """Checks the log of a bucket, in several steps while it grows."""

    def __init__(self, audited: AuditedBucket, *, start: int, contents: Contents) -> None:
        self._audited = audited
        self._contents = contents
        self._walk = BatchWalk(audited)
        self.check = LogCheck(start)
        self.unread: list[Unreadable] = []
        """What is stored elsewhere, or expired meanwhile: neither good nor bad."""

    async def go_to(self, end: int) -> None:
        """Check the log from where the last step ended up to an offset."""
        shown = self.check.row_count
        async with aclosing(self._walk.parts(OffsetRange(self.check.offset, end))) as parts:
            async for part in parts:
                if isinstance(part, Unreadable):
                    self._pass_over(part)
                else:
                    await self._take(part)
                if self.check.row_count - shown >= PROGRESS_ROWS:
                    shown = self.check.row_count
                    self._tell_progress()
        self._tell()

    def _tell_progress(self) -> None:
        audited = self._audited
        audited.notes.progress(
            f"{audited.table.path} {audited.shown}: offset {self.check.offset:,}"
        )

    async def _take(self, batches: list[FetchedBatch]) -> None:
        runs = await aside(self.check.take, batches)
        for number, run in enumerate(runs):
            if number:
                self._contents.begin_anew()
            if run:
                await self._contents.take(run)

    def _pass_over(self, part: Unreadable) -> None:
        self._contents.begin_anew()
        self.check.pass_over(part.offsets)
        if isinstance(part.fault, errors.RemoteLogError | errors.OffsetOutOfRangeError):
            self.unread.append(part)
            return
        start, end = part.offsets.start, part.offsets.end
        self._audited.bad(
            Check.CHECKSUMS,
            f"The offsets {start} to {end - 1} cannot be read: {part.fault.message}",
            offset=start,
            remedy=self._remedy(start),
        )

    def _tell(self) -> None:
        for fault in self.check.faults:
            self._audited.bad(
                fault.check,
                fault.message,
                offset=fault.offset,
                severity=fault.severity,
                remedy=self._remedy(fault.offset)
                if fault.severity is Severity.ERROR
                else LOOK_AT_WRITERS,
            )
        self.check.faults.clear()

    def _remedy(self, offset: int) -> str:
        if has_lake(self._audited.table):
            # What may be given up depends on how far the lake holds the log.
            return (
                "Restore the bucket's files from a copy; or stop the server and run "
                "headwater audit --at DIRECTORY, which says how the log can continue."
            )
        return (
            "Restore the bucket's files from a copy; or give up everything from there "
            f"on: {self._audited.repair(f'--cut-at {offset}')}"
        )
