"""The bucket of one key is that of the key among many."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.bucketing import BucketFunction, buckets_of
from headwater.rows.one_bucket import fluss_bucket
from headwater.rows.row_bytes import RowBytes


@given(st.binary(max_size=40), st.integers(1, 5000))
def test_one_key_has_the_bucket_that_it_has_among_many(key, count):
    (expected,) = buckets_of(RowBytes.of([key]), count, function=BucketFunction.FLUSS).tolist()

    assert fluss_bucket(key, count) == expected
