"""What writing and reading the rows of a primary-key table needs to know of the table."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.config.options import ChangelogImage, DeleteBehavior
from headwater.config.table_options import TableOptions
from headwater.errors import CorruptBatchError, InvalidTargetColumnError, SchemaMissingError
from headwater.kv.hashes import equal_keys
from headwater.kv.heap import Heap
from headwater.kv.merge.engine import Engine, engine_of
from headwater.kv.state import KvState
from headwater.kv.store import IdRange
from headwater.model import Schema, TableDescriptor
from headwater.model.arrow import arrow_schema
from headwater.rows.compacted import coders
from headwater.rows.compacted.one_row import OneKeyEncoder, OneRowDecoder, OneRowEncoder
from headwater.rows.keys import primary_key_decoder, primary_key_encoder, primary_key_format
from headwater.rows.message import arrow_codec
from headwater.rows.row_bytes import RowBytes

# What writing and reading the rows of a primary-key table needs to know of the table.

CODERS_KEPT = 64


class TableVersions(Protocol):
    """Be a catalog, as far as one table goes."""

    def latest(self) -> tuple[int, TableDescriptor]:
        """Return the current schema id and descriptor."""
        ...

    def schema(self, schema_id: int) -> Schema:
        """Return a schema that the table has or had."""
        ...

    def reserve_ids(self, count: int) -> int:
        """Take numbers for an auto-increment column and return the one before the first."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TableVersion:
    """Hold what one schema version of a table asks for."""

    schema_id: int
    schema: Schema
    arrow: pa.Schema
    options: TableOptions
    key_names: tuple[str, ...]
    partition_keys: tuple[str, ...]

    @property
    def key_positions(self) -> tuple[int, ...]:
        """Return where the columns of the key stand in the schema."""
        return tuple(map(self.schema.index_of, self.key_names))

    @property
    def image(self) -> ChangelogImage:
        """Return what the changelog shows."""
        return self.options.kv.changelog_image

    @property
    def codec(self) -> pa.Codec | None:
        """Return how changelog batches are compressed."""
        options = self.options
        return arrow_codec(options.compression, zstd_level=options.compression_zstd_level)


class KeyedTable:
    """Decode, encode and merge the rows of one table under all its schemas."""

    def __init__(self, versions: TableVersions) -> None:
        self._versions = versions
        self._decoder = lru_cache(CODERS_KEPT)(self._make_decoder)
        self._encoder = lru_cache(CODERS_KEPT)(self._make_encoder)
        self._one_decoder = lru_cache(CODERS_KEPT)(self._make_one_decoder)
        self._one_encoder = lru_cache(CODERS_KEPT)(self._make_one_encoder)
        self._engine = lru_cache(CODERS_KEPT)(self._make_engine)
        self._version = lru_cache(CODERS_KEPT)(_make_version)
        self._newest: tuple[TableDescriptor, TableVersion] | None = None
        _, descriptor = versions.latest()
        types = [descriptor.schema.column(name).type for name in descriptor.physical_primary_key]
        self._key_encoder = primary_key_encoder(descriptor)
        is_plain = primary_key_format(descriptor) is None
        self._one_key_encoder = OneKeyEncoder.of(types) if is_plain else None
        self._key_decoder = primary_key_decoder(descriptor)
        self.prefix_count = _prefix_count(descriptor)
        self._prefix_decoder = coders.KeyDecoder.of(types[: self.prefix_count])

    def latest(self) -> TableVersion:
        """Return the current version."""
        schema_id, descriptor = self._versions.latest()
        newest = self._newest
        if newest is not None and newest[0] is descriptor and newest[1].schema_id == schema_id:
            return newest[1]
        version = self._version(schema_id, _Hashed(descriptor))
        self._newest = (descriptor, version)
        return version

    @property
    def one_key_encoder(self) -> OneKeyEncoder | None:
        """Return what writes single keys, None if their types are left to the other encoder."""
        return self._one_key_encoder

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its id, or say that the table never had it."""
        latest_id, _ = self._versions.latest()
        if not 0 <= schema_id <= latest_id:
            raise SchemaMissingError(
                f"The table has schemas up to {latest_id}, not {schema_id}.",
                hint="Fetch the table's metadata again.",
            )
        return self._versions.schema(schema_id)

    def reserve_ids(self, count: int) -> int:
        """Take numbers for the auto-increment column."""
        return self._versions.reserve_ids(count)

    def engine(
        self, version: TableVersion, targets: tuple[int, ...] | None, *, overwrite: bool
    ) -> Engine:
        """Return the rules by which rows are merged."""
        return self._engine(version.schema_id, targets, overwrite)

    def targets(
        self, positions: tuple[int, ...] | None, *, schema_id: int, wanted: TableVersion
    ) -> tuple[int, ...] | None:
        """Return where columns stand in the wanted version that were named under a schema."""
        columns = self.schema(schema_id).columns
        if positions is None or schema_id == wanted.schema_id:
            return positions
        if outside := [at for at in positions if not 0 <= at < len(columns)]:
            raise InvalidTargetColumnError(
                f"There is no column number {outside[0]} among {len(columns)}."
            )
        named = {columns[at].column_id for at in positions}
        return tuple(
            at for at, column in enumerate(wanted.schema.columns) if column.column_id in named
        )

    def removing(self, version: TableVersion) -> Engine:
        """Return the rules by which the server itself removes rows."""
        options = replace(
            version.options.kv, merge_engine=None, delete_behavior=DeleteBehavior.ALLOW
        )
        schema = replace(version.schema, auto_increment=())
        return engine_of(schema, options, target_columns=None, overwrite=True)

    def decode(
        self,
        rows: RowBytes,
        schema_ids: npt.NDArray[np.int64],
        *,
        wanted: TableVersion,
        enforce_not_null: bool = True,
    ) -> pa.RecordBatch:
        """Decode rows that were written under any schemas, as rows of the wanted one."""
        if not len(schema_ids):
            return pa.RecordBatch.from_pylist([], schema=wanted.arrow)
        first = int(schema_ids[0])
        if (schema_ids == first).all():
            return self._decode(rows, first, wanted, enforce_not_null=enforce_not_null)
        distinct = np.unique(schema_ids)
        places = [np.flatnonzero(schema_ids == each) for each in distinct]
        parts = [
            self._decode(rows.take(at), int(each), wanted, enforce_not_null=enforce_not_null)
            for each, at in zip(distinct, places, strict=True)
        ]
        return concat(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def encode(self, rows: pa.RecordBatch, schema_id: int) -> RowBytes:
        """Encode rows of one schema."""
        if rows.num_rows == 1 and (one := self._one_encoder(schema_id)) is not None:
            return RowBytes.of([one.encode(rows.columns)])
        return self._encoder(schema_id).encode(rows.columns)

    def encode_keys(self, rows: pa.RecordBatch, names: Sequence[str]) -> RowBytes:
        """Encode the keys of rows."""
        columns = [rows.column(name) for name in names]
        if rows.num_rows == 1 and self._one_key_encoder is not None:
            key = self._one_key_encoder.encode(columns)
            if key is not None:
                return RowBytes.of([key])
        return self._key_encoder.encode(columns)

    def rows_of_keys(
        self, keys: RowBytes, version: TableVersion, *, partition: Mapping[str, str]
    ) -> pa.RecordBatch:
        """Return rows that have only their key and the values of their partition."""
        columns = dict(zip(version.key_names, self._key_decoder.decode(keys), strict=True))
        for name, text in partition.items():
            value = pa.scalar(text).cast(version.arrow.field(name).type)
            columns[name] = pa.repeat(value, len(keys))
        return pa.RecordBatch.from_arrays(
            [columns.get(field.name, pa.nulls(len(keys), field.type)) for field in version.arrow],
            schema=version.arrow,
        )

    def prefix_hashes(self, state: KvState, keys: RowBytes) -> npt.NDArray[np.uint64] | None:
        """Return the hashes by which keys are found by their prefix, where they are."""
        if state.prefixes is None:
            return None
        ends = self._prefix_decoder.prefix_ends(keys, self.prefix_count)
        return state.hash(RowBytes(keys.data, keys.starts, ends))

    def is_indexed(self, prefix: bytes) -> bool:
        """Tell whether a prefix is one of whole columns that keys are found by."""
        if not self.prefix_count:
            return False
        try:
            self._prefix_decoder.decode(RowBytes.of([prefix]))
        except CorruptBatchError:
            return False
        return True

    def check_keys(self, rows: pa.RecordBatch, keys: RowBytes, version: TableVersion) -> None:
        """Refuse rows whose key columns are not what the key says."""
        if not equal_keys(keys, self.encode_keys(rows, version.key_names)).all():
            raise CorruptBatchError(
                "A key does not fit the key columns of its row.",
                hint="The client that wrote the batch is at fault.",
            )

    def _decode(
        self, rows: RowBytes, schema_id: int, wanted: TableVersion, *, enforce_not_null: bool
    ) -> pa.RecordBatch:
        columns = self._decode_one(rows, schema_id) or self._decoder(schema_id).decode(
            rows, enforce_not_null=enforce_not_null
        )
        if schema_id == wanted.schema_id:
            return pa.RecordBatch.from_arrays(columns, schema=wanted.arrow)
        return coders.adapted(columns, self.schema(schema_id), wanted.schema)

    def _decode_one(self, rows: RowBytes, schema_id: int) -> list[pa.Array] | None:
        """Decode a row that comes alone; None if the decoder of many has to look at it."""
        if len(rows) != 1 or (one := self._one_decoder(schema_id)) is None:
            return None
        return one.decode(rows.to_list()[0])

    def _make_one_decoder(self, schema_id: int) -> OneRowDecoder | None:
        return OneRowDecoder.of([column.type for column in self.schema(schema_id).columns])

    def _make_one_encoder(self, schema_id: int) -> OneRowEncoder | None:
        return OneRowEncoder.of([column.type for column in self.schema(schema_id).columns])

    def _make_decoder(self, schema_id: int) -> coders.RowDecoder:
        return coders.decoder_of(self.schema(schema_id))

    def _make_encoder(self, schema_id: int) -> coders.RowEncoder:
        return coders.encoder_of(self.schema(schema_id))

    def _make_engine(
        self,
        schema_id: int,
        targets: tuple[int, ...] | None,
        overwrite: bool,  # noqa: FBT001
    ) -> Engine:
        version = self.latest()
        assert version.schema_id == schema_id
        return engine_of(
            version.schema, version.options.kv, target_columns=targets, overwrite=overwrite
        )


def concat(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Put batches of one schema behind each other."""
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts).combine_chunks()
    return (table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)])[0]


class _Hashed:
    """Compare a descriptor by identity, so that it can be the key of a cache."""

    __slots__ = ("value",)

    def __init__(self, value: TableDescriptor) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _make_version(schema_id: int, descriptor: _Hashed) -> TableVersion:
    table = descriptor.value
    return TableVersion(
        schema_id,
        table.schema,
        arrow_schema(table.schema),
        TableOptions.of(table.properties),
        table.physical_primary_key,
        table.partition_keys,
    )


def _prefix_count(descriptor: TableDescriptor) -> int:
    """Return how many key columns form the bucket key, or 0 where that is no true prefix."""
    key, bucket_key = descriptor.physical_primary_key, descriptor.bucket_keys
    is_prefix = 0 < len(bucket_key) < len(key) and key[: len(bucket_key)] == bucket_key
    # Keys in the form of a lake format have no prefixes.
    return len(bucket_key) if is_prefix and primary_key_format(descriptor) is None else 0


# Rows that expire by age: kept apart from much younger ones, as segments expire whole.

# Rows expire together with others that were written up to this part of their time before.
AGE_STEPS = 8


def age_span_ms(version: TableVersion) -> int | None:
    """Return how far apart in time rows of one segment may be written."""
    ttl_ms = version.options.kv.ttl_ms
    return ttl_ms and ttl_ms // AGE_STEPS


def seal_aged(heap: Heap, version: TableVersion, now_ms: int) -> None:
    """Let rows that are written now not lie together with much older ones."""
    span_ms, active = age_span_ms(version), heap.segments.get(heap.active)
    if span_ms is not None and active is not None and now_ms - active.oldest_ms > span_ms:
        heap.seal()


# Numbers for an auto-increment column, reserved in blocks.


class AutoIds:
    """Hand out numbers that no other bucket of the table hands out."""

    def __init__(self, reserve: Callable[[int], int], kept: IdRange | None = None) -> None:
        self._reserve = reserve
        self._ranges = deque([kept] if kept and kept.next_id <= kept.last_id else [])

    @property
    def range(self) -> IdRange | None:
        """Return what is left of the current block."""
        return self._ranges[0] if self._ranges else None

    def provide(self, count: int, version: TableVersion) -> None:
        """Make sure that this many numbers are at hand."""
        if not version.schema.auto_increment:
            return
        missing = count - sum(each.last_id - each.next_id + 1 for each in self._ranges)
        if missing > 0:
            block = version.options.kv.auto_increment_cache_size
            taken = -(-missing // block) * block
            before = self._reserve(taken)
            self._ranges.append(IdRange(before + 1, before + taken))

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Return the next numbers."""
        parts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        while count:
            first = self._ranges.popleft()
            last_id = min(first.last_id, first.next_id + count - 1)
            parts.append(np.arange(first.next_id, last_id + 1, dtype=np.int64))
            count -= last_id - first.next_id + 1
            if last_id < first.last_id:
                self._ranges.appendleft(IdRange(last_id + 1, first.last_id))
        return np.concatenate(parts)

    def skip(self, used: int) -> None:
        """Never hand out a number that was found in use, nor one before it in its block."""
        kept = [
            IdRange(max(each.next_id, used + 1), each.last_id)
            for each in self._ranges
            if each.last_id > used >= each.next_id - 1
        ]
        # A number of another block: that block was reserved later, and the rest of it is lost.
        self._ranges = deque(kept or [])
