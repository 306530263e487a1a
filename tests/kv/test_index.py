"""The index behaves like a dict, also where hashes crowd one place."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.kv.heap import ABSENT
from headwater.kv.index import NOWHERE, SLOTS_MIN, SPARE_SLOTS, HashIndex
from tests.cases import cases
from tests.choices import examples

TOP = 2**64 - 1
# At home everywhere, in the first slot, in the last slot.
CROWDS = {
    "spread": lambda number: (number * 0x9E3779B97F4A7C15) & TOP,
    "first slot": lambda number: number,
    "last slot": lambda number: TOP - number,
}
numbers = st.sets(st.integers(0, 60), max_size=20)


def hashes_of(values):
    return np.array(list(values), np.uint64)


class IndexMachine(RuleBasedStateMachine):
    @initialize(crowd=st.sampled_from(sorted(CROWDS)))
    def start(self, crowd):
        self.hash = CROWDS[crowd]
        self.index = HashIndex()
        self.model = {}
        self.next_location = 0

    def located(self, count):
        first, self.next_location = self.next_location, self.next_location + count
        return np.arange(first, first + count, dtype=np.int64)

    @rule(chosen=numbers)
    def write(self, chosen):
        """Replace what was here before and insert what was not, as a batch does."""
        hashes = hashes_of(map(self.hash, chosen))
        locations = self.located(len(hashes))
        slots, _ = self.index.find(hashes)
        known = slots != NOWHERE

        self.index.replace(slots[known], locations[known])
        self.index.insert(hashes[~known], locations[~known])

        self.model |= zip(hashes.tolist(), locations.tolist(), strict=True)

    @rule(chosen=numbers)
    def remove(self, chosen):
        hashes = hashes_of(map(self.hash, chosen))
        slots, _ = self.index.find(hashes)
        slots = slots[slots != NOWHERE]

        self.index.replace(slots, np.full(len(slots), ABSENT))

        for hashed in hashes.tolist():
            self.model.pop(hashed, None)

    @rule(count=st.integers(0, 3_000))
    def reserve(self, count):
        self.index.reserve(count)

    @rule(chosen=numbers, stale=numbers)
    def move(self, chosen, stale):
        hashes = hashes_of(map(self.hash, chosen))
        before = np.array([self.model.get(each, 10**9) for each in hashes.tolist()], np.int64)
        is_stale = np.array([number in stale for number in chosen], np.bool_)
        after = self.located(len(hashes))

        moved = self.index.move(hashes, before=np.where(is_stale, 10**8, before), after=after)

        held = np.array([each in self.model for each in hashes.tolist()], np.bool_)
        assert moved.tolist() == (held & ~is_stale).tolist()
        self.model |= zip(hashes[moved].tolist(), after[moved].tolist(), strict=True)

    @rule()
    def rebuild(self):
        self.index = HashIndex.of(*self.index.entries())

    @invariant()
    def it_holds_what_the_dict_holds(self):
        if not hasattr(self, "index"):
            return
        hashes = hashes_of(map(self.hash, range(61)))
        expected = [self.model.get(each, ABSENT) for each in hashes.tolist()]
        assert self.index.find(hashes)[1].tolist() == expected
        assert [self.index.find_one(each) for each in hashes.tolist()] == expected
        held, locations = self.index.entries()
        assert dict(zip(held.tolist(), locations.tolist(), strict=True)) == self.model
        assert self.index.live_count == len(self.model)


IndexMachine.TestCase.settings = settings(max_examples=examples(50), deadline=None)
TestAnIndexBehavesLikeADict = IndexMachine.TestCase


@cases("step", [97, 5_000])
@cases(
    ("crowd", "count"),
    [("spread", 9 * SLOTS_MIN), ("first slot", 2 * SLOTS_MIN), ("last slot", SPARE_SLOTS - 2)],
)
def test_hashes_that_crowd_one_place_are_all_found(crowd, count, step):
    hashes = hashes_of(map(CROWDS[crowd], range(count)))
    locations = np.arange(count, dtype=np.int64)
    index = HashIndex()

    for first in range(0, count, step):
        index.insert(hashes[first : first + step], locations[first : first + step])

    assert index.find(hashes)[1].tolist() == locations.tolist()
    assert index.live_count == count


def test_removed_hashes_give_their_room_back_when_the_table_grows():
    index = HashIndex()
    for first in range(0, 100_000, 500):
        hashes = hashes_of(map(CROWDS["spread"], range(first, first + 500)))
        index.insert(hashes, np.arange(500, dtype=np.int64))
        index.replace(index.find(hashes)[0], np.full(500, ABSENT))

    assert index.live_count == 0
    assert index.size_bytes < 16 * 10_000


def test_a_table_that_grows_leaves_what_was_found_before_valid():
    index = HashIndex()
    hashes = hashes_of(map(CROWDS["spread"], range(500)))
    index.insert(hashes, np.arange(500, dtype=np.int64))

    assert index.reserve(10_000)

    assert index.find(hashes)[1].tolist() == list(range(500))
