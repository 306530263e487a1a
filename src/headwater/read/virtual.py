"""The virtual tables `t$changelog` and `t$binlog`: names, columns, and how to read them."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.cluster.schema_in import schema_of
from headwater.model import TableBucket
from headwater.read.filters import Filter, Where
from headwater.read.log_scan import LogScan
from headwater.read.offsets import LogBatch, Offsets, Place
from headwater.read.tail import Tail
from headwater.rows.columns import few, shown
from headwater.rows.log_batch import ChangeType

# The virtual tables `t$changelog` and `t$binlog`: what they are called, and how they look.

CHANGE_TYPE = pa.field("_change_type", pa.string(), nullable=False)
LOG_OFFSET = pa.field("_log_offset", pa.int64(), nullable=False)
COMMIT_TIMESTAMP = pa.field("_commit_timestamp", pa.timestamp("ms", "UTC"), nullable=False)
_MARKER = "$"
_LAKE = "lake"
# By ChangeType. A log table only appends, which Fluss calls an insert here.
_CHANGELOG_TEXTS = ("insert", "insert", "update_before", "update_after", "delete")
_BINLOG_TEXTS = (None, "insert", "update", None, "delete")


class VirtualKind(StrEnum):
    """Name the shapes in which the log of a table can be read, each by its suffix."""

    CHANGELOG = "changelog"
    BINLOG = "binlog"


def split_virtual(path: str) -> tuple[str, VirtualKind | None]:
    """Return the table that a path names, and the shape in which to read its log, if any."""
    table, marker, suffix = path.partition(_MARKER)
    if not marker:
        return path, None
    if suffix in tuple(VirtualKind):
        return table, VirtualKind(suffix)
    if suffix.split(_MARKER)[0] == _LAKE:
        raise errors.UnsupportedError(
            f"{path!r} is not a table: the lake is a way to read one.",
            hint=f"Read {table!r} with mode='lake'.",
        )
    known = " and ".join(f"{_MARKER}{kind}" for kind in VirtualKind)
    raise errors.InvalidTableError(
        f"{path!r} does not end in a suffix of virtual tables.",
        hint=f"They are {known}.",
    )


def check_shape(path: str, kind: VirtualKind | None, *, is_keyed: bool) -> None:
    """Refuse to read the log of a table in a shape that it does not have."""
    if kind is VirtualKind.BINLOG and not is_keyed:
        raise errors.NotPrimaryKeyTableError(
            f"{path} has no primary key, so there is no {path}{_MARKER}{kind}.",
            hint=f"Read {path}{_MARKER}{VirtualKind.CHANGELOG}.",
        )


def read_only(path: str, kind: VirtualKind, *, wanted: str) -> errors.UnsupportedError:
    """Return the refusal of anything but reading the log, such as `wanted="upsert"`."""
    return errors.UnsupportedError(
        f"{path}{_MARKER}{kind} is a virtual table: it can only be scanned and tailed, so"
        f" {wanted} is not possible.",
        hint=f"Use {path}.",
    )


def virtual_schema(schema: pa.Schema, kind: VirtualKind) -> pa.Schema:
    """Return the schema that the log of a table has in a shape, given that of its rows."""
    described = [CHANGE_TYPE, LOG_OFFSET, COMMIT_TIMESTAMP]
    if kind is VirtualKind.CHANGELOG:
        return pa.schema([*described, *schema])
    image = pa.struct(list(schema))
    return pa.schema([*described, pa.field("before", image), pa.field("after", image)])


class Changelog:
    """Shape the log of a table as Fluss's `$changelog`: each record, with what it is."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = virtual_schema(schema, VirtualKind.CHANGELOG)

    def shape(self, batch: LogBatch) -> pa.RecordBatch:
        """Return a row for each record of the batch."""
        changes = batch.changes
        if changes is None:
            changes = np.full(batch.rows.num_rows, ChangeType.APPEND, dtype=np.uint8)
        described = [
            _named(changes, _CHANGELOG_TEXTS),
            pa.array(batch.offsets),
            _timestamps(batch.row_timestamps()),
        ]
        return pa.RecordBatch.from_arrays([*described, *batch.rows.columns], schema=self.schema)


class Binlog:
    """Shape the log of one bucket as Fluss's `$binlog`: each change, with the row around it.

    An update takes two records of the log, and reports offset and timestamp of the first, which
    holds the row before. Where a batch ends between the two, the first is held back until the
    next batch comes; whoever remembers a position must then remember `held_offset` instead.

    There is no row before an update in a log whose changelog image is WAL, nor where reading
    began, or a filter cut, between the two. As in Fluss, that is an error. So filter the shaped
    rows, not the log.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = virtual_schema(schema, VirtualKind.BINLOG)
        self._held: _Records | None = None

    @property
    def held_offset(self) -> int | None:
        """Return the offset to read from if the shaper is lost now; None is the next one."""
        return None if self._held is None else int(self._held.offsets[0])

    def shape(self, batch: LogBatch) -> pa.RecordBatch:
        """Return a row for each change that the batch completes."""
        records = _Records.of(batch)
        if self._held is not None:
            records = self._held.then(records)
        complete, held = records.split(_complete_end(records))
        _check_pairs(complete)
        self._held = held if len(held.changes) else None
        return _binlog(complete, self.schema)


def shaper(schema: pa.Schema, kind: VirtualKind) -> Changelog | Binlog:
    """Return what shapes the log of one bucket, given the schema of its rows."""
    return Changelog(schema) if kind is VirtualKind.CHANGELOG else Binlog(schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """Hold records of the log that can come from more than one batch."""

    rows: pa.RecordBatch
    changes: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]

    @classmethod
    def of(cls, batch: LogBatch) -> "_Records":
        changes = batch.changes
        if changes is None or bool((changes == ChangeType.APPEND).any()):
            raise errors.NotPrimaryKeyTableError(
                f"The log of {batch.bucket} is not a changelog.", hint="Read it as $changelog."
            )
        return cls(batch.rows, changes, batch.offsets, batch.row_timestamps())

    def then(self, later: "_Records") -> "_Records":
        return _Records(
            pa.concat_batches([self.rows, later.rows]),
            np.concatenate([self.changes, later.changes]),
            np.concatenate([self.offsets, later.offsets]),
            np.concatenate([self.timestamps, later.timestamps]),
        )

    def split(self, place: int) -> tuple["_Records", "_Records"]:
        return (
            _Records(
                self.rows[:place],
                self.changes[:place],
                self.offsets[:place],
                self.timestamps[:place],
            ),
            _Records(
                self.rows[place:],
                self.changes[place:],
                self.offsets[place:],
                self.timestamps[place:],
            ),
        )


def _complete_end(records: _Records) -> int:
    """Return where the records end, less an update that waits for its other half."""
    count = len(records.changes)
    is_open = count > 0 and records.changes[-1] == ChangeType.UPDATE_BEFORE
    return count - 1 if is_open else count


def _check_pairs(records: _Records) -> None:
    """Refuse a half of an update without the other half."""
    is_before = records.changes == ChangeType.UPDATE_BEFORE
    is_after = records.changes == ChangeType.UPDATE_AFTER
    is_pair = is_before[:-1] & is_after[1:] & (np.diff(records.offsets) == 1)
    alone = is_before | is_after
    alone[:-1] &= ~is_pair
    alone[1:] &= ~is_pair
    if alone.any():
        offset = int(records.offsets[alone.argmax()])
        raise errors.UnsupportedError(
            f"The log has only one half of the update at offset {offset}.",
            hint="Read $changelog if the table's changelog image is WAL, otherwise start earlier.",
        )


def _binlog(records: _Records, schema: pa.Schema) -> pa.RecordBatch:
    starts = np.flatnonzero(records.changes != ChangeType.UPDATE_AFTER)
    changes = records.changes[starts]
    ends = starts + (changes == ChangeType.UPDATE_BEFORE)
    return pa.RecordBatch.from_arrays(
        [
            _named(changes, _BINLOG_TEXTS),
            pa.array(records.offsets[starts]),
            _timestamps(records.timestamps[starts]),
            _images(records.rows, starts, is_missing=changes == ChangeType.INSERT),
            _images(records.rows, ends, is_missing=changes == ChangeType.DELETE),
        ],
        schema=schema,
    )


def _images(
    rows: pa.RecordBatch, places: npt.NDArray[np.intp], *, is_missing: npt.NDArray[np.bool_]
) -> pa.StructArray:
    """Return rows as values of one column; columns without nulls hold none below a missing one."""
    anywhere, present = pa.array(places), pa.array(places, mask=is_missing)
    columns = [
        column.take(present if field.nullable else anywhere)
        for column, field in zip(rows.columns, rows.schema, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(rows.schema), mask=pa.array(is_missing))


def _named(changes: npt.NDArray[np.uint8], texts: Sequence[str | None]) -> pa.StringArray:
    return pa.array(texts, pa.string()).take(pa.array(changes))


def _timestamps(millis: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(millis).view(COMMIT_TIMESTAMP.type)


# Reading the log of a table in the shape of one of its virtual tables.


def columns_behind(
    rows: pa.Schema,
    kind: VirtualKind,
    *,
    columns: Sequence[str] | None,
    where: Where | None,
) -> tuple[str, ...] | None:
    """Return the columns of the rows that are needed for those of a virtual table; None for all."""
    if columns is None or kind is VirtualKind.BINLOG:
        return None
    whole = virtual_schema(rows, kind)
    wanted = None if where is None else Filter.of(where, schema_of(whole))
    needed = {*_known(columns, whole), *(wanted.columns if wanted else ())}
    # One column at least: a log cannot be read without any.
    return tuple(name for name in rows.names if name in needed) or tuple(rows.names[:1])


class VirtualShape:
    """Turn batches of a log into rows of a virtual table, bucket by bucket."""

    def __init__(
        self,
        rows: pa.Schema,
        kind: VirtualKind,
        *,
        columns: Sequence[str] | None,
        where: Where | None,
    ) -> None:
        whole = virtual_schema(rows, kind)
        self._rows, self.kind = rows, kind
        self._columns = None if columns is None else _known(columns, whole)
        self._filter = None if where is None else Filter.of(where, schema_of(whole))
        self._shapers: dict[TableBucket, Changelog | Binlog] = {}
        names = self._columns or tuple(whole.names)
        self.schema = pa.schema([whole.field(name) for name in names])

    def of(self, batch: LogBatch) -> LogBatch:
        """Return the rows that a batch of the log completes, each with the offset it reports."""
        known = self._shapers.get(batch.bucket)
        if known is None:
            known = self._shapers[batch.bucket] = shaper(self._rows, self.kind)
        shaped = known.shape(batch)
        if self._filter is not None:
            shaped = shaped.filter(self._filter.mask(shaped))
        offsets = shaped.column(LOG_OFFSET.name).to_numpy()
        if self._columns is not None:
            shaped = shaped.select(list(self._columns))
        return replace(batch, rows=shaped, offsets=offsets, changes=None)

    def forget(self, buckets: Collection[TableBucket]) -> None:
        """Drop what is held back in buckets that are read elsewhere from here on."""
        for bucket in buckets:
            self._shapers.pop(bucket, None)

    def held_offsets(self) -> dict[TableBucket, int]:
        """Return where to read on after a loss in buckets that hold something back."""
        return {
            bucket: known.held_offset
            for bucket, known in self._shapers.items()
            if isinstance(known, Binlog) and known.held_offset is not None
        }


class VirtualScan:
    """Read a part of a log as rows of a virtual table."""

    def __init__(self, scan: LogScan, shape: VirtualShape, *, limit: int | None) -> None:
        self._scan = scan
        self._shape = shape
        self._limit = limit

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._shape.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        return self._scan.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        left = self._limit
        async with aclosing(self._scan.batches()) as batches:
            async for batch in batches:
                rows = self._shape.of(batch).rows
                if left is not None:
                    rows = rows.slice(0, left)
                    left -= rows.num_rows
                yield rows
                if left == 0:
                    return


class VirtualTail:
    """Follow a log as rows of a virtual table."""

    def __init__(self, tail: Tail, shape: VirtualShape) -> None:
        self._tail = tail
        self._shape = shape
        self._places: dict[TableBucket, Place] = {}

    @property
    def name(self) -> str:
        """Return the name of the virtual table."""
        return f"{self._tail.name}${self._shape.kind}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are given."""
        return tuple(self._shape.schema.names)

    def __repr__(self) -> str:
        return shown(self, self.name, columns=few(self.columns))

    @property
    def position(self) -> Offsets:
        """Return the offset at which another tail would go on in each bucket."""
        held = {
            self._places[bucket]: offset for bucket, offset in self._shape.held_offsets().items()
        }
        return {**self._tail.position, **held}

    async def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return the batches that are there, waiting no longer than the timeout for the first."""
        batches = await self._tail.poll(timeout_s)
        for batch in batches:
            self._places[batch.bucket] = Place(batch.partition, batch.bucket.bucket)
        return [self._shape.of(batch) for batch in batches]

    async def __aiter__(self) -> AsyncIterator[LogBatch]:
        """Yield batches for ever."""
        while True:
            for batch in await self.poll():
                yield batch

    async def start(self) -> None:
        """Find the buckets and where to begin."""
        await self._tail.start()

    async def seek(self, offsets: Offsets) -> None:
        """Read on from other offsets in some of the buckets."""
        await self._tail.seek(offsets)
        self._forget([place for place in self._places.values() if place in offsets])

    async def assign(self, places: Offsets) -> None:
        """Follow these buckets and no others; one that goes on where it is is not disturbed."""
        before = self._tail.position
        await self._tail.assign(places)
        goes_on = {place for place, offset in places.items() if before.get(place) == offset}
        self._forget([place for place in self._places.values() if place not in goes_on])

    def _forget(self, places: Collection[Place]) -> None:
        self._shape.forget([bucket for bucket, place in self._places.items() if place in places])

    async def close(self) -> None:
        """Stop following."""
        await self._tail.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _known(columns: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    if unknown := [name for name in columns if name not in schema.names]:
        raise errors.InvalidProjectionError(
            f"There is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    return tuple(columns)
