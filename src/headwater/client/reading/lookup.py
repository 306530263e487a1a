"""Rows of a primary-key table by their key, or by the start of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.bucket_keys import primary_key_encoder
from headwater.client.cluster import Cluster
from headwater.client.reading.by_leader import ask_leaders
from headwater.client.reading.found_rows import FoundRows
from headwater.client.reading.prefixes import prefix_encoder
from headwater.client.reading.value_reader import ValueReader
from headwater.client.reading.view import View
from headwater.client.routing import Router, Share
from headwater.errors import (
    CorruptBatchError,
    HeadwaterError,
    NotPrimaryKeyTableError,
    PartitionMissingError,
    RequestError,
    error_of_code,
)
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.rows.row_bytes import Longs, RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.lookup import BucketFault
from headwater.wire.lookup_answer import (
    BucketFound,
    decode_lookup_answer,
    decode_prefix_lookup_answer,
)

_LOOKUP = API_OF_REQUEST[pb.LookupRequest]
_PREFIX_LOOKUP = API_OF_REQUEST[pb.PrefixLookupRequest]
_ROUNDS_AT_ONCE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Hold keys to look up in one bucket, and where the caller has them."""

    bucket: TableBucket
    keys: list[bytes]
    places: Longs


class Lookups:
    """Look up rows of one table; made once for many lookups."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        if not table.is_keyed:
            raise NotPrimaryKeyTableError(
                f"{table.path} has no primary key.", hint="Scan it instead, with a filter."
            )
        self._cluster = cluster
        self._table = table
        self._router = Router.of(table.descriptor)
        self._key_names = table.descriptor.physical_primary_key
        self._encoder = primary_key_encoder(table.descriptor)
        self._views: dict[tuple[str, ...] | None, tuple[View, ValueReader]] = {}

    async def lookup(
        self,
        keys: pa.RecordBatch,
        *,
        columns: Sequence[str] | None = None,
        keep_missing: bool = False,
        insert_missing: bool = False,
    ) -> pa.Table:
        """Return the rows of keys, in their order.

        A key without a row is left out, or kept as a row of nulls, or given a row: that inserts
        one with the numbers that the table draws for its auto-increment columns.
        """
        self._check(keys, self._table.schema.primary_key)
        encoded = self._encoder.encode([keys.column(name) for name in self._key_names])
        questions = await self._questions(keys, encoded, raises=insert_missing)
        found = await self._found(questions, _LOOKUP, inserts=insert_missing, columns=columns)
        return found.by_key(keys.num_rows, keep_missing=keep_missing)

    async def prefix_lookup(
        self, prefixes: pa.RecordBatch, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows whose keys begin with the prefixes, in the order of these."""
        names, encoder = prefix_encoder(self._table, prefixes.schema.names)
        encoded = encoder.encode([prefixes.column(name) for name in names])
        questions = await self._questions(prefixes, encoded, raises=False)
        found = await self._found(questions, _PREFIX_LOOKUP, inserts=False, columns=columns)
        return found.by_prefix()

    def _check(self, keys: pa.RecordBatch, needed: Sequence[str]) -> None:
        if missing := [name for name in needed if name not in keys.schema.names]:
            raise RequestError(
                f"The keys have no column '{missing[0]}'.",
                hint=f"The primary key of {self._table.path} is {', '.join(needed)}.",
            )

    # ---- what to ask

    async def _questions(
        self, batch: pa.RecordBatch, encoded: RowBytes, *, raises: bool
    ) -> list[Question]:
        """Return the keys of each bucket; a partition that is not there has no rows."""
        questions = []
        for share in self._router.route(batch):
            try:
                bucket = await self._bucket(share)
            except PartitionMissingError:
                if raises:
                    raise
                continue
            places = np.arange(batch.num_rows) if share.rows is None else share.rows
            chosen = encoded if share.rows is None else encoded.take(places)
            questions.append(Question(bucket, chosen.to_arrow().to_pylist(), places))
        return questions

    async def _bucket(self, share: Share) -> TableBucket:
        assert share.bucket is not None, "a primary-key table has a bucket key"
        partition_id = None
        if share.partition is not None:
            partition_id = await self._cluster.partition_id(self._table, share.partition)
        return TableBucket(self._table.table_id, share.bucket, partition_id)

    def _rounds(self, questions: Sequence[Question]) -> list[list[Question]]:
        """Split what is too much for one request into several, each with all buckets."""
        size = self._cluster.settings.lookup_keys_max
        count = max((len(each.keys) for each in questions), default=0)
        if count <= size:
            return [list(questions)] if questions else []
        return [
            [
                Question(each.bucket, each.keys[at : at + size], each.places[at : at + size])
                for each in questions
                if at < len(each.keys)
            ]
            for at in range(0, count, size)
        ]

    # ---- asking

    async def _found(
        self,
        questions: Sequence[Question],
        api: Api,
        *,
        inserts: bool,
        columns: Sequence[str] | None,
    ) -> FoundRows:
        view, reader = self._view(columns)
        found = FoundRows(view)
        rounds = self._rounds(questions)
        if len(rounds) == 1:
            # The common case of few keys is spared the tasks.
            await self._ask(rounds[0], api, inserts=inserts, into=(reader, found))
            return found
        for at in range(0, len(rounds), _ROUNDS_AT_ONCE):
            # While one is decoded, the other is under way.
            await asyncio.gather(
                *(
                    self._ask(each, api, inserts=inserts, into=(reader, found))
                    for each in rounds[at : at + _ROUNDS_AT_ONCE]
                )
            )
        return found

    async def _ask(
        self,
        questions: Sequence[Question],
        api: Api,
        *,
        inserts: bool,
        into: tuple[ValueReader, FoundRows],
    ) -> None:
        by_bucket = {each.bucket: each for each in questions}

        async def ask(
            node: int, buckets: list[TableBucket]
        ) -> Mapping[TableBucket, BucketFound | HeadwaterError]:
            asked = [by_bucket[bucket] for bucket in buckets]
            request = self._request(asked, api, inserts=inserts)
            body = await self._cluster.call_node(node, api, [request.SerializeToString()])
            is_whole = api is _LOOKUP
            answers = decode_lookup_answer(body) if is_whole else decode_prefix_lookup_answer(body)
            return {
                TableBucket(self._table.table_id, each.bucket_id, each.partition_id): (
                    error_of_code(each.code, each.message)
                    if isinstance(each, BucketFault)
                    else each
                )
                for each in answers
            }

        what = f"Looking up rows of {self._table.path}"
        answers = await ask_leaders(self._cluster, list(by_bucket), ask, what=what)
        reader, found = into
        for bucket, answer in answers.items():
            question = by_bucket[bucket]
            if len(answer.counts) != len(question.keys):
                raise CorruptBatchError(
                    f"{bucket} was asked for {len(question.keys)} keys,"
                    f" and answered {len(answer.counts)}."
                )
            versions = await reader.prepare(answer.values)
            found.add(reader.read(answer.values, versions), question.places, answer.counts)

    def _request(
        self, questions: Sequence[Question], api: Api, *, inserts: bool
    ) -> pb.LookupRequest | pb.PrefixLookupRequest:
        settings = self._cluster.settings
        if api is _PREFIX_LOOKUP:
            prefixes = [
                pb.PrefixLookupBucketRequest(
                    bucket_id=each.bucket.bucket,
                    partition_id=each.bucket.partition_id,
                    keys=each.keys,
                )
                for each in questions
            ]
            return pb.PrefixLookupRequest(table_id=self._table.table_id, buckets_req=prefixes)
        keys = [
            pb.LookupBucketRequest(
                bucket_id=each.bucket.bucket,
                partition_id=each.bucket.partition_id,
                keys=each.keys,
            )
            for each in questions
        ]
        request = pb.LookupRequest(table_id=self._table.table_id, buckets_req=keys)
        if inserts:
            request.insert_if_not_exists = True
            request.acks = settings.acks
            request.timeout_ms = int(settings.request_timeout_s * 1000)
        return request

    def _view(self, columns: Sequence[str] | None) -> tuple[View, ValueReader]:
        key = None if columns is None else tuple(columns)
        known = self._views.get(key)
        if known is None:
            view = View.of(self._table, columns=columns)
            known = self._views[key] = view, ValueReader(self._cluster, view)
        return known
