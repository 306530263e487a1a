"""The short way to the rows of a few keys: in the caller's thread, without an event loop.

A caller that blocks would cross to the loop's thread and back for each key, and one key needs
neither Arrow nor batches. Here its values become bytes, and the row's bytes become values, with
plain Python; in between is a call into the server of this process, or a request over a connection
of the caller's own. Whatever is unusual is left to the long way, which finds leaders, waits,
retries and says what is wrong: keys that are not plain values, rows that are not durable yet,
partitions and schemas that nobody has asked for, and every fault. None says so, everywhere here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.cluster.blocking import BlockingConnections
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import DirectReads
from headwater.cluster.router import TableKeys
from headwater.errors import HeadwaterError, InvalidPartitionError
from headwater.model import DataType, TableBucket, TableInfo
from headwater.model.arrow import arrow_schema
from headwater.model.path import check_partition_value, partition_name
from headwater.model.types import BigIntType, CharType, IntType, StringType
from headwater.rows.buckets import BucketFunction, fluss_bucket
from headwater.rows.compacted.one_row import OneKeyEncoder, OneRowDecoder
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.lookup import decode_few_values
from headwater.wire.messages import encode_columns

SHORT_KEYS_MAX = 16
"""Keys that are few; more are looked up together, the long way."""
PATIENCE_S = 5.0
"""A server that takes longer is asked again the long way, which has deadlines."""
_ID_BYTES = 2
_LOOKUP = API_OF_REQUEST[pb.LookupRequest]
_HASHED = (BucketFunction.FLUSS, BucketFunction.FLUSS_UNSIGNED)
# Partition columns whose values are the text of the partition as they are.
_PARTITION_KINDS: dict[type[DataType], type] = {
    StringType: str,
    CharType: str,
    IntType: int,
    BigIntType: int,
}

Asked = Sequence[tuple[TableBucket, Sequence[bytes]]]
Row = dict[str, object]


class ShortWay:
    """Ask for the values of a few keys of one table, in the caller's thread."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        self._cluster = cluster
        self._table_id = table.table_id
        self.keys_max = min(SHORT_KEYS_MAX, cluster.settings.lookup_keys_max)
        self._timeout_s = min(PATIENCE_S, cluster.settings.request_timeout_s)

    def values(
        self, asked: Asked, *, may_wait: bool, columns: Sequence[int] = ()
    ) -> list[list[bytes | None]] | None:
        """Return the value of each key in each bucket, with at least these columns.

        Only who `may_wait` is answered by another process: others may be on an event loop.
        """
        if self._cluster.is_closed:
            return None
        if self._cluster.reads is not None:
            return self._in_process(self._cluster.reads, asked)
        if may_wait and self._cluster.blocking is not None:
            return self._over_wire(self._cluster.blocking, asked, columns)
        return None

    def _in_process(self, reads: DirectReads, asked: Asked) -> list[list[bytes | None]] | None:
        answers = []
        for bucket, keys in asked:
            values = reads.lookup_now(bucket, keys)
            if values is None:
                return None
            answers.append(values)
        return answers

    def _over_wire(
        self, blocking: BlockingConnections, asked: Asked, columns: Sequence[int]
    ) -> list[list[bytes | None]] | None:
        leaders = {self._cluster.leader_address(bucket) for bucket, _ in asked}
        address = leaders.pop() if len(leaders) == 1 else None
        if address is None:
            return None
        request = self._request(asked, columns)
        try:
            body = blocking.exchange(address, _LOOKUP, [request], timeout_s=self._timeout_s)
            found = None if body is None else decode_few_values(body)
        except HeadwaterError:
            return None
        if found is None:
            return None
        answers = [found.get((bucket.partition_id, bucket.bucket), []) for bucket, _ in asked]
        are_whole = all(
            len(values) == len(keys) for values, (_, keys) in zip(answers, asked, strict=True)
        )
        return answers if are_whole else None

    def _request(self, asked: Asked, columns: Sequence[int]) -> bytes:
        buckets = [
            pb.LookupBucketRequest(
                bucket_id=bucket.bucket, partition_id=bucket.partition_id, keys=keys
            )
            for bucket, keys in asked
        ]
        request = pb.LookupRequest(table_id=self._table_id, buckets_req=buckets)
        if columns:
            request.columns = encode_columns(columns)
        return request.SerializeToString()


@dataclass(frozen=True, slots=True)
class _KeyColumns:
    """Say which values of a key make the key in bytes, its bucket and its partition."""

    names: tuple[str, ...]
    key_at: tuple[int, ...]
    bucket_at: tuple[int, ...]
    partitions: tuple[tuple[int, type], ...]


@dataclass(frozen=True, slots=True)
class _Version:
    """Know how to read rows of one version of the schema."""

    decoder: OneRowDecoder
    sources: tuple[int | None, ...] | None
    """Where the columns of today stand in such a row; None if they are the same."""


class OneRowReader:
    """Find one row by plain values of its key; made once for many."""

    def __init__(
        self, cluster: Cluster, table: TableInfo, short: ShortWay, encoders: "_Encoders"
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._short = short
        self._columns = encoders.columns
        self._key = encoders.key
        self._bucket_key = encoders.bucket_key
        self._is_signed = encoders.is_signed
        self._names = table.schema.names
        self._arrow = arrow_schema(table.schema)
        self._versions: dict[int, _Version] = {}
        self._buckets: dict[tuple[int | None, int], TableBucket] = {}

    @classmethod
    def of(cls, cluster: Cluster, table: TableInfo, short: ShortWay) -> "OneRowReader | None":
        """Return a reader, or None for a table whose keys or rows are not plain enough."""
        encoders = _encoders(table)
        decoder = OneRowDecoder.of([each.type for each in table.schema.columns])
        if encoders is None or decoder is None:
            return None
        return cls(cluster, table, short, encoders)

    def find(self, key: object, *, may_wait: bool) -> list[Row] | None:
        """Return the row of a key in a list, an empty one if there is no such row.

        1. the key in bytes, and its bucket  2. the row in bytes  3. its values
        """
        placed = self._placed(key)
        if placed is None:
            return None
        bucket, encoded = placed
        answers = self._short.values([(bucket, [encoded])], may_wait=may_wait)
        if answers is None:
            return None
        value = answers[0][0]
        return [] if value is None else self._rows(value)

    def find_all(self, keys: Sequence[object]) -> pa.Table | None:
        """Return the rows of a few keys in their order; keys without a row are left out."""
        if len(set(map(type, keys))) != 1 or len(keys) > self._short.keys_max:
            return None
        by_bucket: dict[TableBucket, list[bytes]] = {}
        places: list[tuple[TableBucket, int]] = []
        for key in keys:
            placed = self._placed(key)
            if placed is None:
                return None
            asked = by_bucket.setdefault(placed[0], [])
            places.append((placed[0], len(asked)))
            asked.append(placed[1])
        answers = self._short.values(list(by_bucket.items()), may_wait=True)
        if answers is None:
            return None
        found = dict(zip(by_bucket, answers, strict=True))
        values = [found[bucket][at] for bucket, at in places]
        return self._table_of([value for value in values if value is not None])

    def _table_of(self, values: Sequence[bytes]) -> pa.Table | None:
        version = self._versions.get(self._table.schema_id) or self._learn(self._table.schema_id)
        if version is None:
            return None
        rows = []
        for value in values:
            # Rows of other versions are left to those who have columns of them.
            is_current = int.from_bytes(value[:_ID_BYTES], "little") == self._table.schema_id
            row = version.decoder.values(value[_ID_BYTES:]) if is_current else None
            if row is None:
                return None
            rows.append(row)
        columns = version.decoder.columns_of(rows)
        return None if columns is None else pa.Table.from_arrays(columns, schema=self._arrow)

    def _placed(self, key: object) -> tuple[TableBucket, bytes] | None:
        """Return the bucket of a key, and the key in bytes."""
        given = self._given(key)
        if given is None:
            return None
        encoded = self._key.encode_plain([given[at] for at in self._columns.key_at])
        if encoded is None:
            return None
        bucket = self._bucket(given, encoded)
        return None if bucket is None else (bucket, encoded)

    def _given(self, key: object) -> Sequence[object] | None:
        """Return the values of a key in the order of its columns."""
        names = self._columns.names
        if isinstance(key, Mapping):
            if type(key) is not dict or len(key) != len(names):
                return None
            return [key.get(name) for name in names]
        if type(key) is tuple:
            return key if len(key) == len(names) else None
        return (key,) if len(names) == 1 else None

    def _bucket(self, given: Sequence[object], encoded: bytes) -> TableBucket | None:
        partition_id = None
        if self._columns.partitions:
            partition_id = self._partition_id(given)
            if partition_id is None:
                return None
        hashed: bytes | None = encoded
        if self._bucket_key is not None:
            hashed = self._bucket_key.encode_plain([given[at] for at in self._columns.bucket_at])
        if hashed is None:
            return None
        number = fluss_bucket(hashed, self._table.bucket_count, signed=self._is_signed)
        bucket = self._buckets.get((partition_id, number))
        if bucket is None:
            bucket = TableBucket(self._table.table_id, number, partition_id)
            self._buckets[partition_id, number] = bucket
        return bucket

    def _partition_id(self, given: Sequence[object]) -> int | None:
        texts = []
        for at, kind in self._columns.partitions:
            if type(given[at]) is not kind:
                return None
            texts.append(str(given[at]))
        try:
            name = partition_name(map(check_partition_value, texts))
        except InvalidPartitionError:
            return None
        return self._cluster.known_partition(self._table, name)

    def _rows(self, value: bytes) -> list[Row] | None:
        schema_id = int.from_bytes(value[:_ID_BYTES], "little")
        version = self._versions.get(schema_id) or self._learn(schema_id)
        plain = None if version is None else version.decoder.plain(value[_ID_BYTES:])
        if version is None or plain is None:
            return None
        if version.sources is not None:
            plain = [None if at is None else plain[at] for at in version.sources]
        return [dict(zip(self._names, plain, strict=True))]

    def _learn(self, schema_id: int) -> _Version | None:
        schema = self._cluster.known_schema(self._table, schema_id)
        if schema is None:
            return None
        decoder = OneRowDecoder.of([each.type for each in schema.columns])
        if decoder is None:
            return None
        position_of = {each.column_id: at for at, each in enumerate(schema.columns)}
        sources = tuple(position_of.get(each.column_id) for each in self._table.schema.columns)
        is_same = sources == tuple(range(len(schema.columns)))
        version = self._versions[schema_id] = _Version(decoder, None if is_same else sources)
        return version


@dataclass(frozen=True, slots=True)
class _Encoders:
    """Write the keys of one table, and what their buckets are found by."""

    columns: _KeyColumns
    key: OneKeyEncoder
    bucket_key: OneKeyEncoder | None
    """None if that is the key."""
    is_signed: bool


def _encoders(table: TableInfo) -> _Encoders | None:
    descriptor, schema = table.descriptor, table.schema
    keys = TableKeys.of(descriptor)
    if keys is None or keys.function not in _HASHED:
        return None
    names = descriptor.physical_primary_key
    partitions = []
    for name in descriptor.partition_keys:
        kind = _PARTITION_KINDS.get(type(schema.column(name).type))
        if kind is None:
            return None
        partitions.append((schema.primary_key.index(name), kind))
    key = OneKeyEncoder.of([schema.column(name).type for name in names])
    bucket_key = OneKeyEncoder.of([schema.column(name).type for name in keys.names])
    if key is None or bucket_key is None:
        return None
    columns = _KeyColumns(
        schema.primary_key,
        tuple(map(schema.primary_key.index, names)),
        tuple(map(schema.primary_key.index, keys.names)),
        tuple(partitions),
    )
    is_signed = keys.function is BucketFunction.FLUSS
    return _Encoders(columns, key, None if keys.names == names else bucket_key, is_signed)
