"""The bucket of one key is that of the key among many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.buckets import BucketFunction, buckets_of, fluss_bucket
from headwater.rows.row_bytes import RowBytes


@pytest.mark.parametrize("function", [BucketFunction.FLUSS, BucketFunction.FLUSS_UNSIGNED])
@given(st.binary(max_size=40), st.integers(1, 5000))
def test_one_key_has_the_bucket_that_it_has_among_many(function, key, count):
    (expected,) = buckets_of(RowBytes.of([key]), count, function=function).tolist()

    assert fluss_bucket(key, count, signed=function is BucketFunction.FLUSS) == expected
