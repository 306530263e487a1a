"""How much of what there is one micro-batch reads."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.read.progress import rows_allowed, shared_out, states_read
from headwater.read.offsets import Place

unread = st.dictionaries(
    st.integers(0, 20).map(lambda number: Place(None, number)), st.integers(0, 10**9), max_size=12
)
A, B = Place(None, 0), Place(None, 1)


@given(unread, st.integers(1, 10**9), st.integers(0, 10**9))
def test_as_many_rows_are_shared_out_as_are_allowed_and_there(rows, rows_max, turn):
    shares = shared_out(rows, rows_max, turn=turn)

    assert sum(shares.values()) == min(rows_max, sum(rows.values()))
    assert all(0 < share <= rows[place] for place, share in shares.items())


@given(unread, st.integers(1, 10**9), st.integers(0, 10**9))
def test_every_bucket_that_has_rows_gets_some_where_there_are_enough(rows, rows_max, turn):
    waiting = [place for place in rows if rows[place]]

    shares = shared_out(rows, rows_max, turn=turn)

    assert len(shares) == min(len(waiting), rows_max)


@given(unread, st.integers(1, 10**9), st.integers(0, 10**9))
def test_whoever_has_more_gets_no_less(rows, rows_max, turn):
    shares = shared_out(rows, rows_max, turn=turn)

    if len(shares) == sum(1 for count in rows.values() if count):
        ordered = sorted(shares, key=lambda place: rows[place])
        for less, more in pairwise(ordered):
            assert shares[less] <= shares[more] + 1


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 30), max_size=8), st.integers(1, 5))
def test_all_is_read_in_the_end_and_nobody_waits_longer_than_a_round(rows, rows_max):
    left = {Place(None, number): count for number, count in rows.items()}
    read, rounds = 0, 0

    while any(left.values()):
        shares = shared_out(left, rows_max, turn=read)
        left = {place: count - shares.get(place, 0) for place, count in left.items()}
        read, rounds = read + sum(shares.values()), rounds + 1

    assert rounds == -(-sum(rows.values()) // rows_max)


def test_buckets_take_turns_where_there_are_more_of_them_than_rows():
    rows = {Place(None, number): 100 for number in range(5)}

    turns = [set(shared_out(rows, 2, turn=turn)) for turn in (0, 2, 4)]

    assert set().union(*turns) == set(rows)


def test_a_limit_that_is_not_set_limits_nothing():
    assert shared_out({A: 5, B: 0}, None, turn=0) == {A: 5}


def test_states_are_read_one_at_least_and_no_more_than_the_limit_allows():
    rows = {Place(None, number): 10 for number in range(4)}

    assert states_read(rows, None) == tuple(rows)
    assert states_read(rows, 25) == tuple(rows)[:2]
    assert states_read(rows, 1) == tuple(rows)[:1]


def test_a_limit_in_bytes_becomes_one_in_rows_by_the_size_of_those_that_wait():
    sizes = {A: 10.0, B: 100.0}

    assert rows_allowed({A: 90, B: 10}, sizes, rows_max=None, bytes_max=1900) == 100
    assert rows_allowed({A: 90, B: 10}, sizes, rows_max=7, bytes_max=1900) == 7
    assert rows_allowed({A: 90, B: 10}, {}, rows_max=7, bytes_max=1900) == 7
    assert rows_allowed({A: 90}, sizes, rows_max=None, bytes_max=1) == 1
    assert rows_allowed({A: 90}, sizes, rows_max=3, bytes_max=None) == 3
