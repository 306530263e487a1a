"""Auto-increment numbers are handed out once, whatever happens in between."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.store import IdRange
from headwater.tablet.keyed_table import AutoIds


class Counter:
    """Reserve blocks as a catalog does."""

    def __init__(self) -> None:
        self.last = 0

    def reserve(self, count: int) -> int:
        before, self.last = self.last, self.last + count
        return before


def version(block: int, *, numbered: bool = True):
    schema = SimpleNamespace(auto_increment=("id",) if numbered else ())
    kv = SimpleNamespace(auto_increment_cache_size=block)
    return SimpleNamespace(schema=schema, options=SimpleNamespace(kv=kv))


def taken(ids: AutoIds, count: int, *, block: int) -> list[int]:
    ids.provide(count, version(block))
    return ids.take(count).tolist()


def test_numbers_begin_at_one_and_follow_each_other():
    ids = AutoIds(Counter().reserve)

    assert taken(ids, 3, block=10) == [1, 2, 3]
    assert taken(ids, 2, block=10) == [4, 5]


def test_a_table_without_such_a_column_reserves_nothing():
    counter = Counter()

    AutoIds(counter.reserve).provide(5, version(10, numbered=False))

    assert counter.last == 0


def test_what_is_left_of_a_block_is_used_up_first():
    counter = Counter()
    ids = AutoIds(counter.reserve)
    taken(ids, 3, block=4)
    counter.reserve(100)

    assert taken(ids, 3, block=4) == [4, 105, 106]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7)), max_size=20), st.integers(1, 5))
def test_two_buckets_never_get_the_same_number(takes, block):
    counter = Counter()
    buckets = [AutoIds(counter.reserve), AutoIds(counter.reserve)]

    numbers = [
        each for bucket, count in takes for each in taken(buckets[bucket], count, block=block)
    ]

    assert len(set(numbers)) == len(numbers)
    assert all(number > 0 for number in numbers)


def test_a_recovered_bucket_goes_on_behind_the_numbers_in_use():
    counter = Counter()
    counter.reserve(10)
    ids = AutoIds(counter.reserve, IdRange(3, 10))

    ids.skip(5)

    assert taken(ids, 2, block=10) == [6, 7]


def test_a_number_of_a_later_block_ends_the_one_at_hand():
    counter = Counter()
    counter.reserve(20)
    ids = AutoIds(counter.reserve, IdRange(3, 10))

    ids.skip(12)

    assert taken(ids, 1, block=10) == [21]


def test_a_block_that_is_used_up_is_not_used_again():
    counter = Counter()
    counter.reserve(10)
    ids = AutoIds(counter.reserve, IdRange(3, 10))

    ids.skip(10)

    assert taken(ids, 1, block=10) == [11]
