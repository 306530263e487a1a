"""The n-th disk operation fails, for every n, once and for good."""

import errno

import pytest

from headwater.errors import BucketFencedError, RetryLaterError, StorageError
from headwater.log.log import Log
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import Fault, InterposedDisk, batch, messages, open_log

REFUSALS = (StorageError, RetryLaterError)


class Writer:
    """Write as a client would: try again what was refused, and remember what was acked."""

    def __init__(self, disk: InterposedDisk) -> None:
        self.disk = disk
        self.acked: dict[int, str] = {}
        self.log: Log | None = None

    def run(self) -> None:
        for step in range(24):
            try:
                self.step(step)
            except REFUSALS:
                continue

    def step(self, step: int) -> None:
        if self.log is None or self.log.is_fenced:
            self.log = None
            self.log = open_log(self.disk)
        text = f"{step:060}"
        written = self.log.append([batch(text)], timestamp_ms=1_000 + step)
        assert self.log.sync() == written.end_offset
        self.acked[written.base_offset] = text
        if step % 5 == 4:
            self.log.checkpoint()
        if step == 18:
            self.log.delete_before(self.log.spans[1].base_offset)


def survivors(memory: MemoryDisk) -> tuple[Log, dict[int, str]]:
    log = open_log(memory.crashed(lambda change: None))
    return log, messages(log)


@cases("code", [errno.EIO, errno.ENOSPC])
@cases("for_good", [False, True])
def test_acked_rows_survive_a_fault_at_any_operation(code, for_good):
    number, passes = 0, False
    while not passes:
        number += 1
        fault = Fault(number, code=code, for_good=for_good)
        writer = Writer(InterposedDisk(memory := MemoryDisk(), before=fault))

        writer.run()

        passes = not fault.failed
        if memory.listdir("") and "0" in memory.listdir("1"):
            log, found = survivors(memory)
            assert log.faults == ()
            acked = {o: m for o, m in writer.acked.items() if o >= log.start_offset}
            assert acked.items() <= found.items(), (number, fault.failed)
    assert number > 80
    assert len(writer.acked) == 24


@cases("number", range(1, 20))
def test_a_fault_of_one_sync_fences_the_log(number):
    disk = InterposedDisk(MemoryDisk())
    log = open_log(disk)
    fault = Fault(number)
    disk.before = lambda operation, path: fault(operation, path) if operation == "sync" else None

    def write_all():
        for step in range(20):
            log.append([batch(f"{step:060}")], timestamp_ms=1)
            log.sync()

    with pytest.raises(BucketFencedError):
        write_all()

    assert log.synced_offset == number - 1
    with pytest.raises(BucketFencedError):
        log.append([batch("x")], timestamp_ms=1)
