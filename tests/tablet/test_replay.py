"""What a state needs of its log that no snapshot holds yet."""

from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType
from tests.tablet.keyed_bucket import Bucket, Versions

NUMBERED = Schema(
    columns=(
        Column(name="key", type=IntType(nullable=False)),
        Column(name="id", type=BigIntType()),
    ),
    primary_key=("key",),
    auto_increment=("id",),
)


def test_numbers_that_were_given_after_a_snapshot_are_not_given_again():
    bucket = Bucket(Versions(NUMBERED))
    for key in (1, 2, 3):
        bucket.put(bucket.batch([((key,), (key, None))]), targets=(0,))
        if key == 1:
            bucket.tend(bucket.upkeep.snapshot())

    bucket.crash(lambda _change: None)
    bucket.put(bucket.batch([((4,), (4, None))]), targets=(0,))

    assert bucket.replayed_from == 1
    assert sorted(bucket.scan()) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    bucket.close()
