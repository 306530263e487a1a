"""Buckets that merge rows or number them agree with a naive merge, whatever happens to them."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from headwater.config.options import ChangelogImage, DeleteBehavior, MergeEngine
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType, StringType
from tests.figures import times
from tests.kv.merge.oracle import Oracle
from tests.tablet.keyed_bucket import Bucket, Row, Versions

KEYS = range(8)
ID_AT = 3
SUM, LISTED = AggregateFunction(AggregateKind.SUM), AggregateFunction(AggregateKind.LISTAGG)


def schema_of(*columns: Column, numbered: tuple[str, ...] = ()) -> Schema:
    key = Column(name="k", type=IntType(nullable=False))
    return Schema(columns=(key, *columns), primary_key=("k",), auto_increment=numbered)


PLAIN = schema_of(Column(name="n", type=BigIntType()), Column(name="text", type=StringType()))
FOLDED = schema_of(
    Column(name="n", type=BigIntType(), aggregate=SUM),
    Column(name="text", type=StringType(), aggregate=LISTED),
)
NUMBERED = schema_of(*PLAIN.columns[1:], Column(name="id", type=BigIntType()), numbered=("id",))


@dataclass(frozen=True)
class Case:
    """Hold a kind of table, and how the naive merge treats it."""

    schema: Schema
    engine: MergeEngine | None = None
    deletes: DeleteBehavior = DeleteBehavior.IGNORE
    properties: dict[str, str] = field(default_factory=dict)
    targets: tuple[int, ...] | None = None


CASES = [
    Case(FOLDED, MergeEngine.AGGREGATION, DeleteBehavior.ALLOW, {"delete_behavior": "allow"}),
    Case(FOLDED, MergeEngine.AGGREGATION, targets=(0, 1)),
    Case(PLAIN, MergeEngine.FIRST_ROW),
    Case(PLAIN, MergeEngine.VERSIONED, properties={"merge-engine_versioned_ver-column": "n"}),
    Case(NUMBERED, None, DeleteBehavior.ALLOW, {"auto-increment_cache-size": "3"}, (0, 1, 2)),
]
rows = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text(max_size=9))
writes = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | rows), max_size=6)


class MergingMachine(RuleBasedStateMachine):
    @initialize(case=st.sampled_from(CASES), image=st.sampled_from(ChangelogImage))
    def start(self, case: Case, image: ChangelogImage) -> None:
        named = {} if case.engine is None else {"merge-engine": case.engine.value}
        options = named | case.properties | {"changelog_image": image.value}
        self.case, self.image = case, image
        self.bucket = Bucket(Versions(case.schema, **options))
        self.moments: dict[int, dict[int, Row]] = {0: {}}
        self.acked = 0

    def teardown(self) -> None:
        if hasattr(self, "bucket"):
            self.bucket.close()

    @property
    def now(self) -> dict[int, Row]:
        return self.moments[max(self.moments)]

    def shown(self, row: Row) -> Row:
        """Leave the number out: which one a row gets is not said."""
        return row[:ID_AT]

    @rule(records=writes, acks=st.sampled_from((-1, 0)))
    def write(self, records: list, acks: int) -> None:
        width, targets = len(self.case.schema.columns), self.case.targets
        padded = [
            ((key,), None if row is None else (key, *row, None)[:width]) for key, row in records
        ]
        before = self.bucket.log.end_offset

        end_offset = self.bucket.put(self.bucket.batch(padded), acks=acks, targets=targets)

        after, changes = self.oracle().apply(self.now, [(key[0], row) for key, row in padded])
        found = list(self.bucket.changes(before))
        assert [end for end, _ in found] == [end_offset]
        assert [(kind, self.shown(row)) for _, each in found for kind, row in each] == [
            (kind, self.shown(row)) for kind, row in changes
        ]
        self.moments[end_offset] = after
        self.acked = end_offset if acks == -1 else self.acked

    def oracle(self) -> Oracle:
        case = self.case
        return Oracle(
            case.schema,
            engine=case.engine,
            deletes=case.deletes,
            image=self.image,
            version=1,
            targets=None if case.targets is None else frozenset(case.targets),
        )

    @rule()
    def snapshot(self) -> None:
        self.bucket.tend(self.bucket.upkeep.snapshot())

    @rule()
    def compact(self) -> None:
        self.bucket.tend(self.bucket.upkeep.compact())

    @rule()
    def restart(self) -> None:
        self.bucket.restart()
        self.acked = self.bucket.log.end_offset

    @rule(kept=st.integers(0, 6))
    def crash(self, kept: int) -> None:
        changes = self.bucket.disk.unsynced()
        survivors = {change.number for change in changes[:kept]}

        self.bucket.crash(lambda change: change.data if change.number in survivors else None)

        end_offset = self.bucket.log.end_offset
        assert self.acked <= end_offset
        assert end_offset in self.moments
        self.acked = end_offset
        self.moments = {at: each for at, each in self.moments.items() if at <= end_offset}

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "bucket"):
            return
        expected = {key: self.shown(row) for key, row in self.now.items()}
        found = sorted(self.bucket.scan())
        assert {row[0]: self.shown(row) for row in found} == expected
        assert found == sorted(self.folded().values())
        assert [row for row in self.bucket.lookup([(key,) for key in KEYS]) if row] == found
        assert self.bucket.tablet.row_count == len(found)

    def folded(self) -> dict[int, Row]:
        """Fold the changelog; the number of a row is its own and stays as long as the row."""
        held: dict[int, Row] = {}
        numbers: set[int] = set()
        for _, changes in self.bucket.changes():
            for kind, row in changes:
                before = held.pop(row[0], None)
                if kind in ("-U", "-D"):
                    assert before == row
                if kind == "+I" and len(row) > ID_AT:
                    assert row[ID_AT] not in numbers
                    numbers.add(row[ID_AT])
                if kind in ("+I", "+U"):
                    held[row[0]] = row
        assert all(row[ID_AT:] == () or row[ID_AT] in numbers for row in held.values())
        return held


def bounded(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_a_bucket_that_merges_agrees_with_a_naive_merge():
    run_state_machine_as_test(MergingMachine, settings=bounded(25, 25))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_bucket_that_merges_agrees_with_a_naive_merge_for_long():
    run_state_machine_as_test(MergingMachine, settings=bounded(times(300), 50))
