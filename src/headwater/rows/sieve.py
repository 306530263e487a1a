"""Rows and columns taken out of what is stored, for readers who may not see all of it.

Whoever reads a log counts rows by their place in a batch, so rows cannot just be left out. A reader
that knows of sparse batches gets the rows that are left with their offsets; any other gets a batch
for each run of them, as if the rows between had been pruned.

What is left of a changelog is the changelog of the rows that are left: an update that takes a row
out of sight is a delete, and one that brings it into sight an insert.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptBatchError
from headwater.model import Column, Schema
from headwater.model.arrow import arrow_schema
from headwater.rows import log_batch
from headwater.rows.compacted.coders import decoder_of, encoder_of
from headwater.rows.join import Parts, encode_parts, read_parts
from headwater.rows.log_batch import ChangeType
from headwater.rows.message import PLAIN_BYTES_MAX, MessageWriter
from headwater.rows.row_bytes import PADDING, RowBytes, overlapping

Bits = npt.NDArray[np.bool_]
Data = bytes | memoryview
Mask = Callable[[Sequence[pa.Array], Schema], Bits]
"""Tells which rows of columns of a schema may be seen."""

NO_CHECKSUM = 0
_ID_BYTES = 2
# A value has room before it for what is put around it in an answer.
_FREE_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of a batch, with what the log says of each."""

    columns: list[pa.Array]
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    types: npt.NDArray[np.uint8] | None
    part_of: npt.NDArray[np.int64]

    def where(self, mask: Bits) -> "_Rows":
        wanted = pa.array(mask)
        return _Rows(
            [column.filter(wanted) for column in self.columns],
            self.offsets[mask],
            self.times[mask],
            None if self.types is None else self.types[mask],
            self.part_of[mask],
        )


@dataclass(frozen=True, eq=False)
class BatchSieve:
    """Take rows and columns out of batches of one table."""

    schema_of: Callable[[int], Schema]
    mask: Mask | None
    projected: tuple[Column, ...] | None = None
    """The columns that are given; None for all of a batch, of which some may be null."""
    shown: frozenset[int] | None = None
    """Ids of the columns whose values are given; None for all."""
    takes_sparse: bool = False
    codec: pa.Codec | None = None

    def sift(self, batch: Data, header: log_batch.BatchHeader) -> list[bytes]:
        """Return what may be seen of a batch, as one batch or several; none without rows.

        1. read the rows  2. keep those that may be seen  3. pick the columns  4. write them
        """
        if not header.record_count:
            return []
        schema = self.schema_of(header.schema_id)
        parts = read_parts(batch, header)
        rows = _read(batch, header, schema, parts)
        if self.mask is not None:
            mask = self.mask(rows.columns, schema)
            rows = _retyped(rows, mask).where(mask)
        if not len(rows.offsets):
            return []
        given = replace(rows, columns=self._given(rows.columns, schema, len(rows.offsets)))
        if self.takes_sparse:
            return [self._sparse(given, header, parts)]
        return self._runs(given, header)

    def _given(self, columns: list[pa.Array], schema: Schema, count: int) -> list[pa.Array]:
        held = {
            column.column_id: array for column, array in zip(schema.columns, columns, strict=True)
        }
        if self.shown is not None:
            held = {number: array for number, array in held.items() if number in self.shown}
        wanted = schema.columns if self.projected is None else self.projected
        types = [field.type for field in arrow_schema(Schema(columns=tuple(wanted)))]
        return [
            held[column.column_id] if column.column_id in held else pa.nulls(count, kind)
            for column, kind in zip(wanted, types, strict=True)
        ]

    def _sparse(self, rows: _Rows, header: log_batch.BatchHeader, parts: Parts) -> bytes:
        kept = None
        if header.is_joined:
            counts = np.bincount(rows.part_of, minlength=len(parts))
            held = counts > 0
            nobody = np.full(int(held.sum()), log_batch.NO_WRITER, np.int64)
            nothing = np.full(len(nobody), NO_CHECKSUM, np.int64)
            kept = encode_parts(
                Parts(counts[held], parts.timestamps[held], nobody, nobody, nothing)
            )
        return log_batch.build_batch(
            self._message(rows.columns, header.schema_id),
            schema_id=header.schema_id,
            record_count=len(rows.offsets),
            parts=kept,
            offsets=(rows.offsets - header.base_offset).tolist(),
            changes=None if rows.types is None else rows.types.tobytes(),
            base_offset=header.base_offset,
            end_offset=header.end_offset,
            timestamp_ms=int(rows.times[-1]),
        )

    def _runs(self, rows: _Rows, header: log_batch.BatchHeader) -> list[bytes]:
        """Write a batch for all rows that follow each other and are of the same time."""
        breaks = (np.diff(rows.offsets) > 1) | (np.diff(rows.times) > 0)
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
        return [
            log_batch.build_batch(
                self._message(
                    [column.slice(start, end - start) for column in rows.columns], header.schema_id
                ),
                schema_id=header.schema_id,
                record_count=end - start,
                changes=None if rows.types is None else rows.types[start:end].tobytes(),
                base_offset=int(rows.offsets[start]),
                timestamp_ms=int(rows.times[start]),
            )
            for start, end in zip(starts, [*starts[1:], len(rows.offsets)], strict=True)
        ]

    def _message(self, columns: Sequence[pa.Array], schema_id: int) -> memoryview:
        wanted = self._schema_of_all if self.projected is not None else self.schema_of(schema_id)
        schema = arrow_schema(wanted)
        rows = pa.record_batch(list(columns), schema=schema)
        return MessageWriter(schema, self.codec).write(rows, plain_bytes_max=PLAIN_BYTES_MAX)

    @cached_property
    def _schema_of_all(self) -> Schema:
        return Schema(columns=self.projected or ())


def marker(end_offset: int, *, schema_id: int) -> bytes:
    """Return a batch without rows that ends at an offset, so that readers get ahead."""
    return log_batch.build_batch(
        b"", schema_id=schema_id, record_count=0, changes=b"", base_offset=end_offset - 1
    )


def _read(batch: Data, header: log_batch.BatchHeader, schema: Schema, parts: Parts) -> _Rows:
    sections = log_batch.read_sections(batch, header)
    message = pa.py_buffer(bytes(memoryview(batch)[sections.changes_end : header.size]))
    try:
        rows = pa.ipc.read_record_batch(message, arrow_schema(schema))
    except (pa.ArrowException, OSError) as fault:
        raise CorruptBatchError(f"A stored batch holds no readable rows: {fault}") from None
    if rows.num_rows != header.record_count:
        raise CorruptBatchError(
            f"A stored batch of {header.record_count} records holds {rows.num_rows} rows."
        )
    types = None
    if not header.is_append_only:
        section = bytes(memoryview(batch)[sections.changes_start : sections.changes_end])
        types = np.frombuffer(section, np.uint8)
    return _Rows(
        rows.columns,
        log_batch.read_offsets(batch, header),
        parts.row_timestamps(),
        types,
        np.repeat(np.arange(len(parts)), parts.counts),
    )


def _retyped(rows: _Rows, mask: Bits) -> _Rows:
    """Turn updates of which only one half is seen into deletes and inserts."""
    if rows.types is None or mask.all():
        return rows
    types = rows.types.copy()
    before = np.flatnonzero(
        (types[:-1] == ChangeType.UPDATE_BEFORE) & (types[1:] == ChangeType.UPDATE_AFTER)
    )
    types[before[mask[before] & ~mask[before + 1]]] = ChangeType.DELETE
    types[before[~mask[before] & mask[before + 1]] + 1] = ChangeType.INSERT
    return replace(rows, types=types)


# Values of primary-key tables: a schema id and a row each.


@dataclass(frozen=True, slots=True, eq=False)
class Sifted:
    """What may be seen of some values: of which of them, and the values."""

    seen: Bits
    values: RowBytes


@dataclass(frozen=True, slots=True, eq=False)
class ValueSieve:
    """Take rows out of values of one table, and columns out of rows."""

    schema_of: Callable[[int], Schema]
    mask: Mask | None
    shown: frozenset[int] | None = None
    """Ids of the columns whose values are given, others are null; None for all."""

    def sift(self, values: RowBytes) -> Sifted:
        """Return the values that may be seen, in their order."""
        seen = np.ones(len(values), np.bool_)
        if not len(values):
            return Sifted(seen, values)
        versions = overlapping(values.data, np.int16)[values.starts]
        parts: list[RowBytes] = []
        places: list[npt.NDArray[np.int64]] = []
        for version in np.unique(versions).tolist():
            at = np.flatnonzero(versions == version)
            kept, part = self._of_version(values.take(at), int(version))
            seen[at[~kept]] = False
            places.append(at[kept])
            parts.append(part)
        joined = RowBytes.joined(parts) if self.shown is not None else values.take(seen)
        if self.shown is None or len(parts) == 1:
            return Sifted(seen, joined)
        return Sifted(seen, joined.take(np.argsort(np.concatenate(places))))

    def _of_version(self, values: RowBytes, version: int) -> tuple[Bits, RowBytes]:
        schema = self.schema_of(version)
        rows = RowBytes(values.data, values.starts + _ID_BYTES, values.ends)
        columns = decoder_of(schema).decode(rows)
        kept = np.ones(len(values), np.bool_)
        if self.mask is not None:
            kept = self.mask(columns, schema)
        if self.shown is None:
            return kept, values
        wanted, count = pa.array(kept), int(kept.sum())
        shown = [
            array.filter(wanted) if column.column_id in self.shown else pa.nulls(count, array.type)
            for column, array in zip(schema.columns, columns, strict=True)
        ]
        return kept, _with_id(encoder_of(schema).encode(shown), version)


def _with_id(rows: RowBytes, version: int) -> RowBytes:
    head = bytes(_FREE_BYTES) + version.to_bytes(_ID_BYTES, "little", signed=True)
    if not len(rows):
        nowhere = np.zeros(0, np.int64)
        return RowBytes(np.zeros(PADDING, np.uint8), nowhere, nowhere)
    whole = pc.binary_join_element_wise(
        pa.scalar(head, pa.binary()), rows.to_arrow().cast(pa.binary()), pa.scalar(b"", pa.binary())
    )
    found = RowBytes.from_arrow(whole)
    return RowBytes(found.data, found.starts + _FREE_BYTES, found.ends)
