"""Which task reads what."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.reading.log_batch import Place
from headwater.engines.spark.reading.plan import TASK_ROWS_MIN, one_share, shares
from headwater.engines.spark.reading.splits import LogSplit, StateSplit
from headwater.model.bucket import TableBucket


def log(number: int, start: int, end: int) -> LogSplit:
    return LogSplit(Place(None, number), TableBucket(1, number), start, end)


def state(number: int, at: int) -> StateSplit:
    return StateSplit(Place(None, number), TableBucket(1, number), at)


ranges = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=12
).map(lambda found: [log(n, start, start + rows) for n, (start, rows) in enumerate(found)])


@given(ranges, st.integers(1, 10**6).filter(lambda rows: rows > 50_000))
def test_every_offset_is_read_once(splits, split_rows):
    planned = shares(splits, split_rows=split_rows)

    for split in splits:
        pieces = [piece for share in planned for piece in share if piece.place == split.place]
        borders = [split.start, *(piece.end for piece in pieces)]
        assert [piece.start for piece in pieces] == borders[:-1]
        assert borders[-1] == split.end


@given(ranges, st.integers(60_000, 10**6))
def test_pieces_are_no_larger_than_asked_for_and_of_nearly_one_size(splits, split_rows):
    planned = shares(splits, split_rows=split_rows)

    for split in splits:
        sizes = [p.weight for share in planned for p in share if p.place == split.place]
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

    assert planned[0] == (*small, log(5, 0, TASK_ROWS_MIN))
    assert [len(share) for share in planned] == [6, 1, 1]


def test_buckets_without_rows_are_read_by_no_task():
    assert shares([log(0, 7, 7), state(1, 0)], split_rows=10) == ()
    assert one_share([log(0, 7, 7)]) == ()


def test_states_are_never_cut_and_ranges_only_where_they_may_be():
    splits = [state(0, 100), log(1, 0, 100)]

    assert shares(splits, split_rows=10)[0] == (state(0, 100),)
    assert shares(splits, split_rows=10, cuts=False)[1] == (log(1, 0, 100),)


def test_a_read_of_a_few_rows_is_one_task():
    splits = [log(number, 0, 10**7) for number in (2, 0, 1)]

    assert one_share(splits) == (tuple(sorted(splits, key=lambda split: split.place.bucket)),)
