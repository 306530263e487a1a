"""The rows of a Spark task in the columns and types of a table, each checked before any is sent."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from headwater.client.casting import cast_column
from headwater.engines.spark.writing.change_types import changes_of, check_inserts
from headwater.engines.spark.writing.columns import ORDER_COLUMN, TASK_COLUMN, SinkColumns
from headwater.errors import InvalidValueError, RequestError
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo

DELETES = "__headwater_delete"
"""The column that tells which rows delete their key."""


class SinkRows:
    """Shape batches of Spark for one table; made once for a task."""

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
        """Return the column that tells which rows delete their key, if some may."""
        has_some = self._columns.change is not None and self._is_keyed
        return DELETES if has_some and not self._ignores_deletes else None

    def shape(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are to be written; batches without any are left out."""
        for batch in self._ordered(batches) if self._columns.has_order else batches:
            self._check_task(batch)
            rows = self._shaped(batch)
            if rows.num_rows:
                yield rows

    def _ordered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order that they had before they were shuffled."""
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
        """Return the columns of the table; whether nulls are allowed is judged by who writes."""
        columns = [cast_column(batch.column(field.name), field) for field in self._fields]
        fields = [field.with_nullable(True) for field in self._fields]
        rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        for name in self._keys:
            if rows.column(name).null_count:
                raise InvalidValueError(
                    f"The key column '{name}' of {self._path} holds"
                    f" {rows.column(name).null_count} nulls. Nothing of this task was written.",
                    hint=f"Filter them out: .where(F.col('{name}').isNotNull()).",
                )
        return rows

    def _check_task(self, batch: pa.RecordBatch) -> None:
        """Refuse rows that another task of the shuffle by bucket is to write.

        Two tasks would number batches of one bucket alike, and one of them be taken for a copy.
        """
        if self._columns.has_task and (batch.column(TASK_COLUMN).to_numpy() != self._task).any():
            raise RequestError(
                f"Rows for {self._path} were shuffled by bucket, and then once more.",
                hint="Let by_bucket(…) be the last step before the write.",
            )
