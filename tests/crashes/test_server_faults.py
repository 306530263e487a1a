"""The n-th disk operation of a whole server fails, for every n, once and for good."""

import asyncio
import errno
from copy import deepcopy
from pathlib import Path

import pytest

from headwater.log.log import Log
from headwater.model.bucket import TableBucket
from headwater.store.memory import DiskChange, MemoryDisk
from tests.crashes.faulty import (
    TORN,
    FaultyDisk,
    ServerFault,
    buckets_hit,
    check_messages,
    check_survivors,
)
from tests.crashes.images import bucket_of
from tests.crashes.storage import Storage, serving
from tests.crashes.workload import STEP_S_MAX, Promise, Workload
from tests.figures import note

CODES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "torn": TORN}
SOME = [
    (3, "EIO", False),
    (14, "ENOSPC", True),
    (38, "EINTR", False),
    (61, "torn", False),
    (94, "ENOSPC", False),
    (120, "EIO", True),
    (151, "torn", False),
    (188, "EIO", False),
]
OPERATIONS_MIN = 200


async def run_with(fault: ServerFault, directory: Path) -> None:
    """Run the workload on a failing disk, crash, and start again."""
    memory = MemoryDisk()
    async with serving(directory, FaultyDisk(memory, fault)) as storage:
        fences = Fences(storage)
        fault.struck = fences.struck
        workload = Workload(storage, acked=fences.acked)
        await workload.create()
        async for _ in workload.run():
            pass
        fault.is_armed = False
        promises, about = workload.promises, (fault.number, fault.failed[:3])
        killed = memory.crashed(kept)
        cut = memory.crashed(lost)
    check_messages(promises, about=about)
    if not fault.for_good:
        others = {at for at, promise in promises.items() if promise.failures}
        assert others <= buckets_hit(fault), about
    for left in (killed, cut):
        check_survivors(left, promises, about=about)
    await check_serving(directory, cut, about=about)


class Fences:
    """Remember the logs of which a sync failed: they must not ack anything any more."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._fenced: list[Log] = []

    def struck(self, operation: str, path: str) -> None:
        log = self._log(bucket_of(path))
        if operation == "sync" and path.endswith(".log") and log is not None:
            self._fenced.append(log)

    def acked(self, at: str) -> None:
        assert self._log(at) not in self._fenced

    def _log(self, at: str) -> Log | None:
        opened = dict(self._storage.server.tablets.all_open())
        return next((each.log for bucket, each in opened.items() if place(bucket) == at), None)


def place(bucket: TableBucket) -> str:
    partition = "" if bucket.partition_id is None else f"p{bucket.partition_id}/"
    return f"{bucket.table_id}/{partition}{bucket.bucket}"


async def check_serving(directory: Path, disk: MemoryDisk, *, about: object) -> None:
    """Everything can be written and read after a restart."""
    async with serving(directory, disk) as storage:
        workload = Workload(storage, acked=lambda at: None, first_number=2_000)
        await workload.append()
        await workload.upsert()
        await workload.append_day("two", "2/p2/0")
        await workload.look()
        assert workload.failures == [], (about, workload.failures)


async def faults_until_clean(directory: Path, *, code: int, for_good: bool) -> int:
    """Let each operation fail in turn until none is left to fail; return how many did."""
    number, count, is_failing = 1, 0, True
    while is_failing:
        fault = ServerFault(number, code, for_good)
        await run_with(fault, directory / str(number))
        is_failing = bool(fault.failed)
        count += is_failing
        number += 1
    assert number > OPERATIONS_MIN
    return count


@pytest.mark.parametrize(("number", "code", "for_good"), SOME)
async def test_acked_rows_survive_a_fault_of_the_disk(tmp_path, number, code, for_good):
    fault = ServerFault(number, CODES[code], for_good)

    await run_with(fault, tmp_path)

    assert len(fault.failed) > 1 if for_good else len(fault.failed) == 1


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES)
async def test_acked_rows_survive_a_fault_of_any_operation(tmp_path, code, for_good):
    count = await faults_until_clean(tmp_path, code=CODES[code], for_good=for_good)

    note("faults", faults=count)


# ---- while a server starts again


class Left:
    """Hold what a workload left on a disk, and start on copies of it."""

    def __init__(self, directory: Path, memory: MemoryDisk, promises: dict[str, Promise]) -> None:
        self._directory, self._memory, self._promises = directory, memory, promises

    @classmethod
    async def by_workload(cls, directory: Path) -> "Left":
        memory = MemoryDisk()
        async with serving(directory, memory) as storage:
            workload = Workload(storage, acked=lambda at: None)
            await workload.create()
            async for _ in workload.run():
                pass
            return cls(directory, memory.crashed(kept), workload.promises)

    async def start_with(self, fault: ServerFault) -> None:
        """Start while an operation fails; then again, with all that was acked."""
        promises, about = deepcopy(self._promises), (fault.number, fault.failed)
        copied = self._memory.crashed(kept)
        async with serving(self._directory, FaultyDisk(copied, fault)) as storage:
            workload = Workload(storage, acked=lambda at: None, first_number=1_000)
            workload.promises = promises
            for step in (workload.look, workload.append, workload.upsert, workload.tend):
                async with asyncio.timeout(STEP_S_MAX):
                    await step()
            fault.is_armed = False
            cut = copied.crashed(lost)
        check_messages(promises, about=about)
        check_survivors(cut, promises, about=about)
        await check_serving(self._directory, cut, about=about)


async def starts_until_clean(directory: Path, *, code: int, for_good: bool, step: int) -> int:
    """Start with every n-th operation failing; return how many did."""
    left = await Left.by_workload(directory)
    number, count, is_failing = 1, 0, True
    while is_failing:
        fault = ServerFault(number, code, for_good)
        await left.start_with(fault)
        is_failing = bool(fault.failed)
        count += is_failing
        number += step
    return count


async def test_a_fault_of_the_disk_during_a_start_costs_no_row(tmp_path):
    count = await starts_until_clean(tmp_path, code=errno.EIO, for_good=False, step=13)

    assert count > 2


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("code", CODES)
async def test_a_fault_of_any_operation_during_a_start_costs_no_row(tmp_path, code, for_good):
    count = await starts_until_clean(tmp_path, code=CODES[code], for_good=for_good, step=1)

    note("faults", faults=count)


def kept(change: DiskChange) -> bytes | None:
    return change.data


def lost(change: DiskChange) -> bytes | None:
    return None
