"""Rows of an epoch as they come from the caller: checked, and shared out to buckets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.epochs.held import HeldRows
from headwater.client.reading.log_batch import Place
from headwater.client.routing import Router
from headwater.client.rows_in import RowsLike, Wanted
from headwater.client.taking import batches_of
from headwater.client.writing.target_columns import check_unnumbered, target_columns
from headwater.errors import InvalidTargetColumnError, InvalidValueError, NotPrimaryKeyTableError
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo
from headwater.rows.nullness import check_nulls, columns_to_check
from headwater.rows.row_bytes import Mask


@dataclass(frozen=True, slots=True)
class Meaning:
    """Say how rows are meant: which columns they write, and which column marks deletes."""

    columns: tuple[str, ...] | None = None
    deletes: str | None = None


class Intake:
    """Take rows for one table."""

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
        self._wanted = Wanted.of(schema, columns=self._schema.names)
        if meaning.deletes is not None:
            self._wanted = Wanted.of(_marked(schema, meaning.deletes, table.schema.primary_key))

    async def take(self, rows: RowsLike, held: HeldRows) -> None:
        """Hold all rows, each with its bucket."""
        async for batch in batches_of(rows, self._wanted):
            await asyncio.to_thread(self._add, batch, held)

    def _add(self, batch: pa.RecordBatch, held: HeldRows) -> None:
        batch, deletes = self._parted(batch)
        for share in self._router.route(batch):
            bucket = share.bucket
            if bucket is None:
                # Any bucket will do, but in every attempt the same.
                bucket = self._lane % self._router.bucket_count
            place, at = Place(share.partition, bucket), share.rows
            mask = deletes if deletes is None or at is None else deletes[at]
            taken = batch if at is None else batch.take(pa.array(at))
            held.add(place, taken, deletes=mask)
        if held.is_full:
            held.spill()

    def _parted(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask | None]:
        """Return the columns of the table, and which rows delete."""
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
    # A delete needs a key only, so what rows promise is looked at where they are written.
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
            f"Rows of {table.path} cannot be deleted in an epoch that writes some columns only.",
            hint="Write all columns, or delete in a sink of its own.",
        )
    if meaning.deletes in table.schema.names:
        raise InvalidValueError(
            f"'{meaning.deletes}' is a column of {table.path}, so it cannot tell what to delete.",
            hint="Mark deletes in a column of another name.",
        )


def _check_unkeyed(table: TableInfo, meaning: Meaning) -> None:
    wanted: Sequence[str] = meaning.columns or ()
    if meaning.deletes is not None or wanted:
        what = "deleted" if meaning.deletes is not None else "updated"
        raise NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so rows cannot be {what} in it.",
            hint="Leave out `deletes` and `columns`.",
        )
