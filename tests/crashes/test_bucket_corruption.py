"""No damage of a bucket's files goes unnoticed, gives wrong rows, or costs what is good."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError, KvStorageError
from headwater.log.log import Log
from headwater.rows.log_batch import iterate
from headwater.store.memory import MemoryDisk
from tests.crashes.images import disk_of, files_in
from tests.crashes.mutations import mutated
from tests.crashes.oracle import held, open_log, open_state, read
from tests.crashes.storage import serving
from tests.crashes.workload import EVENTS_AT, SECOND_DAY, USERS_AT, Promise, Workload
from tests.figures import note

SHORT_EVERY = 41
VERIFIED_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Bucket:
    """Hold the files of a bucket, those that it had earlier, and what they hold."""

    at: str
    files: dict[str, bytes]
    older: dict[str, bytes]
    promise: Promise
    truth: dict[int, str]
    is_closed: bool


async def buckets(directory: Path, *, is_closed: bool) -> list[Bucket]:
    """Fill buckets of every kind, and close them or leave them as a killed server does."""
    memory, older, left = MemoryDisk(), MemoryDisk(), MemoryDisk()
    async with serving(directory, memory) as storage:
        workload = Workload(storage, acked=lambda at: None)
        workload.expires = False
        await workload.create()
        async for number in workload.run():
            if number == len(workload.steps()) // 2:
                older = memory.crashed(lambda change: change.data)
        await workload.append()
        await workload.upsert()
        left = memory.crashed(lambda change: change.data)
    left = memory if is_closed else left
    return [
        Bucket(
            at,
            files_in(left, at),
            files_in(older, at),
            workload.promises[at],
            read(open_log(left.crashed(lambda change: change.data), at), at).values,
            is_closed,
        )
        for at in (EVENTS_AT, USERS_AT, SECOND_DAY)
    ]


def damages(bucket: Bucket) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the files of a bucket with one of them damaged, and what was done to it."""
    for path, content in bucket.files.items():
        for label, damaged in mutated(content):
            yield f"{path}: {label}", {**bucket.files, path: damaged}
        yield (
            f"{path}: deleted",
            {each: data for each, data in bucket.files.items() if each != path},
        )
        if bucket.older.get(path, content) != content:
            yield f"{path}: an older one", {**bucket.files, path: bucket.older[path]}
        for other, data in bucket.files.items():
            if other > path and other.rpartition(".")[2] == path.rpartition(".")[2]:
                swapped = {path: data, other: content}
                yield f"{path}: swapped with {other}", {**bucket.files, **swapped}


def check_damaged(bucket: Bucket, label: str, files: dict[str, bytes]) -> None:
    """Open a damaged bucket: what it serves is right, and what it does not serve it tells."""
    disk = disk_of(files, bucket.at)
    log = open_log(disk, bucket.at)
    with suppress(HeadwaterError):
        log.verify(VERIFIED_BYTES)
    served = read(log, bucket.at).values
    assert served.items() <= bucket.truth.items(), label
    if bucket.is_closed:
        assert log.start_offset == 0, label
        assert log.end_offset >= len(bucket.truth), label
        assert len(served) == len(bucket.truth) or log.faults, label
    elif len(served) < len(bucket.truth):
        copies = files_in(disk, bucket.at).keys() - files.keys()
        assert log.faults or copies or merely_ends_earlier(bucket, files), label
    if bucket.at == USERS_AT:
        check_state(bucket, disk, log, label)
    check_kept(bucket, disk, label, files)


def merely_ends_earlier(bucket: Bucket, files: dict[str, bytes]) -> bool:
    """Tell whether batches are gone from the end as if they had never been written.

    Where that was before the last checkpoint, the log tells; behind it, nobody can know.
    """
    last = max(path for path in bucket.files if path.endswith(".log"))
    whole, left = bucket.files[last], files.get(last, b"")
    starts = [position for _, position in iterate(memoryview(whole))]
    return any(left[:at] == whole[:at] and not left[at:].strip(b"\0") for at in starts)


def check_state(bucket: Bucket, disk: MemoryDisk, log: Log, label: str) -> None:
    """The rows are those of some moment of the log as it is, or are said to be lost."""
    try:
        recovered, _, table = open_state(disk, bucket.at, log)
    except KvStorageError as fault:
        assert log.faults, (label, fault)
        assert "backup" in fault.hint, label
        return
    assert held(recovered, table) == bucket.promise.states[log.end_offset], label


def check_kept(bucket: Bucket, disk: MemoryDisk, label: str, files: dict[str, bytes]) -> None:
    """Nothing of a damaged segment is gone: it stays, is set aside, or is cut and kept."""
    left = b"".join(content for _, content in sorted(files_in(disk, bucket.at).items()))
    for path, content in files.items():
        if path.endswith(".log") and content != bucket.files.get(path):
            whole = content.rstrip(b"\0")
            assert content in left or all(
                part in left for part in (whole[: len(whole) // 9], whole[-9:])
            ), label


async def check_every(directory: Path, *, is_closed: bool, every: int) -> int:
    checked = 0
    for bucket in await buckets(directory, is_closed=is_closed):
        for label, files in list(damages(bucket))[::every]:
            check_damaged(bucket, label, files)
            checked += 1
    return checked


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
async def test_damage_of_a_file_is_noticed_and_gives_no_wrong_rows(tmp_path, is_closed):
    checked = await check_every(tmp_path, is_closed=is_closed, every=SHORT_EVERY)

    assert checked > 100


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
async def test_damage_at_any_64th_of_any_file_is_noticed(tmp_path, is_closed):
    checked = await check_every(tmp_path, is_closed=is_closed, every=1)

    note("corruption", places=checked)
