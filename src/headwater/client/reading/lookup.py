"""Rows of a primary-key table by their key, or by the start of it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.by_leader import ask_leaders
from headwater.client.reading.found_rows import FoundRows
from headwater.client.reading.prefixes import prefix_encoder
from headwater.client.reading.questions import Question, Questions, rounds_of
from headwater.client.reading.value_reader import ValueReader
from headwater.client.reading.view import View
from headwater.errors import (
    CorruptBatchError,
    HeadwaterError,
    NotPrimaryKeyTableError,
    RequestError,
    error_of_code,
)
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.rows.compacted.one_key import OneKeyEncoder
from headwater.rows.key_formats import primary_key_encoder
from headwater.rows.row_bytes import RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.limits import KEYS_MAX, PREFIXES_MAX
from headwater.wire.lookup import BucketFault
from headwater.wire.lookup_answer import (
    BucketFound,
    decode_lookup_answer,
    decode_prefix_lookup_answer,
)

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


class Lookups:
    """Look up rows of one table; made once for many lookups."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        if not table.is_keyed:
            raise NotPrimaryKeyTableError(
                f"{table.path} has no primary key.", hint="Scan it instead, with a filter."
            )
        self._cluster = cluster
        self._table = table
        self._key_names = table.descriptor.physical_primary_key
        self._encoder = primary_key_encoder(table.descriptor)
        self._questions = Questions(cluster, table)
        types = [table.schema.column(name).type for name in self._key_names]
        self._one_key = OneKeyEncoder.of(types) if self._questions.hashes_keys else None
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

        A key without a row is left out, or kept with nulls beside it, or given a row: that inserts
        one with the numbers that the table draws for its auto-increment columns.
        """
        needed = self._table.schema.primary_key
        if missing := [name for name in needed if name not in keys.schema.names]:
            raise RequestError(
                f"The keys have no column '{missing[0]}'.",
                hint=f"The primary key of {self._table.path} is {', '.join(needed)}.",
            )
        questions = self._single(keys)
        if questions is None:
            encoded = self._encoder.encode([keys.column(name) for name in self._key_names])
            questions = await self._questions.of(keys, encoded, inserts=insert_missing)
        kind = _INSERTING if insert_missing else _BY_KEY
        found = await self._found(questions, kind, columns=columns)
        return found.by_every_key(keys.select(needed)) if keep_missing else found.by_key()

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
        ) -> Mapping[TableBucket, BucketFound | HeadwaterError]:
            request = self._request([by_bucket[bucket] for bucket in buckets], kind)
            body = await self._cluster.call_node(node, kind.api, [request])
            return dict(map(self._answer, kind.decode(body)))

        what = f"Looking up rows of {self._table.path}"
        answers = await ask_leaders(self._cluster, list(by_bucket), ask, what=what)
        for bucket, answer in answers.items():
            if len(answer.counts) != len(by_bucket[bucket].keys):
                raise CorruptBatchError(
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
    ) -> tuple[TableBucket, BucketFound | HeadwaterError]:
        bucket = TableBucket(self._table.table_id, answer.bucket_id, answer.partition_id)
        if isinstance(answer, BucketFault):
            return bucket, error_of_code(answer.code, answer.message)
        return bucket, answer

    def _request(self, questions: Sequence[Question], kind: _Kind) -> bytes:
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
        if kind.inserts:
            request.insert_if_not_exists = True
            request.acks = self._cluster.settings.acks
            request.timeout_ms = int(self._cluster.settings.request_timeout_s * 1000)
        return request.SerializeToString()

    def _view(self, columns: Sequence[str] | None) -> tuple[View, ValueReader]:
        key = None if columns is None else tuple(columns)
        known = self._views.get(key)
        if known is None:
            view = View.of(self._table, columns=columns)
            known = self._views[key] = view, ValueReader(self._cluster, view)
        return known
