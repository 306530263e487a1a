"""What a statement gives back, and the changes of a streaming result in order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.pipelines.jobs import PipelineJob
from headwater.pipelines.sql.steps import CHANGE_COLUMN, ResultMode, ShowRows

OP = "op"
INSERTED, DELETED, BEFORE, AFTER = "+I", "-D", "-U", "+U"
_SIGNS = {
    "append": INSERTED,
    "insert": INSERTED,
    "update_before": BEFORE,
    "update_after": AFTER,
    "delete": DELETED,
}
Row = tuple[object, ...]
Change = tuple[str, Row]


@dataclass(frozen=True, slots=True)
class Told:
    """A statement was done; `text` says what."""

    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What SHOW, DESCRIBE and EXPLAIN print."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows of a batch query."""

    rows: DataFrame


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """A streaming query whose changes are to be shown as they come."""

    rows: DataFrame
    action: ShowRows
    ends: bool
    """Its sources come to an end, or it reads only what there is now."""


@dataclass(frozen=True, slots=True)
class Started:
    """A job that was started, or went on."""

    job: PipelineJob
    is_new: bool


@dataclass(frozen=True, slots=True)
class Cleared:
    """The terminal is to be cleared."""


@dataclass(frozen=True, slots=True)
class Left:
    """The script or shell is to be left."""


Outcome = Told | Listed | SelectedRows | FollowedRows | Started | Cleared | Left


def listed(**columns: Iterable[object]) -> Listed:
    """Make a listing of texts; names of columns have spaces in place of underscores."""
    arrays = {
        name.replace("_", " "): pa.array(
            [None if v is None else str(v) for v in values], pa.string()
        )
        for name, values in columns.items()
    }
    return Listed(pa.table(arrays))


# The changes of a streaming result.


@dataclass(slots=True)
class ResultChanges:
    """Turns the rows of micro-batches into changes, and keeps the result."""

    action: ShowRows
    names: tuple[str, ...]
    """The columns that are shown."""
    _by_key: dict[Row, Row] = field(default_factory=dict)
    _rows: Counter[Row] = field(default_factory=Counter)

    def fold(self, table: pa.Table) -> list[Change]:
        """Take the rows of a micro-batch, and return what they change."""
        columns = [table.column(name).to_pylist() for name in self.names]
        rows: Iterable[Row] = zip(*columns, strict=True)
        if self.action.has_changes:
            kinds = map(str, table.column(CHANGE_COLUMN).to_pylist())
            found = [(_SIGNS.get(kind, kind), row) for kind, row in zip(kinds, rows, strict=True)]
        elif self.action.mode is ResultMode.COMPLETE:
            found = list(self._differences(Counter(map(_hashable, rows))))
        elif self.action.mode is ResultMode.UPDATE:
            found = list(self._updates(map(_hashable, rows)))
        else:
            found = [(INSERTED, row) for row in rows]
        self._apply(found)
        return found

    def _updates(self, rows: Iterable[Row]) -> Iterator[Change]:
        if not self.action.key:
            yield from ((AFTER, row) for row in rows)
            return
        places = [self.names.index(name) for name in self.action.key if name in self.names]
        for row in rows:
            key = tuple(row[place] for place in places)
            before = self._by_key.get(key)
            self._by_key[key] = row
            if before is None:
                yield INSERTED, row
            elif before != row:
                yield from ((BEFORE, before), (AFTER, row))

    def _differences(self, now: Counter[Row]) -> Iterator[Change]:
        yield from ((DELETED, row) for row in (self._rows - now).elements())
        yield from ((INSERTED, row) for row in (now - self._rows).elements())

    def _apply(self, changes: Sequence[Change]) -> None:
        for sign, row in changes:
            held = _hashable(row)
            if sign in (INSERTED, AFTER):
                self._rows[held] += 1
            elif self._rows[held] > 1:
                self._rows[held] -= 1
            else:
                del self._rows[held]

    def result(self) -> list[Row]:
        """The result after all changes so far."""
        return list(self._rows.elements())


def _hashable(row: Sequence[object]) -> Row:
    return tuple(_frozen(value) for value in row)


def _frozen(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(each)) for key, each in value.items())
    return value


def changes_table(changes: Sequence[Change], schema: pa.Schema) -> pa.Table:
    """Changes as rows, with the kind of each first."""
    columns = [pa.array([sign for sign, _ in changes], pa.string())]
    for number, each in enumerate(schema):
        columns.append(pa.array([_thawed(row[number], each.type) for _, row in changes], each.type))
    return pa.Table.from_arrays(columns, names=[OP, *schema.names])


def rows_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows of a result as a table."""
    columns = [
        pa.array([_thawed(row[number], each.type) for row in rows], each.type)
        for number, each in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _thawed(value: object, kind: pa.DataType) -> object:
    if pa.types.is_struct(kind) and isinstance(value, tuple):
        return dict(value)
    return value
