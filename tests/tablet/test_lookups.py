"""A look-up shows nothing that a loss of power could take back, however many keys it asks for."""

import pytest

from headwater.model.schema import Column, Schema
from headwater.model.types import IntType
from headwater.tablet.state_read import LOOP_KEYS_MAX, SCALAR_KEYS_MAX
from tests.tablet.keyed_bucket import Bucket, Versions

SCHEMA = Schema(
    columns=(
        Column(name="shop", type=IntType(nullable=False)),
        Column(name="shelf", type=IntType(nullable=False)),
        Column(name="count", type=IntType()),
    ),
    primary_key=("shop", "shelf"),
)
KEY = (1, 1)
COUNTS = [1, SCALAR_KEYS_MAX + 1, LOOP_KEYS_MAX + 1]


@pytest.fixture(params=[("shop",), ("shop", "shelf")], ids=["indexed", "not indexed"])
def bucket(request):
    bucket = Bucket(Versions(SCHEMA, bucket_keys=request.param))
    bucket.put(bucket.batch([(KEY, (*KEY, 6))]))
    yield bucket
    bucket.close()


def put_unsynced(bucket, row):
    bucket.put(bucket.batch([(KEY, row)]), acks=0)
    assert bucket.log.synced_offset < bucket.log.end_offset


def is_synced(bucket):
    return bucket.log.synced_offset == bucket.log.end_offset


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", [(*KEY, 7), None], ids=["put", "removed"])
def test_what_is_looked_up_is_durable_when_it_is_shown(bucket, count, row):
    put_unsynced(bucket, row)

    found = bucket.lookup([KEY, *((2, number) for number in range(1, count))])

    assert found == [row, *[None] * (count - 1)]
    assert is_synced(bucket)


@pytest.mark.parametrize("row", [(*KEY, 7), None], ids=["put", "removed"])
def test_what_a_prefix_finds_and_misses_is_durable_when_it_is_shown(bucket, row):
    put_unsynced(bucket, row)

    found = bucket.prefix_lookup(bucket.keys([KEY]).to_list()[0][:1])

    assert found == ([] if row is None else [row])
    assert is_synced(bucket)


# ---- without waiting, from any thread


@pytest.mark.parametrize("row", [(*KEY, 7), None], ids=["put", "removed"])
def test_what_is_not_durable_is_not_shown_without_waiting(bucket, row):
    before = bucket.lookup_now([KEY, (2, 2)])
    put_unsynced(bucket, row)

    assert before == [(*KEY, 6), None]
    assert bucket.lookup_now([KEY]) is None
    assert bucket.lookup([KEY]) == [row]
    assert bucket.lookup_now([KEY, (2, 2)]) == [row, None]


def test_durable_rows_beside_those_that_are_not_are_shown(bucket):
    bucket.put(bucket.batch([((2, 2), (2, 2, 1))]), acks=0)

    assert bucket.lookup_now([KEY, (3, 3)]) == [(*KEY, 6), None]
    assert bucket.lookup_now([KEY, (2, 2)]) is None


def test_a_key_that_is_missing_waits_for_every_removal(bucket):
    put_unsynced(bucket, None)

    assert bucket.lookup_now([(3, 3)]) is None


def test_more_bytes_than_allowed_are_left_to_the_long_way(bucket):
    (size,) = map(len, bucket.tablet.values_now(bucket.keys([KEY]).to_list(), bytes_max=1000))

    assert bucket.lookup_now([KEY], bytes_max=size) == [(*KEY, 6)]
    assert bucket.lookup_now([KEY], bytes_max=size - 1) is None


def test_a_state_that_was_dropped_shows_nothing_without_waiting(bucket):
    bucket.tend(bucket.tablet.drop())

    assert bucket.lookup_now([KEY]) is None
