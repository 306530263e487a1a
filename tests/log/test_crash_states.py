"""Every state in which a crash can leave the disk, for a workload of some forty operations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.errors import DamagedRangeError
from headwater.log.log import Log
from headwater.store.memory import ChangeKind, DiskChange, MemoryDisk
from tests.log.support import InterposedDisk, batch, messages, open_log


@dataclass
class Moment:
    """Hold what was promised when a crash image was taken."""

    image: MemoryDisk
    synced_offset: int
    start_offset: int
    label: str


class Workload:
    """Append, sync, roll, checkpoint and delete, taking images after each disk operation."""

    def __init__(self) -> None:
        self.memory = MemoryDisk()
        self.disk = InterposedDisk(self.memory, after=self.observe)
        self.moments: list[Moment] = []
        self.written: dict[int, str] = {}
        self.log: Log | None = None
        self.start_offset = 0

    def run(self, steps: int = 40) -> None:
        self.log = open_log(self.disk)
        for step in range(steps):
            self.step(step)
        self.log.close()

    def step(self, step: int) -> None:
        assert self.log is not None
        match step % 10:
            case 3 | 8:
                self.log.sync()
            case 6:
                self.log.checkpoint()
            case 9 if step == 29:
                self.start_offset = self.log.spans[1].base_offset
                self.log.delete_before(self.start_offset)
            case _:
                self.append(step)

    def append(self, step: int) -> None:
        assert self.log is not None
        texts = [f"{step}/{number}" * (1 + step % 4) for number in range(1 + step % 3)]
        sent = [batch(text, records=2) for text in texts]
        base = self.log.end_offset
        self.written |= {base + 2 * number: text for number, text in enumerate(texts)}
        self.log.append(sent, timestamp_ms=1_000 + step)

    def observe(self, operation: str, path: str) -> None:
        for label, fate in fates(self.memory.unsynced()):
            synced_offset = self.log.synced_offset if self.log else 0
            image = self.memory.crashed(fate)
            where = f"{len(self.moments)}: {operation} {path}, {label}"
            self.moments.append(Moment(image, synced_offset, self.start_offset, where))


def fates(
    changes: tuple[DiskChange, ...],
) -> Iterator[tuple[str, Callable[[DiskChange], bytes | None]]]:
    """Yield what a crash may do to the changes that are not synced."""
    yield "all lost", lambda change: None
    yield "all kept", lambda change: change.data
    for lost in changes:
        yield f"lost {lost.number}", lambda change, lost=lost: _unless(change, lost, None)
    writes = [change for change in changes if change.kind is ChangeKind.WRITE]
    if not writes:
        return
    last, size = writes[-1], len(writes[-1].data)
    for torn in (last.data[:1], last.data[: size // 2], last.data[:512], b"\xa5" * size):
        yield f"torn {torn[:4]!r}", lambda change, torn=torn: _unless(change, last, torn)


def _unless(change: DiskChange, special: DiskChange, fate: bytes | None) -> bytes | None:
    return fate if change == special else change.data


def check(moment: Moment, written: dict[int, str]) -> None:
    """Everything durable is there once, the rest is there or not, and gaps are reported."""
    log = open_log(moment.image)
    found, gaps = readable(log)

    assert log.end_offset >= moment.synced_offset, moment.label
    assert log.start_offset in {0, moment.start_offset}, moment.label
    promised = {o: m for o, m in written.items() if o < moment.synced_offset}
    expected = {o: m for o, m in promised.items() if o >= log.start_offset}
    assert expected.items() <= found.items(), moment.label
    assert found.items() <= written.items(), moment.label
    assert bool(gaps) == bool(log.faults), moment.label
    assert log.append([batch("next")], timestamp_ms=1).base_offset == log.end_offset - 1


def readable(log: Log) -> tuple[dict[int, str], list[int]]:
    found: dict[int, str] = {}
    gaps = []
    for offset in range(log.start_offset, log.end_offset, 2):
        try:
            found |= messages(log, offset=offset, up_to=offset + 2)
        except DamagedRangeError:
            gaps.append(offset)
    return found, gaps


def test_no_crash_loses_or_repeats_what_was_durable():
    workload = Workload()

    workload.run()

    assert len(workload.moments) > 300
    for moment in workload.moments:
        check(moment, workload.written)


def test_a_second_crash_during_recovery_loses_nothing():
    workload = Workload()
    workload.run(15)
    for moment in workload.moments[::3]:
        images: list[MemoryDisk] = []
        disk = InterposedDisk(
            moment.image,
            after=lambda _, __, m=moment, i=images: i.append(m.image.crashed(lambda c: None)),
        )
        open_log(disk)

        for image in images:
            again = Moment(image, moment.synced_offset, moment.start_offset, moment.label)
            check(again, workload.written)
