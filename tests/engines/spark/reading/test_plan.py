"""Which task reads what."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.read.splits import TASK_ROWS_MIN, log_shares, parts_in_order
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.offsets import Place
from headwater.read.split import LogRange, StateAt, rows_max_of


def log(number: int, start: int, end: int) -> LogRange:
    return LogRange.of(Place(None, number), LakeBucket(None, number), OffsetRange(start, end))


def state(number: int, at: int) -> StateAt:
    return StateAt.of(Place(None, number), LakeBucket(None, number), at)


def shares(parts, **options):
    return tuple(share.splits for share in log_shares(parts, **options))


ranges = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=12
).map(lambda found: [log(n, start, start + rows) for n, (start, rows) in enumerate(found)])


@given(ranges, st.integers(1, 10**6).filter(lambda rows: rows > 50_000))
def test_every_offset_is_read_once(splits, split_rows):
    planned = shares(splits, split_rows=split_rows)

    for split in splits:
        pieces = [piece for share in planned for piece in share if piece.place == split.place]
        borders = [split.offsets.start, *(piece.offsets.end for piece in pieces)]
        assert [piece.offsets.start for piece in pieces] == borders[:-1]
        assert borders[-1] == split.offsets.end


@given(ranges, st.integers(60_000, 10**6))
def test_pieces_are_no_larger_than_asked_for_and_of_nearly_one_size(splits, split_rows):
    planned = shares(splits, split_rows=split_rows)

    for split in splits:
        sizes = [rows_max_of(p) for share in planned for p in share if p.place == split.place]
        assert all(size <= split_rows for size in sizes)
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(ranges, st.integers(1, 10**6).filter(lambda rows: rows > 50_000), st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_buckets(splits, split_rows, random):
    shuffled = list(splits)
    random.shuffle(shuffled)

    assert shares(shuffled, split_rows=split_rows) == shares(splits, split_rows=split_rows)


@given(ranges, st.integers(1, 10**6).filter(lambda rows: rows > 50_000))
def test_no_task_reads_one_bucket_twice(splits, split_rows):
    planned = shares(splits, split_rows=split_rows)

    assert all(len({piece.place for piece in share}) == len(share) for share in planned)


def test_small_buckets_are_read_by_one_task_and_large_ones_by_many():
    small = [log(number, 0, 10) for number in range(5)]

    planned = shares([*small, log(5, 0, 3 * TASK_ROWS_MIN)], split_rows=TASK_ROWS_MIN)

    assert planned[0] == tuple(small)
    assert [len(share) for share in planned] == [5, 1, 1, 1]


def test_buckets_without_rows_are_read_by_no_task():
    assert shares([log(0, 7, 7), state(1, 0)], split_rows=10) == ()
    assert parts_in_order([log(0, 7, 7)]) == []


def test_states_are_never_cut_and_ranges_only_where_they_may_be():
    splits = [state(0, 100), log(1, 0, 100)]

    assert shares(splits, split_rows=10)[0] == (state(0, 100),)
    assert shares(splits, split_rows=10, cuts=False)[1] == (log(1, 0, 100),)


def test_buckets_are_read_in_their_order():
    splits = [log(number, 0, 10**7) for number in (2, 0, 1)]

    assert [part.bucket for part in parts_in_order(splits)] == [0, 1, 2]


def test_every_task_knows_the_moment_of_states():
    assert [share.read_ms for share in log_shares([state(0, 5)], split_rows=10, read_ms=7)] == [7]
