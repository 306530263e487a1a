"""A look-up shows nothing that a loss of power could take back, however many keys it asks for."""

import pytest

from headwater.model.schema import Column, Schema
from headwater.model.types import IntType
from headwater.tablet.lookups import LOOP_KEYS_MAX, SCALAR_KEYS_MAX
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
