"""What a batch takes of memory while it is merged, and afterwards."""

import gc

import pytest

from headwater.errors import RecordTooLargeError
from headwater.model.schema import Column, Schema
from headwater.model.types import IntType, StringType
from headwater.rows.kv_batch import KvRecords
from headwater.tablet import merge as merging
from tests.tablet.keyed_bucket import Bucket, Versions

SCHEMA = Schema(
    columns=(
        Column(name="id", type=IntType(nullable=False)),
        Column(name="text", type=StringType()),
        Column(name="count", type=IntType()),
    ),
    primary_key=("id",),
)
TARGETS = (0, 2)


@pytest.fixture
def bucket():
    bucket = Bucket(Versions(SCHEMA))
    yield bucket
    bucket.close()


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("targets", [None, TARGETS])
def test_a_batch_is_freed_as_soon_as_it_is_written(bucket, targets):
    for number in range(3):
        bucket.put(bucket.batch([((number,), (number, None, 1))]), targets=targets)

    assert not [each for each in gc.get_objects() if isinstance(each, KvRecords)]


def test_a_batch_that_shows_a_large_row_too_often_is_refused(bucket, monkeypatch):
    monkeypatch.setattr(merging, "MERGED_BYTES_MAX", 10_000)
    bucket.put(bucket.batch([((1,), (1, "x" * 1_000, 0))]))
    many = bucket.batch([((1,), (1, None, number)) for number in range(20)])

    with pytest.raises(RecordTooLargeError, match="smaller batches"):
        bucket.put(many, targets=TARGETS)

    assert bucket.lookup([(1,)]) == [(1, "x" * 1_000, 0)]


def test_a_full_row_may_replace_a_large_one_as_often_as_it_likes(bucket, monkeypatch):
    monkeypatch.setattr(merging, "MERGED_BYTES_MAX", 10_000)
    bucket.put(bucket.batch([((1,), (1, "x" * 1_000, 0))]))

    bucket.put(bucket.batch([((1,), (1, "y", number)) for number in range(20)]))

    assert bucket.lookup([(1,)]) == [(1, "y", 19)]
