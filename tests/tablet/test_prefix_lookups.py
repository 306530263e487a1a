"""Keys are found by any start of their bytes, at once where that is the bucket key."""

import pytest

from headwater.model.schema import Column, Schema
from headwater.model.types import IntType, StringType
from tests.tablet.keyed_bucket import Bucket, Versions

NAMES = ("shop", "aisle", "shelf")
SCHEMA = Schema(
    columns=(
        Column(name="shop", type=StringType(nullable=False)),
        Column(name="aisle", type=IntType(nullable=False)),
        Column(name="shelf", type=IntType(nullable=False)),
    ),
    primary_key=NAMES,
)
ROWS = [("north", 1, 1), ("north", 1, 2), ("north", 2, 1), ("nor", 1, 1), ("south", 1, 1)]


@pytest.fixture(params=[("shop",), ("shop", "aisle"), NAMES], ids=len)
def bucket(request):
    bucket = Bucket(Versions(SCHEMA, bucket_keys=request.param))
    bucket.put(bucket.batch([(row, row) for row in ROWS]))
    yield bucket
    bucket.close()


def found(bucket, prefix):
    return sorted(bucket.prefix_lookup(prefix))


def test_whole_columns_are_a_prefix(bucket):
    assert found(bucket, b"\x05north") == ROWS[:3]
    assert found(bucket, b"\x05north\x01") == ROWS[:2]
    assert found(bucket, b"\x03nor") == [ROWS[3]]


def test_a_part_of_a_column_is_a_prefix_too(bucket):
    assert found(bucket, b"\x05nor") == ROWS[:3]
    assert found(bucket, b"\x05") == [*ROWS[:3], ROWS[4]]


def test_a_whole_key_finds_itself(bucket):
    assert found(bucket, b"\x05north\x02\x01") == [ROWS[2]]


def test_nothing_is_the_start_of_everything(bucket):
    assert found(bucket, b"") == sorted(ROWS)


def test_what_no_key_begins_with_finds_nothing(bucket):
    assert found(bucket, b"\x04east") == found(bucket, b"\x05north\x03") == []
