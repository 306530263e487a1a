"""What a reader wants of a table: which columns, in which order, and which rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.client.reading.filters import Filter, Where
from headwater.config.options import STATISTICS_COLUMNS
from headwater.config.statistics import statistics_columns
from headwater.errors import InvalidOptionError, InvalidProjectionError
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import Predicate
from headwater.model.schema import Column, Schema
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Hold what is given to the caller, and what has to be read for it."""

    table: TableInfo
    names: tuple[str, ...]
    """The columns given, in the caller's order."""
    schema: pa.Schema
    """The Arrow schema of what is given."""
    read_columns: tuple[Column, ...]
    """The columns read, in the order of the table: those given, and those the filter looks at."""
    positions: tuple[int, ...] | None
    """Where the columns read stand in the table; None for all of them."""
    filter: Filter | None
    predicate: Predicate | None
    """The part of the filter that a server can make use of."""

    @classmethod
    def of(
        cls,
        table: TableInfo,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> "View":
        """Work out what has to be read, or say what there is not."""
        names = table.schema.names if columns is None else _checked(columns, table.schema)
        wanted = None if where is None else Filter.of(where, table.schema)
        needed = {*names, *(wanted.columns if wanted else ())}
        positions = tuple(at for at, name in enumerate(table.schema.names) if name in needed)
        given = tuple(table.schema.column(name) for name in names)
        return cls(
            table=table,
            names=names,
            schema=arrow_schema(Schema(columns=given)),
            read_columns=tuple(table.schema.columns[at] for at in positions),
            positions=None if len(positions) == len(table.schema.columns) else positions,
            filter=wanted,
            predicate=None if wanted is None else wanted.predicate(_counted(table)),
        )

    def given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that the caller wants of those that were read."""
        if batch.schema.names == list(self.names):
            return batch
        return batch.select(list(self.names))

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted columns of the wanted rows."""
        return self.given(batch if self.filter is None else batch.filter(self.filter.mask(batch)))


def _checked(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    hint = f"The columns are {', '.join(schema.names)}."
    if isinstance(columns, str):
        columns = [columns]
    if not columns:
        raise InvalidProjectionError("No column is asked for.", hint=hint)
    if unknown := [name for name in columns if name not in schema.names]:
        raise InvalidProjectionError(f"There is no column '{unknown[0]}'.", hint=hint)
    if len(set(columns)) < len(columns):
        raise InvalidProjectionError(f"A column is asked for twice: {', '.join(columns)}.")
    return tuple(columns)


def _counted(table: TableInfo) -> frozenset[int]:
    """Return the ids of the columns whose statistics writers note; others cannot help."""
    names = STATISTICS_COLUMNS.of(table.descriptor.properties) or ()
    try:
        columns = statistics_columns(names, table.schema)
    except InvalidOptionError:
        # The column was renamed or dropped meanwhile, which only makes for slower reads.
        columns = ()
    return frozenset(column.column_id for column in columns)
