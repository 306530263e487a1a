"""A log behaves like a list, whatever happens to it."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.errors import OffsetOutOfRangeError, OutOfOrderSequenceError
from headwater.log.log import Appended, Log
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import iterate
from headwater.store.memory import MemoryDisk
from tests.choices import examples
from tests.log.support import FixedClock, batch, open_log

LIMITS = LogSettings(segment_bytes_max=500, index_interval_bytes=100)
WRITERS = st.integers(0, 2)


class Row:
    """Be one batch of the model."""

    def __init__(self, base: int, end: int, text: str, timestamp_ms: int) -> None:
        self.base, self.end, self.text, self.timestamp_ms = base, end, text, timestamp_ms


class LogMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.disk = MemoryDisk()
        self.clock = FixedClock()
        self.log: Log = self.opened()
        self.rows: list[Row] = []
        self.sent: dict[int, list[tuple[int, Row]]] = {}
        self.now_ms = 1_000

    def opened(self) -> Log:
        return open_log(self.disk, settings=LIMITS, clock=self.clock)

    @property
    def end(self) -> int:
        return self.rows[-1].end if self.rows else 0

    def add(self, text: str, records: int) -> Row:
        row = Row(self.end, self.end + max(records, 1), text, self.now_ms)
        self.rows.append(row)
        return row

    @rule(texts=st.lists(st.text(max_size=20), min_size=1, max_size=3), records=st.integers(0, 3))
    def append(self, texts: list[str], records: int) -> None:
        self.now_ms += 5
        sent = [batch(text, records=records) for text in texts]

        appended = self.log.append(sent, timestamp_ms=self.now_ms)

        rows = [self.add(text, records) for text in texts]
        assert appended == Appended(rows[0].base, rows[-1].end)

    @rule(writer_id=WRITERS, text=st.text(max_size=80))
    def append_in_sequence(self, writer_id: int, text: str) -> None:
        self.now_ms += 5
        history = self.sent.setdefault(writer_id, [])
        sequence = history[-1][0] + 1 if history else 0

        sent = batch(text, records=2, writer_id=writer_id, sequence=sequence)
        appended = self.log.append([sent], timestamp_ms=self.now_ms)

        row = self.add(text, 2)
        history.append((sequence, row))
        assert appended == Appended(row.base, row.end)

    @rule(writer_id=WRITERS, back=st.integers(1, 5))
    def resend(self, writer_id: int, back: int) -> None:
        history = self.sent.get(writer_id, [])
        if len(history) < back:
            return
        sequence, row = history[-back]

        sent = batch(row.text, records=2, writer_id=writer_id, sequence=sequence)
        appended = self.log.append([sent], timestamp_ms=self.now_ms)

        assert appended == Appended(row.base, row.end, duplicate=True)

    @rule(writer_id=WRITERS, ahead=st.integers(2, 9))
    def skip_a_sequence(self, writer_id: int, ahead: int) -> None:
        history = self.sent.get(writer_id, [])
        last = history[-1][0] if history else -1
        sent = batch("gap", writer_id=writer_id, sequence=last + ahead)

        try:
            self.log.append([sent], timestamp_ms=self.now_ms)
        except OutOfOrderSequenceError:
            return
        raise AssertionError("a gap was taken")

    @rule()
    def sync(self) -> None:
        assert self.log.sync() == self.end

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def checkpoint(self) -> None:
        self.log.checkpoint()

    @rule(closing=st.booleans())
    def reopen(self, closing: bool) -> None:
        if closing:
            self.log.close()
        self.log = self.opened()
        assert self.log.synced_offset == self.end

    @rule(kept=st.integers(0, 4), torn=st.integers(0, 200))
    def crash(self, kept: int, torn: int) -> None:
        """Keep some of the changes that are not synced, and the first bytes of another one."""
        synced = self.log.synced_offset
        fates = [
            (change.data, change.data[:torn])[at == kept]
            for at, change in enumerate(self.disk.unsynced()[: kept + 1])
        ]
        remaining = iter(fates)
        self.disk = self.disk.crashed(lambda change: next(remaining, None))
        self.log = self.opened()

        assert self.log.faults == ()
        assert self.log.end_offset >= synced
        self.rows = [row for row in self.rows if row.end <= self.log.end_offset]
        for writer_id, history in self.sent.items():
            self.sent[writer_id] = [entry for entry in history if entry[1] in self.rows]

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.end))

        start = self.log.delete_before(offset)

        assert start == self.log.start_offset <= offset

    @precondition(lambda self: self.log.start_offset < self.end)
    @rule(data=st.data(), bytes_max=st.integers(0, 1_000))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.end - 1))
        kept = [row for row in self.rows if row.end > offset]

        found = self.log.read(offset, bytes_max=bytes_max, up_to=self.end)

        parsed = list(iterate(found))
        assert parsed
        assert len(parsed) == 1 or len(found) <= bytes_max
        for (header, position), row in zip(parsed, kept, strict=False):
            assert (header.base_offset, header.end_offset) == (row.base, row.end)
            assert header.commit_timestamp == row.timestamp_ms
            assert bytes(found[position + 48 : position + header.size]).decode() == row.text

    @rule()
    def verify(self) -> None:
        while self.log.verify(1 << 30):
            pass
        assert not self.log.faults

    @rule(beyond=st.integers(1, 5))
    def read_outside(self, beyond: int) -> None:
        for offset in (self.log.start_offset - beyond, self.end + beyond):
            try:
                self.log.read(offset, bytes_max=1, up_to=self.end)
            except OffsetOutOfRangeError:
                continue
            raise AssertionError("an offset outside the log was read")

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def look_up_a_timestamp(self, data: st.DataObject) -> None:
        timestamp_ms = data.draw(st.integers(1_000, self.now_ms + 5))
        start = self.log.start_offset
        kept = [row for row in self.rows if row.base >= start and row.timestamp_ms >= timestamp_ms]

        expected = kept[0].base if kept else self.end

        assert self.log.offset_for_timestamp(timestamp_ms) == expected

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.end_offset == self.end
        assert self.log.synced_offset <= self.end
        stored = self.log.batches(self.log.start_offset, up_to=self.end)
        kept = [row.base for row in self.rows if row.base >= self.log.start_offset]
        assert [each.header.base_offset for each in stored] == kept


LogMachine.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestALogBehavesLikeAList = LogMachine.TestCase
