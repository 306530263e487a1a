"""Writes of one client take effect in the order in which they came."""

import asyncio

from headwater.model.schema import Column, Schema
from headwater.model.types import IntType, StringType
from headwater.tablet.pk_tablet import PutRules
from tests.tablet.keyed_bucket import Bucket, Versions

SCHEMA = Schema(
    columns=(
        Column(name="id", type=IntType(nullable=False)),
        Column(name="text", type=StringType()),
    ),
    primary_key=("id",),
)


def test_a_small_batch_does_not_overtake_a_large_one_of_its_writer():
    bucket = Bucket(Versions(SCHEMA), is_stepped=True)
    large = bucket.batch([((1,), (1, "x" * 100_000))], writer_id=5, sequence=0)
    small = bucket.batch([((1,), (1, "last"))], writer_id=5, sequence=1)

    async def both() -> list[int]:
        puts = [bucket.tablet.put(each, acks=-1, rules=PutRules()) for each in (large, small)]
        return [receipt.end_offset for receipt in await asyncio.gather(*puts)]

    ends = bucket.tend(both())

    assert ends == [1, 3]
    assert bucket.lookup([(1,)]) == [(1, "last")]
    bucket.close()
