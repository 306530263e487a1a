"""The pure machine behind limits in bytes per second."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.server.quotas import BURST_S, TokenBucket, changed_bucket
from tests.choices import examples

RATES = st.integers(1024, 10**9)
STEPS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10**8)), max_size=60)


@given(rate=RATES, steps=STEPS)
@settings(max_examples=examples(300))
def test_whoever_waits_as_told_takes_no_more_than_the_rate_and_one_piece_ahead(rate, steps):
    bucket, now_s, taken, largest = TokenBucket(rate, 0.0), 0.0, 0, 0

    for pause_s, count in steps:
        now_s += pause_s + bucket.wait_s(now_s + pause_s)
        bucket.take(count, now_s)
        taken, largest = taken + count, max(largest, count)

        assert taken <= (rate * (now_s + BURST_S) + largest) * (1 + 1e-9) + 1


@given(rate=RATES, steps=STEPS)
@settings(max_examples=examples(300))
def test_after_the_wait_nothing_is_owed(rate, steps):
    bucket, now_s = TokenBucket(rate, 0.0), 0.0

    for pause_s, count in steps:
        bucket.take(count, now_s)
        now_s += max(pause_s, bucket.wait_s(now_s))

        assert bucket.wait_s(now_s) == pytest.approx(0.0, abs=1e-6)


@given(rate=RATES, steps=STEPS)
@settings(max_examples=examples(300))
def test_who_takes_no_more_than_the_rate_never_waits(rate, steps):
    bucket, now_s = TokenBucket(rate, 0.0), 0.0

    for pause_s, _ in steps:
        now_s += pause_s
        bucket.take(int(min(pause_s, BURST_S) * rate), now_s)

        assert bucket.wait_s(now_s) == pytest.approx(0.0, abs=1e-6)


@given(rate=RATES, back_s=st.floats(0, 10**6), count=st.integers(0, 10**8))
@settings(max_examples=examples(100))
def test_a_clock_that_goes_back_gives_and_takes_nothing(rate, back_s, count):
    bucket = TokenBucket(rate, 10.0**6)
    bucket.take(count, 10.0**6)
    before = bucket.balance

    bucket.advance(10.0**6 - back_s)

    assert bucket.balance == before
    assert bucket.now_s == 10.0**6


def test_a_debt_stays_when_the_rate_is_changed_and_is_forgotten_with_the_limit():
    bucket = TokenBucket(1024, 0.0)
    bucket.take(1024 * 11, 0.0)

    raised = changed_bucket(bucket, 10_240, 0.0)

    assert raised is not None
    assert raised.wait_s(0.0) == 1.0
    assert changed_bucket(raised, 0, 0.0) is None
