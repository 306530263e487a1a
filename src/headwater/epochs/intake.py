"""Accept the rows of an epoch: check them, split them by bucket, and hold them.

They are held in memory, or in files if there are many, until they can be ordered.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.cluster.router import Router
from headwater.errors import InvalidTargetColumnError, InvalidValueError, NotPrimaryKeyTableError
from headwater.model import TableInfo
from headwater.model.arrow import arrow_schema
from headwater.read.offsets import Offsets, Place
from headwater.rows.admission import check_nulls, columns_to_check
from headwater.rows.compute import pc
from headwater.rows.row_bytes import Longs, Mask
from headwater.write.encode import check_unnumbered, target_columns
from headwater.write.rows_in import RowsLike, WantedSchema, batches_of

# What identifies an attempt to write: sink, epoch and lane, and how its rows are meant.

SINK_CHARACTERS_MAX = 256
EPOCH_MAX = 2**63 - 1
LANE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Rows that are to be written once, whoever sends them."""

    sink: str
    number: int
    lane: int = 0
    begins: Offsets | None = None
    """Where the logs ended before anything was written, for callers that keep no ledger."""

    def __post_init__(self) -> None:
        if not 0 < len(self.sink) <= SINK_CHARACTERS_MAX:
            raise InvalidValueError(
                f"A sink name has 1 to {SINK_CHARACTERS_MAX} characters, not {len(self.sink)}."
            )
        if not 0 <= self.number <= EPOCH_MAX:
            raise InvalidValueError(f"Epochs are numbered from 0, but the number is {self.number}.")
        if not 0 <= self.lane <= LANE_MAX:
            raise InvalidValueError(f"Lanes are numbered from 0, but the number is {self.lane}.")
        if self.begins is not None and self.number:
            raise InvalidValueError(
                f"Epoch {self.number} needs the ledger: only the first epoch can be given "
                "its start offsets.",
                hint="Leave out `begins`.",
            )


# The result of writing an epoch.


@dataclass(frozen=True, slots=True)
class EpochReceipt:
    """All rows of an epoch are written; counts what was already there."""

    rows: int
    """Rows of the epoch, whoever wrote them."""
    batches_written: int
    """Batches that this attempt wrote."""
    batches_landed: int
    """Batches that an earlier or concurrent attempt wrote."""
    offsets: Offsets
    """Log end of each bucket after its last batch; empty if the epoch was already finished."""


# Holding rows in memory, or in files if there are many.

MEMORY_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class PlaceRows:
    """Rows of one bucket in the order they came, and which of them delete their key."""

    chunks: list[pa.RecordBatch] = field(default_factory=list)
    deletes: list[Mask] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(chunk.num_rows for chunk in self.chunks)

    @property
    def only_deletes(self) -> bool:
        """Tell whether all rows are deletes."""
        return all(bool(each.all()) for each in self.deletes)


class HeldRows:
    """Rows by bucket; beyond a limit they are moved to files."""

    def __init__(self, *, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.places: dict[Place, PlaceRows] = {}
        self._memory_bytes_max = memory_bytes_max
        self._memory_bytes = 0
        # How many chunks of each place are in files already.
        self._moved: dict[Place, int] = {}

    def add(self, place: Place, rows: pa.RecordBatch, *, deletes: Mask | None) -> None:
        """Add rows to their bucket."""
        held = self.places.setdefault(place, PlaceRows())
        held.chunks.append(rows)
        held.deletes.append(np.zeros(rows.num_rows, np.bool_) if deletes is None else deletes)
        self._memory_bytes += rows.nbytes

    @property
    def is_full(self) -> bool:
        """Tell whether rows should be moved to a file before more are added."""
        return self._memory_bytes > self._memory_bytes_max

    def spill(self) -> None:
        """Move what is in memory to a file that disappears when nobody reads it any more."""
        with tempfile.NamedTemporaryFile(prefix="headwater-epoch-") as file:
            moving = [
                (place, at)
                for place, held in self.places.items()
                for at in range(self._moved.get(place, 0), len(held.chunks))
            ]
            chunks = [self.places[place].chunks[at] for place, at in moving]
            for (place, at), chunk in zip(moving, _moved(chunks, Path(file.name)), strict=True):
                self.places[place].chunks[at] = chunk
                self._moved[place] = at + 1
        self._memory_bytes = 0

    def pop(self, place: Place) -> PlaceRows:
        """Remove and return the rows of one bucket; those in memory as one chunk, for speed."""
        held = self.places.pop(place)
        if place not in self._moved and len(held.chunks) > 1:
            held.chunks = [pa.concat_batches(held.chunks)]
        return held


def _moved(chunks: Sequence[pa.RecordBatch], path: Path) -> list[pa.RecordBatch]:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, chunks[0].schema) as writer:
        for chunk in chunks:
            writer.write_batch(chunk)
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(at) for at in range(reader.num_record_batches)]


class ChunkedRows:
    """Picks rows from several chunks by position, as if they were one."""

    def __init__(self, chunks: Sequence[pa.RecordBatch]) -> None:
        self._chunks = chunks
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in chunks)])

    def take(self, places: Longs) -> pa.RecordBatch:
        """Return the rows at these positions, in this order."""
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(places))
        which = np.searchsorted(self._starts, places, side="right") - 1
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(self._chunks) + 1))
        parts = [
            chunk.take(pa.array(places[order[low:high]] - start))
            for chunk, start, low, high in zip(
                self._chunks, self._starts[:-1], bounds[:-1], bounds[1:], strict=True
            )
            if high > low
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))


@dataclass(frozen=True, slots=True)
class Meaning:
    """How rows are meant: which columns they write, and which column marks deletes."""

    columns: tuple[str, ...] | None = None
    deletes: str | None = None


class Intake:
    """Accepts rows for one table."""

    def __init__(self, table: TableInfo, meaning: Meaning, *, lane: int) -> None:
        _check(table, meaning)
        self._table = table
        self._meaning = meaning
        self._lane = lane
        self._router = Router.of(table.descriptor)
        schema = arrow_schema(table.schema)
        names = meaning.columns or schema.names
        self._schema = pa.schema([field for field in schema if field.name in names])
        self._checked = columns_to_check(self._schema)
        self._wanted = WantedSchema.of(schema, columns=self._schema.names)
        if meaning.deletes is not None:
            self._wanted = WantedSchema.of(
                _marked(schema, meaning.deletes, table.schema.primary_key)
            )

    async def take(self, rows: RowsLike, held: HeldRows) -> None:
        """Hold all rows, each with its bucket."""
        async for batch in batches_of(rows, self._wanted):
            await asyncio.to_thread(self._add, batch, held)

    def _add(self, batch: pa.RecordBatch, held: HeldRows) -> None:
        batch, deletes = self._parted(batch)
        for share in self._router.route(batch):
            bucket = share.bucket
            if bucket is None:
                # Any bucket will do, but it must be the same in every attempt.
                bucket = self._lane % self._router.bucket_count
            place, at = Place(share.partition, bucket), share.rows
            mask = deletes if deletes is None or at is None else deletes[at]
            taken = batch if at is None else batch.take(pa.array(at))
            held.add(place, taken, deletes=mask)
        if held.is_full:
            held.spill()

    def _parted(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask | None]:
        """Split a batch into the table's columns and a mask of the rows that delete."""
        mask: Mask | None = None
        if self._meaning.deletes is not None:
            marks = pc.fill_null(batch.column(self._meaning.deletes), False)
            mask = np.asarray(marks.to_numpy(zero_copy_only=False), np.bool_)
            batch = pa.RecordBatch.from_arrays(
                [batch.column(name) for name in self._schema.names], schema=self._schema
            )
            check_nulls(batch.filter(pa.array(~mask)), self._checked)
        if self._table.is_keyed:
            check_unnumbered(batch, self._table.schema)
        return batch, mask


def _marked(schema: pa.Schema, deletes: str, key: Sequence[str]) -> pa.Schema:
    # A delete needs only a key, so NOT NULL is checked where rows are written.
    fields = [field if field.name in key else field.with_nullable(True) for field in schema]
    return pa.schema([*fields, pa.field(deletes, pa.bool_())])


def _check(table: TableInfo, meaning: Meaning) -> None:
    if not table.is_keyed:
        _check_unkeyed(table, meaning)
        return
    targets = target_columns(table.schema, meaning.columns)
    if meaning.deletes is None:
        return
    if targets is not None:
        raise InvalidTargetColumnError(
            f"An epoch that writes only some columns of {table.path} cannot delete rows.",
            hint="Write all columns, or delete in another sink.",
        )
    if meaning.deletes in table.schema.names:
        raise InvalidValueError(
            f"'{meaning.deletes}' is a column of {table.path}, so it cannot mark deletes.",
            hint="Mark deletes in a column with another name.",
        )


def _check_unkeyed(table: TableInfo, meaning: Meaning) -> None:
    wanted: Sequence[str] = meaning.columns or ()
    if meaning.deletes is not None or wanted:
        what = "deleted" if meaning.deletes is not None else "updated"
        raise NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so rows cannot be {what} in it.",
            hint="Leave out `deletes` and `columns`.",
        )
