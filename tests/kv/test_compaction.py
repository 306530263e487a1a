"""Which segments are rewritten: bounded, worth it, and of one age where rows expire."""

from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.tablet.state_upkeep import (
    SMALL_COUNT_MIN,
    VICTIM_BYTES_MAX,
    SegmentUse,
    segments_to_compact,
)
from tests.cases import cases

MIB = 1 << 20
SMALL = 8 * MIB


@st.composite
def uses(draw, number):
    size = draw(st.integers(1, 64 * MIB))
    oldest_ms = draw(st.integers(0, 10_000))
    return SegmentUse(
        number,
        size,
        draw(st.integers(0, size)),
        oldest_ms,
        oldest_ms + draw(st.integers(0, 2_000)),
    )


many = st.integers(0, 20).flatmap(lambda count: st.tuples(*map(uses, range(count))))
spans = st.none() | st.integers(100, 3_000)


def use(number, *, size=SMALL, live=SMALL, oldest_ms=0, newest_ms=0):
    return SegmentUse(number, size, live, oldest_ms, newest_ms)


def chosen(segments, *, span=None, ratio=0.5):
    return segments_to_compact(
        segments, small_bytes=SMALL, dead_share_max=ratio, age_span_ms_max=span
    )


@given(many, spans)
def test_what_is_chosen_is_there_once_and_fits_one_segment(segments, span):
    numbers = chosen(segments, span=span)

    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= {segment.number for segment in segments}
    live = sum(segment.live_bytes for segment in segments if segment.number in numbers)
    assert len(numbers) <= 1 or live <= VICTIM_BYTES_MAX // 2


@given(many, st.integers(100, 3_000))
def test_only_segments_of_about_the_same_age_are_put_together(segments, span):
    numbers = chosen(segments, span=span)

    assume(len(numbers) > 1)
    together = [segment for segment in segments if segment.number in numbers]
    oldest_ms = min(segment.oldest_ms for segment in together)
    assert max(segment.newest_ms for segment in together) - oldest_ms <= span


@given(many, spans, st.floats(0, 1))
def test_a_segment_that_is_dirtier_than_allowed_does_not_stay(segments, span, ratio):
    dead = [s for s in segments if s.size_bytes - s.live_bytes > s.size_bytes * ratio]

    assert bool(chosen(segments, span=span, ratio=ratio)) or not dead


@cases(("ratio", "numbers"), [(0.0, (0, 1)), (0.3, (1,)), (0.6, ()), (1.0, ())])
def test_segments_are_rewritten_above_the_dirty_ratio(ratio, numbers):
    segments = [use(0, live=SMALL * 3 // 4), use(1, live=SMALL // 2), use(2)]

    assert chosen(segments, ratio=ratio) == numbers


def test_rewriting_comes_to_an_end():
    segments = {number: use(number, live=number * MIB // 4) for number in range(20)}

    rounds = 0
    while numbers := chosen(tuple(segments.values())):
        live = sum(segments.pop(number).live_bytes for number in numbers)
        segments[100 + rounds] = use(100 + rounds, size=live, live=live)
        rounds += 1

    assert rounds < 10


def test_a_few_small_segments_stay_and_many_become_one():
    small = [use(number, size=MIB, live=MIB) for number in range(SMALL_COUNT_MIN)]

    assert chosen(small[:-1]) == ()
    assert sorted(chosen(small)) == list(range(SMALL_COUNT_MIN))


def test_nothing_is_chosen_of_nothing():
    assert chosen(()) == ()
