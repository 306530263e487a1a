"""The checker of keys finds each fault that is planted, and none where there is none."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.clock import SystemClock
from headwater.testing.history import Event
from headwater.testing.key_checker import KeyHistory, ViolationKind, check_keys, first_failure
from tests.choices import examples
from tests.testing.key_world import KeyWorld, small_histories, some_order_explains, tapes

NOT_LINEARIZABLE = ViolationKind.NOT_LINEARIZABLE


class Story:
    """Tell a history call by call: what is put, seen and deleted, one after the other."""

    def __init__(self, key: str = "k0") -> None:
        self.history = KeyHistory()
        self.key = key

    def put(self, value: str) -> None:
        self.history.done(self.begin(value))

    def begin(self, value: str) -> int:
        return self.history.put("planter", self.key, value)

    def delete(self) -> None:
        self.history.done(self.history.delete("planter", self.key))

    def see(self, value: str | None) -> None:
        self.history.done(self.history.get("planter", self.key), value)


def stale_read(story: Story) -> None:
    story.put("old")
    story.put("new")
    story.see("old")


def resurrected_delete(story: Story) -> None:
    story.put("gone")
    story.delete()
    story.see("gone")


def late_commit(story: Story) -> None:
    story.put("first")
    story.put("late")
    story.see("first")
    story.see("late")


def reads_going_back(story: Story) -> None:
    story.put("first")
    writing = story.begin("second")
    story.see("second")
    story.see("first")
    story.history.done(writing)


def unknown_that_comes_and_goes(story: Story) -> None:
    story.put("known")
    story.history.lose(story.begin("perhaps"))
    story.see("perhaps")
    story.see("known")


def failed_but_visible(story: Story) -> None:
    story.history.fail(story.begin("failed"))
    story.see("failed")


def never_put(story: Story) -> None:
    story.see("nobody's")


FAULTS = [
    (stale_read, NOT_LINEARIZABLE),
    (resurrected_delete, NOT_LINEARIZABLE),
    (late_commit, NOT_LINEARIZABLE),
    (reads_going_back, NOT_LINEARIZABLE),
    (unknown_that_comes_and_goes, NOT_LINEARIZABLE),
    (failed_but_visible, ViolationKind.PHANTOM),
    (never_put, ViolationKind.PHANTOM),
]


def at_once(events: list[Event], inserted: list[Event], place: int) -> KeyHistory:
    """Return a history into which another was put at one place, by their times."""
    first = [{**event, "at": float(number)} for number, event in enumerate(events)]
    moment = place % (len(events) + 1) - 0.5
    second = [{**e, "at": moment + number / 100} for number, e in enumerate(inserted)]
    return KeyHistory.of_events(first, second)


@settings(max_examples=examples(150))
@given(tapes)
def test_registers_that_keep_their_promises_have_no_violation(tape):
    assert check_keys(KeyWorld().play(tape)) == []


@pytest.mark.parametrize(
    ("fault", "kind"), FAULTS, ids=lambda value: getattr(value, "__name__", "")
)
@settings(max_examples=25)
@given(tape=tapes, place=st.integers(0, 200))
def test_a_planted_fault_is_found_by_its_name(fault, kind, tape, place):
    story = Story()
    fault(story)
    events = KeyWorld().play(tape).journal.events

    found = check_keys(at_once(events, story.history.journal.events, place))

    assert kind in {violation.kind for violation in found if violation.key == "k0"}


@settings(max_examples=examples(600))
@given(small_histories())
def test_the_search_agrees_with_one_that_tries_every_order(operations):
    assert (first_failure(operations) is None) == some_order_explains(operations)


def test_a_write_that_takes_effect_late_explains_two_reads_of_it():
    history = KeyHistory()
    late, first = history.put("a", "k", "late"), history.put("b", "k", "first")
    seen = history.get("c", "k")
    history.done(first)
    last = history.put("b", "k", "last")
    history.done(seen, "late")
    history.done(last)
    history.done(history.get("c", "k"), "late")
    history.lose(late)

    assert check_keys(history) == []


def test_a_key_that_too_many_use_at_once_is_not_judged():
    history = KeyHistory()
    puts = [history.put(f"w{each}", "k", f"v{each}") for each in range(24)]
    gets = [history.get(f"r{each}", "k") for each in range(24)]
    for each, get in enumerate(gets):
        history.done(get, f"v{each}")
    for put in puts:
        history.done(put)

    (violation,) = check_keys(history)

    assert violation.kind is ViolationKind.NOT_JUDGED
    assert "more keys" in violation.message


def test_small_histories_come_with_both_verdicts():
    verdicts = Counter[bool]()

    @settings(max_examples=300, database=None)
    @given(small_histories())
    def judge(operations):
        verdicts[first_failure(operations) is None] += 1

    judge()

    assert min(verdicts[True], verdicts[False]) > 30


def test_a_violation_names_the_fewest_operations_and_what_could_have_been():
    story = Story()
    for number in range(50):
        story.put(f"v{number}")
        story.see(f"v{number}")
    story.see("v7")

    (violation,) = check_keys(story.history)

    assert violation.operations == (14, 24, 100)
    assert violation.message == (
        "No order explains key 'k0': #100 of planter [200..201] saw 'v7', when only "
        "'v12' was possible. Given: #14 of planter [28..29] put 'v7'; "
        "#24 of planter [48..49] put 'v12'."
    )


def test_a_write_that_vanished_is_found_unless_a_delete_may_explain_it():
    story, explained = Story(), Story()
    explained.history.lose(explained.history.delete("c", "k0"))
    for each in (story, explained):
        each.put("lost")
        each.see(None)

    assert [violation.kind for violation in check_keys(story.history)] == [NOT_LINEARIZABLE]
    assert check_keys(explained.history) == []


def test_a_phantom_says_whose_put_failed():
    story = Story()
    failed_but_visible(story)

    (violation,) = check_keys(story.history)

    assert str(violation) == (
        "phantom: #1 of planter [2..3] saw 'failed' of key 'k0', whose put (#0) failed."
    )


def test_many_writes_without_an_end_do_not_slow_the_search_down():
    history = KeyHistory()
    for number in range(300):
        history.lose(history.delete("c", "k"))
        history.lose(history.put("c", "k", f"c/{number}"))
        history.done(history.get("d", "k"), f"c/{number}" if number % 3 else None)

    before = SystemClock().monotonic()

    assert check_keys(history) == []
    assert SystemClock().monotonic() - before < 30


def test_ten_thousand_operations_on_a_hundred_keys_are_judged_in_seconds():
    history = KeyHistory()
    numbers = count()
    for _ in range(50):
        puts = [history.put(f"c{key}", f"k{key}", str(next(numbers))) for key in range(100)]
        gets = [history.get(f"d{key}", f"k{key}") for key in range(100)]
        for key in range(100):
            history.done(puts[key])
            history.done(gets[key], history.operations()[puts[key]].value if key % 2 else None)

    assert len(history.operations()) == 10_000
    assert len(check_keys(history)) == 50
