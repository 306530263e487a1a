"""Convert the rows of a Spark task to a table's columns and types, checking each before sending.

A column may say what each row does to the table, in the spelling of several changelog systems.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engines.spark.sink_columns import ORDER_COLUMN, TASK_COLUMN, SinkColumns
from headwater.errors import InvalidValueError, RequestError
from headwater.model import TableInfo
from headwater.model.arrow import arrow_schema
from headwater.rows.columns import cast_column

# Texts that say what a row does to its table, as several changelog systems spell them.

Mask = npt.NDArray[np.bool_]


class Deed(IntEnum):
    """What happens to a row in the table."""

    UPSERT = 0
    DELETE = 1
    SKIP = 2
    """The row as it was before an update: the row after it comes as well."""


_DEEDS = {
    "+i": Deed.UPSERT,
    "+u": Deed.UPSERT,
    "-u": Deed.SKIP,
    "-d": Deed.DELETE,
    "insert": Deed.UPSERT,
    "update": Deed.UPSERT,
    "update_after": Deed.UPSERT,
    "update_postimage": Deed.UPSERT,
    "update_before": Deed.SKIP,
    "update_preimage": Deed.SKIP,
    "delete": Deed.DELETE,
}
_INSERTS = ("+i", "insert")
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True, eq=False)
class ChangeMasks:
    """For each row of a batch, whether it is written, and whether it deletes its key."""

    kept: Mask
    deleted: Mask


def changes_of(column: pa.Array, *, name: str) -> ChangeMasks:
    """Parse a column of change types; raises for an unknown text."""
    deeds = _coded(column, name=name)
    return ChangeMasks(deeds != Deed.SKIP, deeds == Deed.DELETE)


def check_inserts(column: pa.Array, *, name: str, path: str) -> None:
    """Raise for rows that do anything but insert, which is all a log table can do."""
    for text in _distinct(column, name=name):
        if text.lower() not in _INSERTS:
            raise InvalidValueError(
                f"The column '{name}' says '{_short(text)}', but {path} has no primary "
                "key, so rows can only be inserted.",
                hint=f"Keep the inserts, or drop the column '{name}'.",
            )


def _coded(column: pa.Array, *, name: str) -> npt.NDArray[np.uint8]:
    """Parse each distinct text once."""
    encoded = column.dictionary_encode()
    deeds = [_deed(text, name=name) for text in _distinct(encoded, name=name)]
    return np.array(deeds, np.uint8)[encoded.indices.to_numpy()]


def _distinct(column: pa.Array, *, name: str) -> list[str]:
    if column.null_count:
        raise InvalidValueError(
            f"The column '{name}' is null in {column.null_count} rows.",
            hint=f"Use {_texts()} in every row.",
        )
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts: list[str] = encoded.dictionary.to_pylist()
    return texts


def _deed(text: str, *, name: str) -> Deed:
    deed = _DEEDS.get(text.lower())
    if deed is None:
        raise InvalidValueError(
            f"The column '{name}' says '{_short(text)}', which is not a change type.",
            hint=f"Use {_texts()}.",
        )
    return deed


def _texts() -> str:
    return f"{', '.join(list(_DEEDS)[:-1])} or {list(_DEEDS)[-1]}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


# Shaping the rows of a task.

DELETES = "__headwater_delete"
"""The column that says which rows delete their key."""


class SinkRows:
    """Converts Spark's batches for one table; made once per task."""

    def __init__(
        self, columns: SinkColumns, table: TableInfo, *, ignores_deletes: bool, task: int
    ) -> None:
        self._columns = columns
        self._ignores_deletes = ignores_deletes
        self._task = task
        self._path = str(table.path)
        self._is_keyed = table.is_keyed
        keys = {*table.schema.primary_key, *table.descriptor.partition_keys}
        self._keys = [name for name in columns.names if name in keys]
        self._fields = [arrow_schema(table.schema).field(name) for name in columns.names]

    @property
    def deletes(self) -> str | None:
        """The column that says which rows delete their key, if some may."""
        has_some = self._columns.change is not None and self._is_keyed
        return DELETES if has_some and not self._ignores_deletes else None

    def shape(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to write; empty batches are left out."""
        for batch in self._ordered(batches) if self._columns.has_order else batches:
            self._check_task(batch)
            rows = self._shaped(batch)
            if rows.num_rows:
                yield rows

    def _ordered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Restore the order that rows had before the shuffle."""
        if held := list(batches):
            yield from pa.Table.from_batches(held).sort_by(ORDER_COLUMN).to_batches()

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        change = self._columns.change
        if change is None:
            return self._cast(batch)
        if not self._is_keyed:
            check_inserts(batch.column(change), name=change, path=self._path)
            return self._cast(batch)
        changes = changes_of(batch.column(change), name=change)
        kept = changes.kept & ~changes.deleted if self._ignores_deletes else changes.kept
        rows = self._cast(batch if kept.all() else batch.filter(pa.array(kept)))
        if self.deletes is None:
            return rows
        return rows.append_column(self.deletes, pa.array(changes.deleted[kept]))

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cast to the columns of the table; nulls are checked when writing."""
        columns = [cast_column(batch.column(field.name), field) for field in self._fields]
        fields = [field.with_nullable(True) for field in self._fields]
        rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        for name in self._keys:
            if rows.column(name).null_count:
                raise InvalidValueError(
                    f"The key column '{name}' of {self._path} contains "
                    f"{rows.column(name).null_count} nulls. This task wrote nothing.",
                    hint=f"Filter them out: .where(F.col('{name}').isNotNull()).",
                )
        return rows

    def _check_task(self, batch: pa.RecordBatch) -> None:
        """Raise for rows that another task of the shuffle by bucket should write.

        Two tasks would give batches of one bucket the same numbers, and one of them would be taken
        for a resend.
        """
        if self._columns.has_task and (batch.column(TASK_COLUMN).to_numpy() != self._task).any():
            raise RequestError(
                f"Rows for {self._path} were shuffled again after the shuffle by bucket.",
                hint="Make by_bucket(…) the last step before the write.",
            )
