"""Bytes are handed out in turn, never over the total but to one lone taker, and none get lost."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.server.memory import Budget
from tests.clocks import loop_turns

TOTAL = 100
STEPS = ("begins", "ends")


class Taker:
    def __init__(self, log=None):
        self.log = [] if log is None else log

    def granted(self):
        self.log.append(self)


def test_bytes_are_taken_up_to_the_total():
    budget = Budget(TOTAL)

    taken = [budget.take(60), budget.take(41), budget.take(40), budget.take(1)]

    assert taken == [True, False, True, False]
    assert budget.used_bytes == TOTAL


def test_a_lone_taker_may_exceed_the_total():
    budget = Budget(TOTAL)

    assert budget.take(TOTAL * 5)
    assert not budget.take(1)


def test_nobody_overtakes_who_waits():
    budget, large = Budget(TOTAL), Taker()
    budget.take(60)
    budget.take_later(50, large.granted)

    assert not budget.take(10)

    budget.give(60)
    assert large.log == [large]
    assert budget.take(10)


def test_takers_are_served_in_the_order_in_which_they_came():
    budget, served = Budget(TOTAL), []
    takers = [Taker(served) for _ in range(5)]
    budget.take(TOTAL)
    for taker in takers:
        budget.take_later(40, taker.granted)

    budget.give(TOTAL)

    assert served == takers[:2]


def test_who_leaves_the_queue_lets_the_next_one_through():
    budget, large, small = Budget(TOTAL), Taker(), Taker()
    budget.take(60)
    budget.take_later(90, large.granted)
    budget.take_later(30, small.granted)

    budget.forget(large.granted)

    assert (large.log, small.log) == ([], [small])
    assert budget.used_bytes == 90


def test_forgetting_somebody_who_does_not_wait_changes_nothing():
    budget = Budget(TOTAL)
    budget.take(60)

    budget.forget(Taker().granted)

    assert budget.used_bytes == 60


async def test_room_is_held_while_something_is_done_and_others_wait_for_it():
    budget, order = Budget(TOTAL), []

    async def work(name, count):
        async with budget.room(count):
            order.append(f"{name} begins")
            await loop_turns()
            order.append(f"{name} ends")

    await asyncio.gather(work("large", TOTAL), work("second", TOTAL), work("small", 1))

    assert order == [f"{name} {what}" for name in ("large", "second", "small") for what in STEPS]
    assert budget.used_bytes == 0


async def test_who_is_cancelled_before_or_just_after_getting_room_holds_none():
    for is_granted in (False, True):
        budget = Budget(TOTAL)
        budget.charge(TOTAL)
        waiting = asyncio.ensure_future(budget.room(10).__aenter__())
        await loop_turns()

        waiting.cancel()
        if is_granted:
            budget.give(TOTAL)
        await asyncio.gather(waiting, return_exceptions=True)

        assert budget.used_bytes == (0 if is_granted else TOTAL)
        assert not budget._waiting


@given(st.lists(st.integers(1, 3 * TOTAL), min_size=1, max_size=30))
def test_everybody_gets_a_turn_when_all_give_back(counts):
    budget, served = Budget(TOTAL), []
    budget.take(TOTAL)
    takers = {Taker(served): count for count in counts}
    for taker, count in takers.items():
        budget.take_later(count, taker.granted)

    budget.give(TOTAL)
    for number in range(len(counts)):
        budget.give(takers[served[number]])

    assert served == list(takers)
    assert budget.used_bytes == 0


class BudgetMachine(RuleBasedStateMachine):
    """Compare a budget with two lists: who holds bytes, and who waits."""

    def __init__(self):
        super().__init__()
        self.budget = Budget(TOTAL)
        self.held, self.waiting, self.served = [], [], []
        self.charged = 0

    @rule(count=st.integers(1, 2 * TOTAL))
    def ask(self, count):
        if self.budget.take(count):
            assert not self.waiting
            self.held.append(count)
            return
        taker = Taker(self.served)
        self.waiting.append((taker, count))
        self.budget.take_later(count, taker.granted)

    @rule(count=st.integers(1, TOTAL))
    def charge(self, count):
        self.budget.charge(count)
        self.charged += count

    @precondition(lambda self: self.charged)
    @rule()
    def give_back_what_was_charged(self):
        count, self.charged = self.charged, 0
        self.budget.give(count)
        self.take_note()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give(self, data):
        count = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.budget.give(count)
        self.take_note()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data):
        taker, _ = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.budget.forget(taker.granted)
        self.take_note()

    def take_note(self):
        while self.served:
            taker, count = self.waiting.pop(0)
            assert self.served.pop(0) is taker, "served out of turn"
            self.held.append(count)

    @invariant()
    def nothing_is_lost(self):
        assert self.budget.used_bytes == sum(self.held) + self.charged

    @invariant()
    def takers_keep_to_the_total_but_for_a_lone_one(self):
        assert sum(self.held) <= TOTAL or len(self.held) == 1

    @invariant()
    def who_waits_does_not_fit(self):
        if self.waiting:
            used = self.budget.used_bytes
            assert used
            assert used + self.waiting[0][1] > TOTAL


TestBudgetMachine = BudgetMachine.TestCase
