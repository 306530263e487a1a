"""A log that keeps its promises, and clients of it that note what they see."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from headwater.testing.history import LogHistory

BUCKETS = 2
FINAL = "final"

# Each step names an actor and what it does; what cannot be done then is left out.
tapes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=80)
# A run in which everything happens that a fault may need.
LIVELY = [(step % 3, choice) for step in range(12) for choice in (0, 0, 2, 2, 4, 8, 2, 6, 0, 2)]


@dataclass
class Write:
    operation: int
    value: str
    bucket: int
    offset: int | None = None


@dataclass
class Writer:
    under_way: list[Write] = field(default_factory=list)
    given_up: list[Write] = field(default_factory=list)  # on its way still, perhaps


class LogWorld:
    """Play a tape; writers send several values at a time, and give up on some."""

    def __init__(self) -> None:
        self.history = LogHistory()
        self.logs: list[list[str]] = [[] for _ in range(BUCKETS)]
        self.starts = [0] * BUCKETS
        self.writers = [Writer() for _ in range(3)]
        self.positions: dict[tuple[str, int], int] = {}
        self.count = 0

    def play(self, tape: list[tuple[int, int]]) -> LogHistory:
        acts = [self._send, self._send, self._store, self._store, self._answer]
        acts += [self._answer, self._give_up, self._refuse, self._read, self._arrive_late]
        for actor, choice in tape:
            acts[choice](actor)
        self._read_all()
        return self.history

    def _send(self, actor: int) -> None:
        self.count += 1
        value = f"w{actor}/{self.count}"
        operation = self.history.send(f"w{actor}", value)
        self.writers[actor].under_way.append(Write(operation, value, self.count % BUCKETS))

    def _store(self, actor: int) -> None:
        waiting = [write for write in self.writers[actor].under_way if write.offset is None]
        if waiting:
            self._append(waiting[0])

    def _append(self, write: Write) -> None:
        write.offset = len(self.logs[write.bucket])
        self.logs[write.bucket].append(write.value)

    def _answer(self, actor: int) -> None:
        under_way = self.writers[actor].under_way
        if under_way and (write := under_way[0]).offset is not None:
            under_way.pop(0)
            place = {"bucket": write.bucket, "offset": write.offset}
            self.history.ack(write.operation, **(place if self.count % 3 else {}))

    def _give_up(self, actor: int) -> None:
        writer = self.writers[actor]
        if writer.under_way:
            write = writer.under_way.pop(0)
            self.history.lose(write.operation)
            if write.offset is None:
                writer.given_up.append(write)

    def _refuse(self, actor: int) -> None:
        under_way = self.writers[actor].under_way
        if under_way and under_way[0].offset is None:
            self.history.fail(under_way.pop(0).operation)

    def _arrive_late(self, actor: int) -> None:
        if self.writers[actor].given_up:
            self._append(self.writers[actor].given_up.pop())

    def _read(self, actor: int) -> None:
        self._read_some(f"r{actor}", bucket=self.count % BUCKETS, rows=3)

    def _read_some(self, reader: str, *, bucket: int, rows: int) -> None:
        start = self.positions.get((reader, bucket), 0)
        values = self.logs[bucket][start : start + rows]
        for offset, value in enumerate(values, start=start):
            self.history.read(reader, bucket=bucket, offset=offset, value=value)
        self.positions[reader, bucket] = start + len(values)

    def _read_all(self) -> None:
        for bucket, log in enumerate(self.logs):
            self._read_some(FINAL, bucket=bucket, rows=len(log))
            self.history.end(bucket=bucket, start=0, end=len(log))
