"""A disk on which the n-th operation fails, and what must be true of a storage on it."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError, ServerFaultError
from headwater.store.disk import File, Part
from headwater.store.memory import MemoryDisk
from tests.crashes.images import bucket_of
from tests.crashes.oracle import folded, held, open_log, open_state, read
from tests.crashes.workload import USERS_AT, Promise
from tests.log.support import InterposedDisk, InterposedFile

TORN = -1
"""In place of an error number: a write of which a part is left that cannot be cut back."""


@dataclass(slots=True)
class ServerFault:
    """Fail the n-th operation, once or from there on, and note what that was."""

    number: int
    code: int
    for_good: bool = False
    count: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    is_armed: bool = True
    struck: Callable[[str, str], None] = lambda operation, path: None

    def is_due(self, operation: str, path: str) -> bool:
        """Count an operation, and tell whether it fails."""
        if not self.is_armed:
            return False
        self.count += 1
        is_due = self.count == self.number or (self.for_good and self.count > self.number)
        if is_due:
            self.failed.append((operation, path))
            self.struck(operation, path)
        return is_due

    def __call__(self, operation: str, path: str) -> None:
        if self.is_due(operation, path):
            self.strike(path)

    def strike(self, path: str) -> None:
        """Fail."""
        raise OSError(errno.EIO if self.code == TORN else self.code, "injected", path)


class FaultyDisk(InterposedDisk):
    """Fail as a fault says, leaving a part of a write where it says so."""

    def __init__(self, memory: MemoryDisk, fault: ServerFault) -> None:
        super().__init__(memory, before=fault)
        self.fault = fault

    def create(self, path: str) -> File:
        return FaultyFile(self, path, self.around("create", path, lambda: self.disk.create(path)))

    def open(self, path: str) -> File:
        return FaultyFile(self, path, self.around("open", path, lambda: self.disk.open(path)))


class FaultyFile(InterposedFile):
    def __init__(self, owner: FaultyDisk, path: str, file: File) -> None:
        super().__init__(owner, path, file)
        self._fault, self._inner, self._name = owner.fault, file, path

    def append(self, parts: Sequence[Part]) -> None:
        if self._fault.is_due("append", self._name):
            data = b"".join(parts)
            if self._fault.code == TORN:
                self._inner.append([data[: len(data) // 2]])
            self._fault.strike(self._name)
        self._inner.append(parts)


def check_survivors(disk: MemoryDisk, promises: dict[str, Promise], *, about: object) -> None:
    """Open every bucket, and find all that was acked or read, once, and nothing else."""
    for at, promise in promises.items():
        if promise.is_dropped:
            continue
        log = open_log(disk, at)
        assert log.faults == (), about
        assert log.end_offset >= promise.acked_end, about
        if at == USERS_AT:
            check_keys(disk, promise, about=about)
        else:
            check_texts(disk, at, promise, about=about)


def check_texts(disk: MemoryDisk, at: str, promise: Promise, *, about: object) -> None:
    log = open_log(disk, at)
    found = read(log, at).values
    kept = {
        offset: value
        for offset, value in promise.written.items()
        if log.start_offset <= offset < promise.acked_end
    }
    gone = {value for offset, value in promise.written.items() if offset < log.start_offset}
    assert kept.items() <= found.items(), about
    assert len({*found.values()}) == len(found), about
    assert {*found.values()} <= promise.sent, about
    assert promise.seen - gone <= {*found.values()}, about


def check_keys(disk: MemoryDisk, promise: Promise, *, about: object) -> None:
    log = open_log(disk, USERS_AT)
    recovered, store, table = open_state(disk, USERS_AT, log)
    rows = held(recovered, table)
    assert store.faults == [], about
    if log.start_offset == 0:
        assert rows == folded(log), about
    for key in range(10):
        assert rows.get(key) in allowed(key, promise), (about, key)


def allowed(key: int, promise: Promise) -> set[str | None]:
    """Return what a key may hold: the last value that is promised, or one asked for since."""
    possible: set[str | None] = {None}
    for put in promise.puts:
        if key not in put.changed:
            continue
        if put.end_offset is not None and put.end_offset <= promise.acked_end:
            possible = set()
        possible.add(put.changed[key])
    return possible


def check_messages(promises: dict[str, Promise], *, about: object) -> None:
    """Whoever is refused is told what to do, and nothing failed in an unforeseen way."""
    for promise in promises.values():
        for failure in promise.failures:
            assert isinstance(failure, HeadwaterError), (about, repr(failure))
            assert not isinstance(failure, ServerFaultError), (about, repr(failure))
            assert failure.hint, (about, repr(failure))


def buckets_hit(fault: ServerFault) -> set[str]:
    return {bucket_of(path) for _, path in fault.failed}
