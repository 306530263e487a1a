"""Keys to look up, shared out to the buckets that hold their rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.routing import Router, Share
from headwater.errors import PartitionMissingError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.rows.bucketing import BucketFunction
from headwater.rows.one_bucket import fluss_bucket
from headwater.rows.row_bytes import Longs, RowBytes
from headwater.wire.limits import LOOKUPS_MAX

_FIRST = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Hold keys to look up in one bucket, and where the caller has them."""

    bucket: TableBucket
    keys: list[bytes]
    places: Longs


class Questions:
    """Find the buckets of keys of one table; made once for many lookups."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        self._cluster = cluster
        self._table = table
        self._router = Router.of(table.descriptor)
        keys = self._router.bucket_keys
        self._is_signed = keys is not None and keys.function is BucketFunction.FLUSS
        self.hashes_keys = (
            keys is not None
            and not table.is_partitioned
            and keys.function in (BucketFunction.FLUSS, BucketFunction.FLUSS_UNSIGNED)
            and keys.names == table.descriptor.physical_primary_key
        )

    async def of(
        self, batch: pa.RecordBatch, encoded: RowBytes, *, inserts: bool
    ) -> list[Question]:
        """Return the keys of each bucket; a partition that is not there has no rows to find."""
        if batch.num_rows == 1 and self.hashes_keys:
            # What the router would find, for a fraction of its time.
            (key,) = encoded.to_list()
            return [self.of_one(key)]
        questions = []
        for share in self._router.route(batch):
            try:
                bucket = await self._bucket(share)
            except PartitionMissingError:
                if inserts:
                    raise
                continue
            places = np.arange(batch.num_rows) if share.rows is None else share.rows
            chosen = encoded if share.rows is None else encoded.take(places)
            # By way of NumPy in a tenth of the time.
            keys = chosen.to_arrow().to_numpy(zero_copy_only=False).tolist()
            questions.append(Question(bucket, keys, places))
        return questions

    def of_one(self, key: bytes) -> Question:
        """Return the question for a key of a table whose keys lead to buckets by themselves."""
        assert self.hashes_keys
        number = fluss_bucket(key, self._table.bucket_count, signed=self._is_signed)
        return Question(TableBucket(self._table.table_id, number), [key], _FIRST)

    async def _bucket(self, share: Share) -> TableBucket:
        assert share.bucket is not None, "a primary-key table has a bucket key"
        partition_id = None
        if share.partition is not None:
            partition_id = await self._cluster.partition_id(self._table, share.partition)
        return TableBucket(self._table.table_id, share.bucket, partition_id)


def rounds_of(
    questions: Sequence[Question], *, keys_max: int, total_max: int
) -> list[list[Question]]:
    """Split what is too much for one request into several, each with as many buckets as it may."""
    keys_max = min(keys_max, total_max)
    count = max((len(each.keys) for each in questions), default=0)
    if len(questions) == 1 and count <= keys_max:
        return [list(questions)]
    rounds: list[list[Question]] = []
    for at in range(0, count, keys_max):
        left = 0
        for each in questions:
            keys = each.keys[at : at + keys_max]
            if not keys:
                continue
            if len(keys) > left or len(rounds[-1]) == LOOKUPS_MAX:
                rounds.append([])
                left = total_max
            left -= len(keys)
            rounds[-1].append(Question(each.bucket, keys, each.places[at : at + keys_max]))
    return rounds
