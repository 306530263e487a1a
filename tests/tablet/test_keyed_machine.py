"""A primary-key bucket behaves like a dict, whatever happens to it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headwater.config.options import ChangelogImage
from headwater.kv import state as kv_state
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType, StringType
from headwater.rows.compacted.coders import KeyDecoder
from headwater.rows.row_bytes import RowBytes
from headwater.store.memory import DiskChange
from tests.figures import times
from tests.kv.merge.oracle import Oracle
from tests.tablet.keyed_bucket import Bucket, Key, Records, Row, Versions

TTL_MS = 8_000
AGE_STEP_MS = TTL_MS // 8
SCHEMAS_MAX = 3
CROWDED = 3 << 62  # the bits of a hash that are left where hashes are weak
REGIONS = ("", "eu", "a much longer region")
KEYS: list[Key] = [(region, number) for region in REGIONS for number in range(5)]
SCHEMA = Schema(
    columns=(
        Column(name="region", type=StringType(nullable=False)),
        Column(name="id", type=IntType(nullable=False)),
        Column(name="n", type=BigIntType()),
        Column(name="text", type=StringType()),
    ),
    primary_key=("region", "id"),
)
keys = st.sampled_from(KEYS)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
texts = st.none() | st.text(max_size=40)
acks = st.sampled_from((-1, 0))
between = st.lists(st.lists(st.tuples(keys, numbers), max_size=3), max_size=3)
writes = st.lists(
    st.tuples(keys, st.none() | st.tuples(numbers, texts, numbers, numbers)), max_size=8
)


@dataclass
class Moment:
    """Hold what the rows are at one offset, and when each was written."""

    rows: dict[Key, Row] = field(default_factory=dict)
    times: dict[Key, int] = field(default_factory=dict)


@dataclass
class Sent:
    """Hold a batch of a writer that was taken."""

    sequence: int
    batch: bytes
    targets: tuple[int, ...] | None
    end_offset: int


class KeyedMachine(RuleBasedStateMachine):
    @initialize(image=st.sampled_from(ChangelogImage), has_ttl=st.booleans())
    def start(self, image: ChangelogImage, has_ttl: bool) -> None:
        properties = {"kv_ttl": f"{TTL_MS} ms"} if has_ttl else {}
        self.image = image
        self.versions = Versions(
            SCHEMA, bucket_keys=("region",), changelog_image=image.value, **properties
        )
        self.bucket = Bucket(self.versions)
        self.moments = {0: Moment()}
        self.acked = 0
        self.sent: dict[int, list[Sent]] = {}

    def teardown(self) -> None:
        if hasattr(self, "bucket"):
            self.bucket.close()

    @property
    def now(self) -> Moment:
        return self.moments[max(self.moments)]

    @property
    def width(self) -> int:
        return len(self.versions.schemas[-1].columns)

    def padded(self, row: Row) -> Row:
        return (*row, *(None,) * (self.width - len(row)))

    # ---- writing

    def put(
        self,
        records: Records,
        *,
        acks: int = -1,
        schema_id: int | None = None,
        targets: tuple[int, ...] | None = None,
        writer_id: int = -1,
    ) -> None:
        sent = self.sent.setdefault(writer_id, [])
        sequence = -1 if writer_id < 0 else sent[-1].sequence + 1 if sent else 0
        batch = self.bucket.batch(
            records, schema_id=schema_id, writer_id=writer_id, sequence=sequence
        )
        before = self.bucket.log.end_offset

        end_offset = self.bucket.put(batch, acks=acks, targets=targets)

        sent.append(Sent(sequence, batch, targets, end_offset))
        padded = [(key, row and self.padded(row)) for key, row in records]
        oracle = Oracle(
            self.versions.schemas[-1],
            image=self.image,
            targets=None if targets is None else frozenset(targets),
        )
        rows, changes = oracle.apply(self.now.rows, padded)
        assert list(self.bucket.changes(before)) == [(end_offset, changes)]
        self.advance(end_offset, rows, written={row[:2] for _, row in changes})
        if acks == -1:
            self.acked = end_offset

    def advance(self, end_offset: int, rows: dict[Key, Row], *, written: set[Key]) -> None:
        times = {key: self.now.times.get(key, 0) for key in rows}
        times |= {key: self.bucket.clock.now_ms() for key in written & set(rows)}
        self.moments[end_offset] = Moment(rows, times)

    @rule(
        records=writes,
        acks=acks,
        back=st.integers(0, 2),
        writer_id=st.sampled_from((-1, 1, 2)),
        passed_ms=st.sampled_from((0, 10, AGE_STEP_MS + 1)),
    )
    def upsert_and_delete(
        self, records: Records, acks: int, back: int, writer_id: int, passed_ms: int
    ) -> None:
        self.bucket.clock.milliseconds += passed_ms
        schema_id = max(len(self.versions.schemas) - back, 1)
        width = len(self.versions.schema(schema_id).columns)
        cut = [(key, None if row is None else (*key, *row)[:width]) for key, row in records]
        self.put(cut, acks=acks, schema_id=schema_id, writer_id=writer_id)

    @rule(records=writes, acks=acks, column=st.integers(2, 4))
    def update_one_column(self, records: Records, acks: int, column: int) -> None:
        target = min(column, self.width - 1)
        cut = [
            (
                key,
                None
                if row is None
                else tuple(
                    value if at in (0, 1, target) else None
                    for at, value in enumerate((*key, *row)[: self.width])
                ),
            )
            for key, row in records
        ]
        self.put(cut, acks=acks, targets=(0, 1, target))

    @rule(writer_id=st.sampled_from((1, 2)), back=st.integers(1, 5))
    def resend(self, writer_id: int, back: int) -> None:
        history = self.sent.get(writer_id, [])
        if len(history) < back:
            return
        sent = history[-back]

        assert self.bucket.put(sent.batch, targets=sent.targets) == sent.end_offset

        self.acked = max(self.acked, sent.end_offset)

    @precondition(lambda self: len(self.versions.schemas) < SCHEMAS_MAX)
    @rule()
    def add_a_column(self) -> None:
        self.versions.add(Column(name=f"c{len(self.versions.schemas)}", type=BigIntType()))
        for moment in self.moments.values():
            moment.rows = {key: self.padded(row) for key, row in moment.rows.items()}

    # ---- upkeep, with writes in the middle of it

    def puts(self, many: list[list[tuple[Key, int | None]]]) -> list[Callable[[], object]]:
        def put(records: list[tuple[Key, int | None]]) -> None:
            self.put(
                [(key, None if n is None else (*key, n, "between")) for key, n in records],
                acks=0,
                schema_id=1,
            )

        return [lambda records=records: put(records) for records in many]

    @rule(between=between)
    def snapshot(self, between: list) -> None:
        self.bucket.tend(self.bucket.upkeep.snapshot(), between=self.puts(between))

    @rule(between=between)
    def compact(self, between: list) -> None:
        self.bucket.tend(self.bucket.upkeep.compact(), between=self.puts(between))

    @rule(between=between)
    def spill(self, between: list) -> None:
        self.bucket.tend(self.bucket.upkeep.spill(), between=self.puts(between))

    @rule(passed_ms=st.sampled_from((10, AGE_STEP_MS, TTL_MS, 2 * TTL_MS)))
    def expire(self, passed_ms: int) -> None:
        self.bucket.clock.milliseconds += passed_ms
        now_ms, before = self.bucket.clock.now_ms(), self.bucket.log.end_offset

        self.bucket.tend(self.bucket.upkeep.expire(now_ms))

        has_ttl = "table.kv.ttl" in self.versions.properties
        for end_offset, changes in self.bucket.changes(before):
            assert has_ttl
            assert {symbol for symbol, _ in changes} == {"-D"}
            gone = {row[:2] for _, row in changes}
            assert all(self.now.times[key] < now_ms - TTL_MS for key in gone)
            rows = {key: row for key, row in self.now.rows.items() if key not in gone}
            self.advance(end_offset, rows, written=set())
        due_ms = now_ms - TTL_MS - 2 * AGE_STEP_MS
        assert not has_ttl or all(at >= due_ms for at in self.now.times.values())

    @rule(bytes_max=st.sampled_from((1, 4_000)))
    def delete_old_log(self, bytes_max: int) -> None:
        needed_from = self.bucket.upkeep.needed_from
        expiring = self.bucket.log_tablet.expire(
            ttl_ms=None, bytes_max=bytes_max, kept_from=needed_from
        )
        self.bucket.run(expiring)

        assert self.bucket.log.start_offset <= self.bucket.store.rebuild_offset

    # ---- ends

    @rule()
    def restart(self) -> None:
        self.bucket.restart()
        self.acked = self.bucket.log.end_offset

    @rule(
        kept=st.integers(0, 12),
        torn=st.integers(0, 300),
        lost=st.sets(st.integers(0, 12)),
        during=st.sampled_from((None, "snapshot", "compact", "spill")),
        steps=st.integers(0, 15),
    )
    def crash(self, kept: int, torn: int, lost: set[int], during: str | None, steps: int) -> None:
        """Keep some changes that are not synced; those of the log up to one that is torn."""
        if during is not None:
            self.bucket.loop.create_task(getattr(self.bucket.upkeep, during)())
            for _ in range(steps):
                self.bucket.step()
        changes = [each for each in self.bucket.disk.unsynced() if "/kv/" not in each.path]
        fates = {
            change.number: change.data[:torn] if at == kept else change.data
            for at, change in enumerate(changes[: kept + 1])
        }

        def fate(change: DiskChange) -> bytes | None:
            if "/kv/" in change.path:
                return None if change.number % 13 in lost else change.data
            return fates.get(change.number)

        self.bucket.crash(fate)

        end_offset = self.bucket.log.end_offset
        assert end_offset >= self.acked
        assert end_offset in self.moments, "half of a batch is there"
        assert self.bucket.store.faults == []
        self.acked = end_offset
        self.moments = {at: each for at, each in self.moments.items() if at <= end_offset}
        for writer_id, history in self.sent.items():
            self.sent[writer_id] = [each for each in history if each.end_offset <= end_offset]

    # ---- what always holds

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "bucket"):
            return
        rows = self.now.rows
        assert self.folded() == rows
        assert sorted(self.bucket.scan(), key=lambda row: row[:2]) == [
            rows[key] for key in sorted(rows)
        ]
        # Few keys are found one by one, many at once.
        for each in (1, 2):
            assert self.bucket.lookup(KEYS * each) == [rows.get(key) for key in KEYS] * each
        for region in REGIONS:
            expected = sorted(row for key, row in rows.items() if key[0] == region)
            found = self.bucket.prefix_lookup(self.prefix(region))
            assert sorted(found, key=lambda row: row[:2]) == sorted(
                expected, key=lambda row: row[:2]
            )

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "bucket"):
            return
        tablet = self.bucket.tablet
        segments = tablet.state.heap.segments
        assert tablet.row_count == len(self.now.rows)
        assert {at: each.live_bytes for at, each in segments.items()} == self.bucket.live_bytes()

    def folded(self) -> dict[Key, Row]:
        """Return the rows as somebody sees them who only reads the changelog."""
        start = self.bucket.log.start_offset
        rows = dict(self.moments[start].rows)
        for end_offset, changes in self.bucket.changes(start):
            assert end_offset in self.moments
            for symbol, row in changes:
                if symbol == "-D":
                    del rows[row[:2]]
                elif symbol != "-U":
                    rows[row[:2]] = row
        return rows

    def prefix(self, region: str) -> bytes:
        key = self.bucket.keys([(region, 0)])
        ends = KeyDecoder.of([StringType()]).prefix_ends(key, 1)
        return RowBytes(key.data, key.starts, ends).to_list()[0]


class WeakHashes(KeyedMachine):
    """Do the same where hashes hardly tell keys apart."""

    @initialize(image=st.sampled_from(ChangelogImage), has_ttl=st.booleans())
    def start(self, image: ChangelogImage, has_ttl: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        strong, strong_one = kv_state.hash_keys, kv_state.hash_key
        self.patch.setattr(
            kv_state,
            "hash_keys",
            lambda keys, *, seed: strong(keys, seed=seed) & np.uint64(CROWDED),
        )
        self.patch.setattr(
            kv_state, "hash_key", lambda key, *, seed: strong_one(key, seed=seed) & CROWDED
        )
        super().start(image, has_ttl)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "patch"):
            self.patch.undo()


def bounded(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


MACHINES = pytest.mark.parametrize("machine", [KeyedMachine, WeakHashes])


@MACHINES
def test_a_primary_key_bucket_behaves_like_a_dict(machine):
    run_state_machine_as_test(machine, settings=bounded(20, 30))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@MACHINES
def test_a_primary_key_bucket_behaves_like_a_dict_for_long(machine):
    run_state_machine_as_test(machine, settings=bounded(times(300), 60))
