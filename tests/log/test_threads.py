"""Appends, syncs, reads, scrubbing and retention at the same time, on a real disk."""

from concurrent.futures import ThreadPoolExecutor

from headwater.errors import OffsetOutOfRangeError
from headwater.log.log import Log
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import iterate
from headwater.store.local import LocalDisk
from tests.log.support import batch, open_log

COUNT = 1_500
LIMITS = LogSettings(segment_bytes_max=20_000, index_interval_bytes=500)


def read_along(log: Log) -> list[int]:
    """Read everything that is durable until the end, in small bites; skip what was deleted."""
    seen: list[int] = []
    offset = 0
    while offset < COUNT:
        try:
            data = log.read(offset, bytes_max=2_000, up_to=log.synced_offset)
        except OffsetOutOfRangeError:
            offset = max(offset, log.start_offset)
            continue
        for header, position in iterate(data):
            assert int(data[position + 48 : position + header.size]) == header.base_offset
            seen.append(header.base_offset)
            offset = header.end_offset
    return seen


def sync_along(log: Log) -> None:
    while log.synced_offset < COUNT:
        log.sync()
        if log.is_checkpoint_due:
            log.checkpoint()
        log.verify(10_000)


def test_readers_see_every_durable_row_in_order_while_the_log_is_written(tmp_path):
    log = open_log(LocalDisk(tmp_path), settings=LIMITS)
    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read_along, log) for _ in range(2)]
        syncing = threads.submit(sync_along, log)

        for number in range(COUNT):
            log.append([batch(f"{number:0100}")], timestamp_ms=number)
            if number == COUNT // 2:
                log.delete_before(log.spans[2].base_offset)

        syncing.result()
        found = [reader.result() for reader in readers]

    for seen in found:
        assert seen == sorted(set(seen))
        assert set(seen) >= set(range(log.start_offset, COUNT))
    assert log.faults == ()
    assert open_log(LocalDisk(tmp_path), settings=LIMITS).end_offset == COUNT
