"""The parts of a log that appends, syncs and reads share across threads.

Order of locks: `syncing` before `writing`. While `syncing` is held, no sync, roll or change of
shape runs. `writing` is held for the moment of an append, and never across a sync except in a roll.
"""

import errno
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from headwater import errors
from headwater.log.recovery import Recovered
from headwater.log.scan import BadPlace
from headwater.log.segment import (
    Damage,
    LogShape,
    Mark,
    Segment,
    SegmentName,
    covering,
    new_segment,
    segment_name,
)
from headwater.log.small_files import Checkpoint
from headwater.log.writers import Owned, Writers, WriterState
from headwater.model import Lineage
from headwater.runtime.events import Events
from headwater.store.disk import Disk, Part, is_passing

_FULL = (errno.ENOSPC, errno.EDQUOT)
_events = Events("log")


@dataclass(frozen=True, slots=True)
class Covered:
    """What is durable: the active segment up to a tail, with the writers as of there."""

    segment: Segment
    tail: Mark
    writers: WriterState
    owners: Mapping[int, Owned]

    def checkpoint(self, start_offset: int, lineage: Lineage) -> Checkpoint:
        """The checkpoint that records this."""
        marks = covering(self.segment.marks, self.tail)
        return Checkpoint(start_offset, marks, self.writers, self.owners, lineage)


class LogState:
    """Owns the files of one log and the order in which they become durable."""

    def __init__(self, recovered: Recovered, *, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.shape = LogShape(recovered.start_offset, recovered.segments, recovered.damages)
        self.writers: Writers = recovered.writers
        self.synced_offset = recovered.start_offset
        # What is durable of the last segment that was synced, as one value for other threads.
        self.durable: tuple[Segment, Mark] = (self.shape.active, self.shape.active.marks[0])
        self.syncing = threading.RLock()
        self.writing = threading.RLock()
        self.is_closed = False
        self._fenced = ""

    def refuse_if_stopped(self) -> None:
        """Raise if the log accepts no more writes."""
        if self._fenced:
            raise errors.BucketFencedError(
                f"The log in {self.directory} stopped: {self._fenced}.",
                hint=("Check the disk, then restart the server; it recovers what is durable."),
            )
        if self.is_closed:
            raise errors.StoppingError(f"The log in {self.directory} is closed.")

    def close(self) -> None:
        """Accept no more writes and release the file; running reads continue."""
        with self.syncing, self.writing:
            self.is_closed = True
            self.shape.active.file = None

    def write(self, parts: list[Part]) -> None:
        """Append to the active segment, or leave it unchanged."""
        file = self.shape.segments[-1].file
        assert file is not None
        try:
            file.append(parts)
        except OSError as error:
            raise self.failed("a write", error) from error

    def sync(self, *, for_checkpoint: bool = False) -> Covered:
        """Make everything written so far durable; only a checkpoint needs the writers."""
        with self.syncing:
            self.refuse_if_stopped()
            with self.writing:
                active = self.shape.segments[-1]
                writers = self.writers.snapshot() if for_checkpoint else {}
                owners = self.writers.owners() if for_checkpoint else {}
                covered = Covered(active, active.tail, writers, owners)
            if covered.tail.offset > self.synced_offset or not active.is_named:
                self._sync_file(active)
            self.synced_offset = max(self.synced_offset, covered.tail.offset)
            self.durable = (active, covered.tail)
            return covered

    def roll(self) -> None:
        """Seal the active segment and start another one.

        Everything is synced first: a segment only exists once those before it are durable, so that
        recovery can tell a crash from damage.
        """
        with self.syncing:
            self.sync()
            with self.writing:
                self.sync()
                sealed = self.shape.active
                if sealed.size == 0:
                    return
                path = f"{self.directory}/{segment_name(sealed.end_offset)}"
                try:
                    file = self.disk.create(path)
                except OSError as error:
                    raise self.failed("creating a segment", error) from error
                self.shape = self.shape.followed_by(new_segment(path, start=sealed.tail, file=file))
                sealed.file = None

    def set_aside(self, segment: Segment, bad: BadPlace) -> bool:
        """Stop serving a segment from the first bad offset on; return whether that was possible."""
        with self.syncing:
            if segment not in self.shape.segments:
                return True
            if segment is self.shape.active:
                if self._fenced or self.is_closed:
                    return False
                self.roll()
            name = str(SegmentName(segment.base_offset, is_damaged=True))
            before = segment.mark_before(bad.offset)
            tail = Mark(bad.offset, bad.position, before.timestamp_ms)
            damage = Damage(bad.offset, self.shape.end_of(segment), name, bad.reason)
            cut = segment.cut(tail, path=self._renamed(segment, f"{self.directory}/{name}"))
            with self.writing:
                self.shape = self.shape.with_damage(segment, new=cut, damage=damage)
            _events.error("segment set aside", directory=self.directory, damage=str(damage))
            return True

    def failed(self, what: str, error: OSError) -> errors.HeadwaterError:
        """Make the error to raise; anything but a temporary failure stops the log for good."""
        if error.errno in _FULL:
            return errors.RetryLaterError(
                f"The disk is full: {what} in {self.directory} was undone.",
                hint="Free some space; writers retry by themselves.",
            )
        if is_passing(error):
            return _not_now(f"{what} in {self.directory}", error)
        self.fence(f"{what} failed with {error}")
        return errors.BucketFencedError(
            f"The log in {self.directory} stopped, because {what} failed with {error}.",
            hint="Check the disk, then restart the server; it recovers what is durable.",
        )

    def fence(self, reason: str) -> None:
        """Accept no more writes until the log is opened again."""
        self._fenced = self._fenced or reason
        _events.error("log fenced", directory=self.directory, reason=reason)

    @property
    def is_fenced(self) -> bool:
        """Tell whether the log stopped after a disk error."""
        return bool(self._fenced)

    def _sync_file(self, segment: Segment) -> None:
        assert segment.file is not None
        try:
            segment.file.sync()
        except OSError as error:
            # The kernel may have dropped the pages, so a retry could succeed without writing them.
            self.fence(f"a sync failed with {error}")
            self.refuse_if_stopped()
        if not segment.is_named:
            self._name(segment)

    def _name(self, segment: Segment) -> None:
        try:
            self.disk.sync_directory(self.directory)
        except OSError as error:
            if is_passing(error):
                # A directory must be opened to be synced, and that failed.
                raise _not_now(f"a sync in {self.directory}", error) from error
            self.fence(f"a sync failed with {error}")
            self.refuse_if_stopped()
        segment.is_named = True

    def _renamed(self, segment: Segment, path: str) -> str:
        """Rename a damaged segment and return its new name."""
        if segment.is_damaged:
            return segment.path
        try:
            self.disk.rename(segment.path, path)
            self.disk.sync_directory(self.directory)
        except OSError as error:
            # It will be found bad again, and until then this process knows.
            _events.error("rename failed", cause=error, path=segment.path)
            return segment.path
        return path


def _not_now(what: str, error: OSError) -> errors.RetryLaterError:
    return errors.RetryLaterError(
        f"The server cannot do {what} right now: {error}.",
        hint="It is retried. If this persists, raise the limit of open files (ulimit -n).",
    )
