"""Where tables stand between rounds: units, and a machine against a model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.errors import TieringFencedError
from headwater.model.path import TablePath
from headwater.server.catalog.lake_entries import TieringRecord
from headwater.server.tiering import (
    BACKOFF_FIRST_MS,
    BACKOFF_MAX_MS,
    Failed,
    Leased,
    RoundOutcome,
    TableTiering,
    TieringRequest,
    Waiting,
    backoff_ms,
    chosen,
    due_in_ms,
    failed,
    finished,
    handed_out,
    next_due_ms,
    renewed,
    settled,
    state_name,
    with_freshness,
)

LEASE_MS = 120_000
FRESH_MS = 60_000
ANYTHING = TieringRequest()
AT_ONCE = TieringRequest(ignores_freshness=True)


def table(number: int = 1, *, due_ms: int = 0, freshness_ms: int = FRESH_MS) -> TableTiering:
    return TableTiering(
        path=TablePath("fluss", f"t{number}"),
        table_id=number,
        freshness_ms=freshness_ms,
        phase=Waiting(due_ms),
        record=TieringRecord(),
    )


def tiered(each: TableTiering) -> TableTiering:
    return replace(each, record=replace(each.record, last_tiered_ms=1))


def no_rows(_: int) -> int:
    return 0


def test_a_table_is_due_when_its_freshness_is_over():
    assert next_due_ms(100, age_ms=30, now_ms=1000) == 1070
    assert next_due_ms(100, age_ms=500, now_ms=1000) == 1000
    assert next_due_ms(100, age_ms=-500, now_ms=1000) == 1100, "the wall clock was set back"


def test_a_table_that_is_not_due_is_not_handed_out():
    assert chosen([table(due_ms=10)], ANYTHING, now_ms=9, untiered=no_rows) is None
    assert chosen([table(due_ms=10)], ANYTHING, now_ms=10, untiered=no_rows) is not None


def test_a_table_that_someone_tiers_is_not_handed_out():
    held = handed_out(table(), now_ms=0)

    assert chosen([held], AT_ONCE, now_ms=10**9, untiered=no_rows) is None


def test_the_table_that_is_most_overdue_for_its_freshness_comes_first():
    slow = table(1, due_ms=0, freshness_ms=3_600_000)
    quick = table(2, due_ms=60_000, freshness_ms=10_000)

    first = chosen([slow, quick], ANYTHING, now_ms=120_000, untiered=no_rows)

    assert first is quick, "a minute is six times its freshness, but a fraction of the other's"


def test_of_tables_that_are_as_late_the_one_with_more_rows_comes_first():
    rows = {1: 5, 2: 50, 3: 50}

    first = chosen([table(3), table(1), table(2)], ANYTHING, now_ms=10, untiered=rows.__getitem__)

    assert first is not None
    assert first.table_id == 2


def test_only_the_tables_that_are_wanted_are_handed_out():
    wish = TieringRequest(only=[TablePath("fluss", "t2")])

    first = chosen([table(1), table(2)], wish, now_ms=10, untiered=no_rows)

    assert first is not None
    assert first.table_id == 2


def test_without_regard_to_freshness_tables_with_rows_and_new_ones_are_handed_out():
    late = 10**9
    idle, busy = tiered(table(1, due_ms=late)), tiered(table(2, due_ms=late))
    fresh = table(3, due_ms=late)
    rows = {1: 0, 2: 7, 3: 0}.__getitem__

    assert chosen([idle], AT_ONCE, now_ms=0, untiered=rows) is None
    assert chosen([busy], AT_ONCE, now_ms=0, untiered=rows) is busy
    assert chosen([fresh], AT_ONCE, now_ms=0, untiered=rows) is fresh
    named = TieringRequest(only=[idle.path], ignores_freshness=True)
    assert chosen([idle], named, now_ms=0, untiered=rows) is idle


def test_a_table_that_failed_rests_even_without_regard_to_freshness_unless_it_is_named():
    resting = failed(handed_out(table(), now_ms=0), 1, now_ms=0, failure="x")

    assert chosen([resting], AT_ONCE, now_ms=1, untiered=no_rows) is None
    named = TieringRequest(only=[resting.path], ignores_freshness=True)
    assert chosen([resting], named, now_ms=1, untiered=no_rows) is resting
    assert chosen([resting], ANYTHING, now_ms=BACKOFF_FIRST_MS, untiered=no_rows) is resting


def test_a_round_that_ended_well_is_told_and_the_next_one_waits():
    held = handed_out(table(), now_ms=100)
    outcome = RoundOutcome(wall_ms=5000, file_size=7, record_count=9)

    done = finished(held, 1, now_ms=400, outcome=outcome)

    assert done.phase == Waiting(400 + FRESH_MS)
    assert done.record == TieringRecord(
        turn=1, last_tiered_ms=5000, last_duration_ms=300, file_size=7, record_count=9
    )


def test_a_round_that_ended_before_its_end_is_due_at_once():
    held = handed_out(table(), now_ms=100)

    given_back = finished(held, 1, now_ms=400, outcome=RoundOutcome(wall_ms=5, is_forced=True))
    cut_short = finished(
        held, 1, now_ms=400, outcome=RoundOutcome(wall_ms=5, is_forced=True, file_size=8)
    )

    assert given_back.phase == cut_short.phase == Waiting(400)
    assert given_back.record.last_tiered_ms is None
    assert cut_short.record.last_tiered_ms == 5


def test_the_end_of_a_round_may_be_told_twice():
    held = handed_out(table(), now_ms=0)
    done = finished(held, 1, now_ms=1, outcome=RoundOutcome(wall_ms=5))
    broken = failed(held, 1, now_ms=1, failure="x")

    assert finished(done, 1, now_ms=2, outcome=RoundOutcome(wall_ms=6)) is done
    assert failed(broken, 1, now_ms=2, failure="x") is broken


def test_a_table_rests_longer_each_time_it_fails_and_success_ends_that():
    now, each = 0, table()
    for failures in (1, 2, 3):
        each = failed(handed_out(each, now_ms=now), failures, now_ms=now, failure="disk full")
        assert each.phase == Failed(now + BACKOFF_FIRST_MS * 2 ** (failures - 1))
        assert (each.record.failures, each.record.last_failure) == (failures, "disk full")

    done = finished(handed_out(each, now_ms=now), 4, now_ms=now, outcome=RoundOutcome(wall_ms=1))

    assert done.record.failures == 0


@given(st.integers(1, 10_000))
def test_a_rest_has_a_limit(failures):
    assert BACKOFF_FIRST_MS <= backoff_ms(failures) <= BACKOFF_MAX_MS


def test_a_tierer_that_is_not_heard_of_loses_its_table():
    held = renewed(handed_out(table(), now_ms=0), 1, now_ms=50)

    assert settled(held, now_ms=50 + LEASE_MS, lease_ms=LEASE_MS) is held
    lost = settled(held, now_ms=51 + LEASE_MS, lease_ms=LEASE_MS)

    assert isinstance(lost.phase, Failed)
    assert (held.unsettled, lost.unsettled) == (0, 1)
    with pytest.raises(TieringFencedError):
        renewed(lost, 1, now_ms=52 + LEASE_MS)


def test_a_new_freshness_counts_from_the_last_round():
    each = with_freshness(table(due_ms=60_000), 10_000)

    assert (each.phase, each.freshness_ms) == (Waiting(10_000), 10_000)


def test_states_have_the_names_of_fluss():
    held = handed_out(table(), now_ms=0)
    broken = failed(held, 1, now_ms=0, failure="x")

    assert state_name(table(due_ms=5), now_ms=0) == "scheduled"
    assert state_name(table(due_ms=5), now_ms=5) == "pending"
    assert state_name(held, now_ms=0) == "tiering"
    assert state_name(broken, now_ms=0) == "failed"
    assert state_name(broken, now_ms=BACKOFF_FIRST_MS) == "pending"
    assert (due_in_ms(table(due_ms=5), now_ms=7), due_in_ms(held, now_ms=7)) == (-2, 0)


class Tiering(RuleBasedStateMachine):
    """Have several tierers, some of whom vanish and come back with what they held."""

    @initialize()
    def start(self) -> None:
        self.table = table()
        self.now_ms = 0
        self.turns: list[int] = []

    @rule(passed_ms=st.sampled_from([0, 1, BACKOFF_FIRST_MS, FRESH_MS, LEASE_MS + 1]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.table = settled(self.table, now_ms=self.now_ms, lease_ms=LEASE_MS)

    @rule(ignores_freshness=st.booleans())
    def ask(self, ignores_freshness: bool) -> None:
        wish = TieringRequest(ignores_freshness=ignores_freshness)
        found = chosen([self.table], wish, now_ms=self.now_ms, untiered=no_rows)
        if found is not None:
            self.table = handed_out(found, now_ms=self.now_ms)
            self.turns.append(self.table.record.turn)

    @rule(data=st.data(), verb=st.sampled_from(["renew", "finish", "fail"]))
    def tell(self, data: st.DataObject, verb: str) -> None:
        if not self.turns:
            return
        turn, before = data.draw(st.sampled_from(self.turns)), self.table
        try:
            self.table = self._told(verb, turn)
        except TieringFencedError:
            assert not isinstance(before.phase, Leased) or before.record.turn != turn
            return
        assert turn == self.turns[-1], "only the last turn is heard"
        assert self.table is before or isinstance(before.phase, Leased)

    def _told(self, verb: str, turn: int) -> TableTiering:
        if verb == "renew":
            return renewed(self.table, turn, now_ms=self.now_ms)
        if verb == "fail":
            return failed(self.table, turn, now_ms=self.now_ms, failure="x")
        return finished(self.table, turn, now_ms=self.now_ms, outcome=RoundOutcome(wall_ms=1))

    @invariant()
    def turns_only_grow(self) -> None:
        assert self.turns == sorted(set(self.turns))

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        if not isinstance(self.table.phase, Leased):
            assert due_in_ms(self.table, now_ms=self.now_ms) <= max(FRESH_MS, BACKOFF_MAX_MS)


TestTiering = Tiering.TestCase
