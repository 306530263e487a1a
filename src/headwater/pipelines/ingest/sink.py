"""The tables that a pipeline writes: created, checked, written epoch by epoch, altered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater import errors
from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.options import SERVERS
from headwater.model import types
from headwater.pipelines.ingest import form
from headwater.pipelines.ingest.journal import EpochPlan
from headwater.pipelines.ingest.postgres.changes import (
    DELETED,
    LayerRows,
    RowChanges,
    TableShape,
    layer_rows,
    layers_of,
)
from headwater.pipelines.ingest.postgres.column_types import can_widen

LETTERS_SHOWN_MAX = 5
_LETTERS = {
    "pipeline": "STRING NOT NULL",
    "source_table": "STRING NOT NULL",
    "position": "STRING NOT NULL",
    "column": "STRING NOT NULL",
    "reason": "STRING NOT NULL",
    "row": "STRING NOT NULL",
}


def connection_of(sink: form.FlussSink) -> SparkConnection:
    """How the storage is reached, from here and from tasks."""
    return SparkConnection.of({SERVERS.name: ",".join(sink.servers), **sink.client})


@dataclass(frozen=True, slots=True)
class LayerWrite:
    """Rows for one write: a level of a table with one set of columns."""

    target: str
    level: int
    columns: tuple[str, ...] | None
    """The columns that are written; None for whole rows, of which some may be deletes."""
    rows: pa.Table


class IngestSink:
    """Writes the rows of one pipeline."""

    def __init__(self, pipeline: form.PipelineForm, client: Client) -> None:
        self._form = pipeline
        self._client = client
        self._tables: dict[str, Table] = {}

    def table(self, source: form.SourceTable) -> Table:
        """The table that rows of a source table go to."""
        return self._open(self._form.target(source))

    def _open(self, target: str) -> Table:
        if target not in self._tables:
            self._tables[target] = self._client.table(target)
        return self._tables[target]

    # ---- tables

    def exists(self, source: form.SourceTable) -> bool:
        """Tell whether the table exists."""
        return self._client.table_exists(self._form.target(source))

    def ensure(self, source: form.SourceTable, shape: TableShape) -> TableShape:
        """Create the table, or check that it can hold the rows; returns what is taken of them."""
        target = self._form.target(source)
        if not self._client.table_exists(target):
            self._create(source, target, self.wanted(source, shape))
        return self.taken(source, shape)

    def wanted(self, source: form.SourceTable, shape: TableShape) -> TableShape:
        """The columns that the form wants of a table."""
        rule = self._form.transform(source)
        if rule is None or rule.columns is None:
            return shape
        missing = [name for name in (*rule.columns, *shape.key) if name not in shape.names]
        forgotten = [name for name in shape.key if name not in rule.columns]
        if missing or forgotten:
            said = f"has no column '{missing[0]}'" if missing else "cannot be taken without its key"
            raise errors.RequestError(
                f"The projection of {source} is wrong: the table {said}.",
                hint=f"It has {', '.join(shape.names)}; its key is {', '.join(shape.key)}.",
            )
        kept = [name for name in shape.names if name in rule.columns]
        return TableShape(tuple(kept), tuple(map(shape.type_of, kept)), shape.key)

    def _create(self, source: form.SourceTable, target: str, shape: TableShape) -> None:
        rule = self._form.transform(source)
        sink = self._form.sink
        self._client.create_database(target.partition(".")[0], exists_ok=True)
        self._client.create_table(
            target,
            {
                name: kind.not_null() if name in shape.key else kind
                for name, kind in zip(shape.names, shape.types, strict=True)
            },
            primary_key=shape.key,
            partition_by=rule.partition_keys if rule else (),
            bucket_by=sink.bucket_keys.get(target, sink.bucket_keys.get("", ())),
            buckets=self._form.buckets(target),
            options=sink.properties,
            exists_ok=True,
        )

    def taken(self, source: form.SourceTable, shape: TableShape) -> TableShape:
        """The columns of a table that have a place, in the types of the place."""
        table = self.table(source)
        if table.info.schema.primary_key != shape.key:
            raise errors.ConflictError(
                f"{table.path} exists with the primary key "
                f"({', '.join(table.info.schema.primary_key)}), and {source} has "
                f"({', '.join(shape.key)}).",
                hint="Drop it, or send the rows to another table with 'route'.",
            )
        held = {column.name: column.type for column in table.info.schema.columns}
        names = [name for name in self.wanted(source, shape).names if name in held]
        for name in names:
            if not can_widen(held[name], shape.type_of(name)):
                raise errors.ConflictError(
                    f"The column '{name}' of {source} is {shape.type_of(name)} now, and that of "
                    f"{table.path} is {held[name]}, which cannot hold it.",
                    hint="The types of columns cannot be changed: drop the table, and run the "
                    "pipeline again, which takes all its rows again.",
                )
        return TableShape(tuple(names), tuple(held[name] for name in names), shape.key)

    def missing(self, source: form.SourceTable, shape: TableShape) -> list[str]:
        """The columns of a source table that have no place."""
        held = set(self.table(source).info.schema.names)
        return [name for name in self.wanted(source, shape).names if name not in held]

    def names(self, source: form.SourceTable) -> list[str]:
        """The columns of the table."""
        return list(self.table(source).info.schema.names)

    def add_column(self, source: form.SourceTable, name: str, kind: types.DataType) -> None:
        """Add a column; whoever was here before may have done it."""
        table = self.table(source)
        table.refresh()
        if name not in table.info.schema.names:
            table.add_column(name, str(kind))

    def drop_column(self, source: form.SourceTable, name: str) -> None:
        """Drop a column."""
        table = self.table(source)
        table.refresh()
        if name in table.info.schema.names:
            table.drop_column(name)

    def empty(self, source: form.SourceTable) -> int:
        """Delete all rows, as a truncated table has none."""
        table = self.table(source)
        keys = table.scan(columns=list(table.info.schema.primary_key)).to_arrow()
        if keys.num_rows:
            table.delete(keys)
        return int(keys.num_rows)

    # ---- epochs

    def prepare(
        self, gathered: Iterable[tuple[form.SourceTable, RowChanges]], plan: EpochPlan
    ) -> list[LayerWrite]:
        """Make the columns of an epoch, in the order in which they are written."""
        parts: dict[tuple[int, str, tuple[str, ...] | None], list[pa.Table]] = {}
        letters: list[dict[str, str]] = []
        for source, changes in gathered:
            table = self.table(source)
            key = [changes.relation.columns.index(each) for each in _columns(changes)]
            for layer in layers_of(changes, key):
                made = layer_rows(changes, layer)
                letters += self.letters(source, made, plan.stop.text)
                columns, rows = _fitted(made.columns, table, is_partial=bool(layer.missing))
                parts.setdefault((layer.level, str(table.path), columns), []).append(rows)
        order = sorted(parts, key=lambda each: (each[0], each[1], each[2] or ()))
        found = [
            LayerWrite(target, level, columns, pa.concat_tables(parts[level, target, columns]))
            for level, target, columns in order
        ]
        return found + self._as_rows(letters)

    def letters(
        self, source: form.SourceTable, made: LayerRows, position: str
    ) -> list[dict[str, str]]:
        """The dead letters of rows that could not be converted; raises where they stop."""
        if not made.bad:
            return []
        if self._form.handling.errors is form.ErrorHandling.STOP:
            first, row = made.bad[0], made.bad_rows[0]
            raise errors.InvalidValueError(
                f"A value of column '{first.column}' of {source} cannot be converted: "
                f"{first.reason}. The row: {row[:400]}",
                hint="Change the row, or set 'error.handling: dead-letter' to put such rows aside.",
            )
        name = self._form.handling.name
        return [
            {
                "pipeline": name,
                "source_table": str(source),
                "position": position,
                "column": each.column,
                "reason": each.reason,
                "row": row,
            }
            for each, row in zip(made.bad, made.bad_rows, strict=True)
        ]

    def _as_rows(self, letters: Sequence[Mapping[str, str]]) -> list[LayerWrite]:
        if not letters:
            return []
        target = self._form.handling.dead_letters
        self.ensure_letters()
        rows = pa.Table.from_pylist(list(letters), pa.schema([(n, pa.string()) for n in _LETTERS]))
        return [LayerWrite(target, 0, None, rows)]

    def ensure_letters(self) -> Table:
        """Create the table of dead letters for the first."""
        target = self._form.handling.dead_letters
        if not self._client.table_exists(target):
            self._client.create_database(target.partition(".")[0], exists_ok=True)
            self._client.create_table(target, _LETTERS, buckets=1, exists_ok=True)
        return self._open(target)

    def write(self, rows: Sequence[LayerWrite], epoch: int) -> int:
        """Write an epoch; what an earlier attempt wrote is recognised. Returns the rows."""
        name, count, numbers = self._form.handling.name, 0, dict[str, int]()
        for each in rows:
            number = numbers[each.target] = numbers.get(each.target, -1) + 1
            table = self._open(each.target)
            is_keyed = DELETED in each.rows.column_names
            receipt = table.write_epoch(
                each.rows,
                sink=_sink_name(name, number),
                epoch=epoch,
                deletes=DELETED if is_keyed else None,
                columns=each.columns,
            )
            count += receipt.rows
        return count


def _sink_name(pipeline: str, number: int) -> str:
    """The sink of the first, second… write of an epoch into a table."""
    return f"cdc/{pipeline}" + (f"/{number}" if number else "")


def _columns(changes: RowChanges) -> list[object]:
    known = {column.name: column for column in changes.relation.columns}
    return [known[name] for name in changes.shape.key]


def _fitted(
    batch: pa.RecordBatch, table: Table, *, is_partial: bool
) -> tuple[tuple[str, ...] | None, pa.Table]:
    """Give rows the columns of the table: whole rows have nulls where the source has no column."""
    rows = pa.Table.from_batches([batch])
    if is_partial:
        rows = rows.drop_columns([DELETED])
        return tuple(rows.column_names), rows
    for field in table.schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return None, rows.select([*table.schema.names, DELETED])
