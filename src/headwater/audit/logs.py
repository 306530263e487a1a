"""The log of one bucket: its offsets without gap or repeat, and bytes that fit their checksums."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from headwater.audit.batch_walk import BatchWalk, Unreadable
from headwater.audit.bucket import AuditedBucket
from headwater.audit.finding import Check, Severity
from headwater.audit.sequences import LOOK_AT_WRITERS, Following, anew_text, following
from headwater.client.reading.log_reader import StoredBatch
from headwater.client.union.looking import has_lake
from headwater.errors import CorruptBatchError, OffsetOutOfRangeError, RemoteLogError
from headwater.model.bucket import OffsetRange
from headwater.rows.joined import original_headers
from headwater.rows.log_batch import NO_WRITER, BatchHeader, check_crc
from headwater.runtime.aside import aside

PROGRESS_ROWS = 100_000


class Contents(Protocol):
    """Look at what batches hold."""

    async def take(self, batches: Sequence[StoredBatch]) -> None:
        """Look at batches that follow those that came before."""
        ...

    def begin_anew(self) -> None:
        """Expect batches that do not follow, as something between them is not known."""
        ...


class NoContents:
    """Look at nothing: the checksums say enough."""

    async def take(self, batches: Sequence[StoredBatch]) -> None:
        """Look at nothing."""

    def begin_anew(self) -> None:
        """Expect anything."""


@dataclass(frozen=True, slots=True)
class LogFault:
    """Say what is wrong with a log, and from which offset on."""

    check: Check
    offset: int
    message: str
    severity: Severity = Severity.ERROR


@dataclass(slots=True)
class LogCheck:
    """Follow the batches of one log, and note where they do not follow or do not hold."""

    offset: int
    """The one that comes next."""
    timestamp_ms: int = 0
    batch_count: int = 0
    row_count: int = 0
    faults: list[LogFault] = field(default_factory=list)
    _is_begun: bool = False
    _sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The number of the last batch of each writer, and its time."""

    def take(self, batches: Iterable[StoredBatch]) -> list[list[StoredBatch]]:
        """Check batches, and return the good ones: in runs, with something bad between them."""
        runs: list[list[StoredBatch]] = [[]]
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
        """Go on behind offsets that cannot be checked."""
        self.offset = max(self.offset, offsets.end)
        self._is_begun = False
        self._sequences.clear()

    def _is_repeated(self, batch: StoredBatch) -> bool:
        header = batch.header
        # A log may begin in the middle of a batch, and so may what can be read behind damage.
        is_cut = not self._is_begun and header.end_offset > self.offset
        if header.base_offset >= self.offset or is_cut:
            return False
        message = (
            f"Offset {header.base_offset} comes behind {self.offset - 1}: twice, or out of order."
        )
        self.faults.append(LogFault(Check.OFFSETS, header.base_offset, message))
        return True

    def _is_behind_gap(self, batch: StoredBatch) -> bool:
        base = batch.header.base_offset
        if base <= self.offset:
            return False
        message = f"The offsets {self.offset} to {base - 1} are missing."
        self.faults.append(LogFault(Check.OFFSETS, self.offset, message))
        return True

    def _is_intact(self, batch: StoredBatch) -> bool:
        header = batch.header
        if header.commit_timestamp < self.timestamp_ms:
            message = (
                f"The time of the batch at offset {header.base_offset} lies"
                f" {self.timestamp_ms - header.commit_timestamp} ms before that of the one before."
            )
            fault = LogFault(Check.OFFSETS, header.base_offset, message, Severity.WARNING)
            self.faults.append(fault)
        try:
            check_crc(batch.data, header)
        except CorruptBatchError as fault:
            self.faults.append(LogFault(Check.CHECKSUMS, header.base_offset, fault.message))
            return False
        return True

    def _check_writers(self, batch: StoredBatch) -> None:
        try:
            for header in original_headers(batch.data, batch.header):
                self._check_writer(header)
        except CorruptBatchError as fault:
            offset = batch.header.base_offset
            self.faults.append(LogFault(Check.CHECKSUMS, offset, fault.message))

    def _check_writer(self, header: BatchHeader) -> None:
        """Note a batch that its writer has sent before, or one that lacks those before it."""
        if header.writer_id == NO_WRITER:
            return
        before = self._sequences.get(header.writer_id)
        self._sequences[header.writer_id] = header.sequence, header.commit_timestamp
        if before is None:
            return
        last, last_ms = before
        silent_ms = header.commit_timestamp - last_ms
        match following(header.sequence, last=last, silent_ms=silent_ms):
            case Following.NEXT:
                return
            case Following.ANEW:
                message = anew_text(header.writer_id, offset=header.base_offset, last=last)
                severity = Severity.WARNING
            case how:
                is_again = how is Following.TWICE
                why = "it is there twice" if is_again else "others are missing"
                message = (
                    f"The batch at offset {header.base_offset} is number {header.sequence} of"
                    f" writer {header.writer_id}, and stands behind number {last}: {why}."
                )
                severity = Severity.ERROR if is_again else Severity.WARNING
        self.faults.append(LogFault(Check.OFFSETS, header.base_offset, message, severity))

    def _go_behind(self, batch: StoredBatch) -> None:
        header = batch.header
        # A batch may hold no rows, and takes one offset then.
        self.row_count += max(0, header.record_count - max(0, self.offset - header.base_offset))
        self.offset = max(self.offset, header.end_offset)
        self.timestamp_ms = max(self.timestamp_ms, header.commit_timestamp)
        self.batch_count += 1
        self._is_begun = True


class LogWalk:
    """Check the log of a bucket, in as many steps as it grows meanwhile."""

    def __init__(self, audited: AuditedBucket, *, start: int, contents: Contents) -> None:
        self._audited = audited
        self._contents = contents
        self._walk = BatchWalk(audited)
        self.check = LogCheck(start)
        self.unread: list[Unreadable] = []
        """What is kept elsewhere, or expired meanwhile: neither good nor bad."""

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

    async def _take(self, batches: list[StoredBatch]) -> None:
        runs = await aside(self.check.take, batches)
        for number, run in enumerate(runs):
            if number:
                self._contents.begin_anew()
            if run:
                await self._contents.take(run)

    def _pass_over(self, part: Unreadable) -> None:
        self._contents.begin_anew()
        self.check.pass_over(part.offsets)
        if isinstance(part.fault, RemoteLogError | OffsetOutOfRangeError):
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
            # What may be given up depends on how far the lake holds it.
            return (
                "Restore the bucket's files from a copy; or stop the server, and let headwater"
                " audit --at DIRECTORY say how the log can go on."
            )
        return (
            "Restore the bucket's files from a copy; or give up what comes from there on:"
            f" {self._audited.repair(f'--cut-at {offset}')}"
        )
