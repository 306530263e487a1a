"""A clock that leaps is believed after a while, and not before."""

from headwater.runtime.jumps import BELIEVED_AFTER_S, JUMP_MS, UNSEEN_S_MAX, DoubtingClock

YEAR_MS = 365 * 24 * 3600 * 1000


class HandClock:
    """Let a test set the time, and let time pass."""

    def __init__(self) -> None:
        self.wall_ms = 1_000_000_000
        self.passed_s = 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.passed_s

    async def sleep(self, seconds: float) -> None:
        self.let_pass(seconds)

    def let_pass(self, seconds: float) -> None:
        self.passed_s += seconds
        self.wall_ms += int(seconds * 1000)


def test_time_that_passes_is_believed():
    hand = HandClock()
    clock = DoubtingClock(hand)

    hand.let_pass(10 * BELIEVED_AFTER_S)

    assert clock.now_ms() == hand.wall_ms


def test_a_leap_ahead_is_not_believed_at_once_and_time_goes_on_as_before():
    hand = HandClock()
    clock = DoubtingClock(hand)
    before = clock.now_ms()

    hand.wall_ms += YEAR_MS
    assert clock.now_ms() == before
    hand.let_pass(60)

    assert clock.now_ms() == before + 60_000


def test_a_leap_that_stands_for_long_is_believed():
    hand = HandClock()
    clock = DoubtingClock(hand)
    hand.wall_ms += YEAR_MS
    clock.now_ms()

    hand.let_pass(BELIEVED_AFTER_S)

    assert clock.now_ms() == hand.wall_ms


def test_a_leap_that_is_taken_back_leaves_no_doubt():
    hand = HandClock()
    clock = DoubtingClock(hand)
    hand.wall_ms += YEAR_MS
    clock.now_ms()

    hand.wall_ms -= YEAR_MS
    assert clock.now_ms() == hand.wall_ms
    hand.let_pass(2 * BELIEVED_AFTER_S)
    hand.wall_ms += YEAR_MS

    assert clock.now_ms() == hand.wall_ms - YEAR_MS


def test_a_leap_that_nobody_has_looked_at_for_long_is_doubted_anew():
    hand = HandClock()
    clock = DoubtingClock(hand)
    hand.wall_ms += YEAR_MS
    clock.now_ms()

    hand.let_pass(UNSEEN_S_MAX)

    assert clock.now_ms() == hand.wall_ms - YEAR_MS


def test_a_second_leap_further_ahead_is_doubted_anew():
    hand = HandClock()
    clock = DoubtingClock(hand)
    hand.wall_ms += 2 * JUMP_MS
    clock.now_ms()

    hand.let_pass(BELIEVED_AFTER_S)
    hand.wall_ms += YEAR_MS

    assert clock.now_ms() == hand.wall_ms - YEAR_MS - 2 * JUMP_MS


def test_small_corrections_and_steps_back_are_believed():
    hand = HandClock()
    clock = DoubtingClock(hand)

    for step_ms in (JUMP_MS, -YEAR_MS, JUMP_MS // 2):
        hand.wall_ms += step_ms

        assert clock.now_ms() == hand.wall_ms
