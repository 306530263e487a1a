"""Look up rows of a primary-key table by their key, or by the start of it.

Keys are shared out to the buckets that hold their rows, each leader is asked for many at once, and
what was found is put in the order of what was asked for.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.cluster.leaders import ask_leaders
from headwater.cluster.router import Router, Share
from headwater.config.options import DATALAKE_FORMAT, KV_FORMAT_VERSION, LakeFormat
from headwater.model import TableBucket, TableInfo
from headwater.read.filters import RowView
from headwater.read.short import OneRowReader, ShortWay
from headwater.read.values import ValueReader
from headwater.rows.buckets import BucketFunction, fluss_bucket
from headwater.rows.compacted.coders import KeyEncoder
from headwater.rows.compacted.one_row import OneKeyEncoder
from headwater.rows.keys import FIRST_KV_FORMAT, Encoder, primary_key_encoder
from headwater.rows.row_bytes import Longs, RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.limits import KEYS_MAX, LOOKUPS_MAX, PREFIXES_MAX
from headwater.wire.lookup import (
    BucketFault,
    BucketFound,
    decode_lookup_answer,
    decode_prefix_lookup_answer,
)
from headwater.wire.messages import encode_columns

# What a prefix of a key has to hold, so that its bucket can be found.

_LAKE_KEYS = (LakeFormat.PAIMON, LakeFormat.ICEBERG)


def prefix_encoder(table: TableInfo, names: Sequence[str]) -> tuple[tuple[str, ...], Encoder]:
    """Return the key columns of a prefix in order, and what writes them in bytes.

    A prefix has all partition columns, and the first columns of the rest of the key, with the
    bucket key among them.
    """
    descriptor = table.descriptor
    if not table.is_keyed:
        raise errors.NotPrimaryKeyTableError(f"{table.path} has no primary key.")
    key = descriptor.physical_primary_key
    bucket_key = descriptor.bucket_keys or key
    count = len([name for name in names if name not in descriptor.partition_keys])
    missing = [name for name in descriptor.partition_keys if name not in names]
    is_start = set(key[:count]) | set(descriptor.partition_keys) == set(names)
    if missing or not is_start or not set(bucket_key) <= set(key[:count]):
        needed = ", ".join((*descriptor.partition_keys, *bucket_key))
        raise errors.RequestError(
            f"Rows of {table.path} cannot be found by {', '.join(names) or 'nothing'}.",
            hint=f"A prefix needs {needed}, and may go on in the order {', '.join(key)}.",
        )
    version = KV_FORMAT_VERSION.of(descriptor.properties) or FIRST_KV_FORMAT
    if DATALAKE_FORMAT.of(descriptor.properties) in _LAKE_KEYS and version == FIRST_KV_FORMAT:
        raise errors.UnsupportedError(
            f"The keys of {table.path} are written so that they have no prefixes.",
            hint="Create the table with 'table.kv.format-version' 2.",
        )
    types = [table.schema.column(name).type for name in key[:count]]
    return key[:count], KeyEncoder.of(types)


# Keys to look up, shared out to the buckets that hold their rows.

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
                partition_id = await self._partition_id(share)
            except errors.PartitionMissingError:
                if inserts:
                    raise
                continue
            questions.append(self._question(share, encoded, partition_id))
        return questions

    def known(self, batch: pa.RecordBatch, encoded: RowBytes) -> list[Question] | None:
        """Return the keys of each bucket; None if the id of a partition is not known."""
        questions = []
        for share in self._router.route(batch):
            partition_id = None
            if share.partition is not None:
                partition_id = self._cluster.known_partition(self._table, share.partition)
                if partition_id is None:
                    return None
            questions.append(self._question(share, encoded, partition_id))
        return questions

    def _question(self, share: Share, encoded: RowBytes, partition_id: int | None) -> Question:
        assert share.bucket is not None, "a primary-key table has a bucket key"
        places = np.arange(len(encoded)) if share.rows is None else share.rows
        chosen = encoded if share.rows is None else encoded.take(places)
        # By way of NumPy in a tenth of the time.
        keys = chosen.to_arrow().to_numpy(zero_copy_only=False).tolist()
        bucket = TableBucket(self._table.table_id, share.bucket, partition_id)
        return Question(bucket, keys, places)

    def of_one(self, key: bytes) -> Question:
        """Return the question for a key of a table whose keys lead to buckets by themselves."""
        assert self.hashes_keys
        number = fluss_bucket(key, self._table.bucket_count, signed=self._is_signed)
        return Question(TableBucket(self._table.table_id, number), [key], _FIRST)

    async def _partition_id(self, share: Share) -> int | None:
        if share.partition is None:
            return None
        return await self._cluster.partition_id(self._table, share.partition)


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


# Rows that were found, put in the order of what was asked for.


class FoundRows:
    """Gather rows, and for each the place of the key or prefix that it was found by."""

    def __init__(self, view: RowView) -> None:
        self._view = view
        self._rows: list[pa.RecordBatch] = []
        self._places: list[Longs] = []

    def add(self, rows: pa.RecordBatch, places: Longs) -> None:
        """Take rows and the place of each."""
        if rows.num_rows:
            self._rows.append(self._view.given(rows))
            self._places.append(places)

    def by_key(self) -> pa.Table:
        """Return at most one row for each key, in the order of the keys."""
        return _in_order(self._table(self._view.schema), self._all_places())

    def by_every_key(self, keys: pa.RecordBatch) -> pa.Table:
        """Return exactly one row for each key: what was found, or the key itself and nulls."""
        names = keys.schema.names
        # A missing row holds nulls in columns that otherwise have none.
        schema = pa.schema(
            [
                field.with_nullable(field.nullable or field.name not in names)
                for field in self._view.schema
            ]
        )
        table, places = self._table(schema), self._all_places()
        if len(places) == keys.num_rows:
            return _in_order(table, places)
        sources = np.full(keys.num_rows, -1, np.int64)
        sources[places] = np.arange(len(places))
        found = pa.array(sources, mask=sources < 0)
        columns = [
            keys.column(field.name) if field.name in names else table.column(field.name).take(found)
            for field in schema
        ]
        return pa.table(columns, schema=schema)

    def by_prefix(self) -> pa.Table:
        """Return all rows, in the order of the prefixes."""
        return _in_order(self._table(self._view.schema), self._all_places())

    def _table(self, schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(self._rows, schema=self._view.schema)
        return table if schema is self._view.schema else table.cast(schema)

    def _all_places(self) -> Longs:
        if len(self._places) == 1:
            return self._places[0]
        return np.concatenate(self._places) if self._places else np.empty(0, np.int64)


def _in_order(table: pa.Table, places: Longs) -> pa.Table:
    if len(places) < 2 or bool((places[1:] >= places[:-1]).all()):  # noqa: PLR2004
        return table
    return table.take(pa.array(np.argsort(places, kind="stable")))


# Rows of a primary-key table by their key, or by the start of it.

_ROUNDS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class _Kind:
    """Tell a lookup by key from one by prefix."""

    api: Api
    decode: Callable[[memoryview], list[BucketFound | BucketFault]]
    inserts: bool = False


_BY_KEY = _Kind(API_OF_REQUEST[pb.LookupRequest], decode_lookup_answer)
_INSERTING = _Kind(API_OF_REQUEST[pb.LookupRequest], decode_lookup_answer, inserts=True)
_BY_PREFIX = _Kind(API_OF_REQUEST[pb.PrefixLookupRequest], decode_prefix_lookup_answer)


class TableLookups:
    """Look up rows of one table; made once for many lookups."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        if not table.is_keyed:
            raise errors.NotPrimaryKeyTableError(
                f"{table.path} has no primary key.", hint="Scan it instead, with a filter."
            )
        self._cluster = cluster
        self._table = table
        self._key_names = table.descriptor.physical_primary_key
        self._encoder = primary_key_encoder(table.descriptor)
        self._questions = Questions(cluster, table)
        types = [table.schema.column(name).type for name in self._key_names]
        self._one_key = OneKeyEncoder.of(types) if self._questions.hashes_keys else None
        self._views: dict[tuple[str, ...] | None, tuple[RowView, ValueReader]] = {}
        self._short = ShortWay(cluster, table)
        self.one = OneRowReader.of(cluster, table, self._short)
        """Finds one row by plain values; None for a table whose keys or rows are not plain."""

    async def lookup(
        self,
        keys: pa.RecordBatch,
        *,
        columns: Sequence[str] | None = None,
        keep_missing: bool = False,
        insert_missing: bool = False,
    ) -> pa.Table:
        """Return the rows of keys, in their order.

        A key without a row is left out, or kept with nulls beside it, or given a row: that inserts
        one with the numbers that the table draws for its auto-increment columns.
        """
        self._check_columns(keys)
        questions = self._single(keys)
        if questions is None:
            encoded = self._encoder.encode([keys.column(name) for name in self._key_names])
            questions = await self._questions.of(keys, encoded, inserts=insert_missing)
        kind = _INSERTING if insert_missing else _BY_KEY
        found = await self._found(questions, kind, columns=columns)
        return self._given(found, keys, keep_missing=keep_missing)

    def lookup_now(
        self,
        keys: pa.RecordBatch,
        *,
        columns: Sequence[str] | None = None,
        keep_missing: bool = False,
    ) -> pa.Table | None:
        """Return the rows of a few keys from the caller's thread; None leaves it to `lookup`."""
        if keys.num_rows > self._short.keys_max:
            return None
        self._check_columns(keys)
        questions = self._single(keys)
        if questions is None:
            encoded = self._encoder.encode([keys.column(name) for name in self._key_names])
            questions = self._questions.known(keys, encoded)
        found = None if questions is None else self._found_now(questions, columns=columns)
        return None if found is None else self._given(found, keys, keep_missing=keep_missing)

    def _found_now(
        self, questions: Sequence[Question], *, columns: Sequence[str] | None
    ) -> FoundRows | None:
        view, reader = self._view(columns)
        asked = [(each.bucket, each.keys) for each in questions]
        answers: list[list[bytes | None]] | None = []
        if asked:
            answers = self._short.values(asked, may_wait=True, columns=view.column_ids)
        if answers is None:
            return None
        values = [value for answer in answers for value in answer]
        held = RowBytes.of([value for value in values if value is not None])
        versions = reader.known(held)
        if versions is None:
            return None
        found = FoundRows(view)
        if questions:
            places = np.concatenate([each.places for each in questions])
            is_held = np.array([value is not None for value in values], np.bool_)
            found.add(reader.read(held, versions), places[is_held])
        return found

    def _check_columns(self, keys: pa.RecordBatch) -> None:
        needed = self._table.schema.primary_key
        if missing := [name for name in needed if name not in keys.schema.names]:
            raise errors.RequestError(
                f"The keys have no column '{missing[0]}'.",
                hint=f"The primary key of {self._table.path} is {', '.join(needed)}.",
            )

    def _given(self, found: FoundRows, keys: pa.RecordBatch, *, keep_missing: bool) -> pa.Table:
        if not keep_missing:
            return found.by_key()
        return found.by_every_key(keys.select(self._table.schema.primary_key))

    def _single(self, keys: pa.RecordBatch) -> list[Question] | None:
        """Return the question for a single key, where that can be had in no time."""
        if keys.num_rows != 1 or self._one_key is None:
            return None
        key = self._one_key.encode([keys.column(name) for name in self._key_names])
        return None if key is None else [self._questions.of_one(key)]

    async def prefix_lookup(
        self, prefixes: pa.RecordBatch, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows whose keys begin with the prefixes, in the order of these."""
        names, encoder = prefix_encoder(self._table, prefixes.schema.names)
        encoded = encoder.encode([prefixes.column(name) for name in names])
        questions = await self._questions.of(prefixes, encoded, inserts=False)
        found = await self._found(questions, _BY_PREFIX, columns=columns)
        return found.by_prefix()

    async def _found(
        self, questions: Sequence[Question], kind: _Kind, *, columns: Sequence[str] | None
    ) -> FoundRows:
        view, reader = self._view(columns)
        found = FoundRows(view)
        rounds = rounds_of(
            questions,
            keys_max=self._cluster.settings.lookup_keys_max,
            total_max=PREFIXES_MAX if kind is _BY_PREFIX else KEYS_MAX,
        )
        for at in range(0, len(rounds), _ROUNDS_AT_ONCE):
            together = rounds[at : at + _ROUNDS_AT_ONCE]
            if len(together) == 1:
                await self._ask(together[0], kind, reader=reader, found=found)
                continue
            # While one is decoded, the other is under way.
            await asyncio.gather(
                *(self._ask(each, kind, reader=reader, found=found) for each in together)
            )
        return found

    async def _ask(
        self, questions: Sequence[Question], kind: _Kind, *, reader: ValueReader, found: FoundRows
    ) -> None:
        by_bucket = {each.bucket: each for each in questions}

        async def ask(
            node: int, buckets: list[TableBucket]
        ) -> Mapping[TableBucket, BucketFound | errors.HeadwaterError]:
            asked = [by_bucket[bucket] for bucket in buckets]
            request = self._request(asked, kind, columns=reader.column_ids)
            body = await self._cluster.call_node(node, kind.api, [request])
            return dict(map(self._answer, kind.decode(body)))

        what = f"Looking up rows of {self._table.path}"
        answers = await ask_leaders(self._cluster, list(by_bucket), ask, what=what)
        for bucket, answer in answers.items():
            if len(answer.counts) != len(by_bucket[bucket].keys):
                raise errors.CorruptBatchError(
                    f"{bucket} was asked for {len(by_bucket[bucket].keys)} keys,"
                    f" and answered {len(answer.counts)}."
                )
        places = [np.repeat(by_bucket[each].places, answers[each].counts) for each in answers]
        # The rows of all buckets together: decoding a few takes as long as decoding many.
        values = RowBytes.joined([answer.values for answer in answers.values()])
        versions = await reader.prepare(values)
        found.add(reader.read(values, versions), np.concatenate(places))

    def _answer(
        self, answer: BucketFound | BucketFault
    ) -> tuple[TableBucket, BucketFound | errors.HeadwaterError]:
        bucket = TableBucket(self._table.table_id, answer.bucket_id, answer.partition_id)
        if isinstance(answer, BucketFault):
            return bucket, errors.error_of_code(answer.code, answer.message)
        return bucket, answer

    def _request(
        self, questions: Sequence[Question], kind: _Kind, *, columns: Sequence[int]
    ) -> bytes:
        # A PrefixLookupRequest is the beginning of a LookupRequest.
        request = pb.LookupRequest(
            table_id=self._table.table_id,
            buckets_req=[
                pb.LookupBucketRequest(
                    bucket_id=each.bucket.bucket,
                    partition_id=each.bucket.partition_id,
                    keys=each.keys,
                )
                for each in questions
            ],
        )
        if columns:
            request.columns = encode_columns(columns)
        if kind.inserts:
            request.insert_if_not_exists = True
            request.acks = self._cluster.settings.acks
            request.timeout_ms = int(self._cluster.settings.request_timeout_s * 1000)
        return request.SerializeToString()

    def _view(self, columns: Sequence[str] | None) -> tuple[RowView, ValueReader]:
        key = None if columns is None else tuple(columns)
        known = self._views.get(key)
        if known is None:
            view = RowView.of(self._table, columns=columns)
            known = self._views[key] = view, ValueReader(self._cluster, view)
        return known
