"""Changes of one table, gathered by rows as they come and made into columns all at once.

A row whose large values were not sent, as an update did not touch them, is written as a partial
update: those columns keep what they have. One write has one set of columns, so the rows of a table
are split into *layers*, written one after the other. Rows of one key stay in order: a row goes into
the layer of the one before it if both have the same columns, and otherwise into a later layer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.model.types import DataType
from headwater.pipelines.ingest.postgres.column_types import BadValue, convert, text_column
from headwater.pipelines.ingest.postgres.pgoutput import UNCHANGED, RelationMessage, Row, Value

DELETED = "_headwater_deleted"
"""The column that marks rows to delete."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a source table that are taken, in order, and its primary key."""

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    key: tuple[str, ...]

    def type_of(self, name: str) -> DataType:
        """The type of a column."""
        return self.types[self.names.index(name)]


@dataclass(slots=True)
class RowChanges:
    """Rows of one version of a table in the order of their changes."""

    relation: RelationMessage
    shape: TableShape
    rows: list[Row] = field(default_factory=list)
    deletes: list[bool] = field(default_factory=list)
    has_partial: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def upsert(self, row: Row) -> None:
        """Add a new or changed row."""
        self.rows.append(row)
        self.deletes.append(False)
        if UNCHANGED in row:
            self.has_partial = True

    def delete(self, row: Row) -> None:
        """Add a row that is gone; only its key counts."""
        self.rows.append(row)
        self.deletes.append(True)


def completed(row: Row, old: Row | None) -> Row:
    """Fill in what was not sent from the row that was, where the log has it."""
    if old is None or UNCHANGED not in row:
        return row
    pairs = zip(row, old, strict=True)
    # An old value that is null may only mean that it is no part of the key.
    return tuple(
        before if value is UNCHANGED and before is not None else value for value, before in pairs
    )


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows that are written together; `missing` are the columns that stay as they are."""

    level: int
    missing: frozenset[int]
    rows: Sequence[int]


def layers_of(changes: RowChanges, key: Sequence[int]) -> list[Layer]:
    """Split rows into layers; without partial updates there is one."""
    if not changes.has_partial:
        return [Layer(0, frozenset(), range(len(changes)))]
    last: dict[Row, tuple[int, frozenset[int]]] = {}
    found: dict[tuple[int, frozenset[int]], list[int]] = {}
    for at, row in enumerate(changes.rows):
        missing = frozenset(place for place, value in enumerate(row) if value is UNCHANGED)
        of_key = tuple(row[place] for place in key)
        level, before = last.get(of_key, (1 if missing else 0, missing))
        if before != missing:
            level += 1
        last[of_key] = level, missing
        found.setdefault((level, missing), []).append(at)
    order = sorted(found, key=lambda each: (each[0], sorted(each[1])))
    return [Layer(level, missing, found[level, missing]) for level, missing in order]


@dataclass(frozen=True, slots=True)
class LayerRows:
    """The rows of a layer as columns, and those that could not be converted."""

    columns: pa.RecordBatch
    bad: Sequence[BadValue] = ()
    bad_rows: Sequence[str] = ()
    """Those rows as JSON, one for each bad value."""


def layer_rows(changes: RowChanges, layer: Layer) -> LayerRows:
    """Convert the rows of a layer; rows with a bad value are left out, and told."""
    rows = [changes.rows[at] for at in layer.rows]
    deletes = [changes.deletes[at] for at in layer.rows]
    names = [each.name for each in changes.relation.columns]
    values = dict(zip(names, zip(*rows, strict=True), strict=True))
    missing = {names[at] for at in layer.missing}
    taken = [name for name in changes.shape.names if name not in missing]
    bad: list[BadValue] = []
    texts = {name: text_column(values[name], name, bad) for name in taken}
    return converted(texts, changes.shape, deletes=deletes, bad=bad)


def converted(
    texts: Mapping[str, pa.StringArray],
    shape: TableShape,
    *,
    deletes: Sequence[bool],
    bad: list[BadValue],
) -> LayerRows:
    """Convert columns of text to their types, with the column that marks deletes."""
    columns = {
        name: convert(name, column, shape.type_of(name), bad) for name, column in texts.items()
    }
    columns[DELETED] = pa.array(deletes, pa.bool_())
    batch = pa.RecordBatch.from_pydict(columns)
    if not bad:
        return LayerRows(batch)
    shown = tuple(_shown(texts, each.row) for each in bad)
    good = [True] * len(batch)
    for each in bad:
        good[each.row] = False
    return LayerRows(batch.filter(pa.array(good, pa.bool_())), tuple(bad), shown)


def _shown(texts: Mapping[str, pa.StringArray], row: int) -> str:
    return json.dumps({name: column[row].as_py() for name, column in texts.items()})


def key_values(row: Row, key: Sequence[int]) -> tuple[Value, ...]:
    """The key of a row."""
    return tuple(row[at] for at in key)


def places_of(relation: RelationMessage, names: Sequence[str]) -> Iterator[int]:
    """Where columns stand in the rows of a table."""
    known = {column.name: at for at, column in enumerate(relation.columns)}
    return (known[name] for name in names)
