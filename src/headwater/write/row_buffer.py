"""Single rows that a writer holds until there are enough of them for a batch.

A row that comes alone must cost next to nothing: no Arrow batch, no other thread, no turn of the
event loop. So its values are taken out of it in the caller's thread and put behind those before
it; columns are made of many rows at once when a batch is cut. What can never fit (an unknown
column, a value of a wrong type, a missing one) is refused at the call. Only a value that is wrong
in itself, such as a number that is too large, is found at the cut; its error names the row.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from operator import itemgetter
from types import NoneType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError
from headwater.rows.admission import check_nulls
from headwater.rows.plain_values import column_of
from headwater.write.rows_in import WantedSchema, as_mapping, is_columns, wanted_batches

Values: TypeAlias = tuple[object, ...]
Kinds: TypeAlias = tuple[type, ...]

KINDS_MAX = 1024
"""Combinations of types that are remembered as fitting."""
VALUE_BYTES = 8
"""What a value counts, besides the length of texts."""
_SHOWN_CHARACTERS_MAX = 200
_SIZED = frozenset({str, bytes})
_FIXED = frozenset({int, float, bool, NoneType, date, datetime, time, Decimal})
_PLAIN = _SIZED | _FIXED
_MUTABLE = (list, tuple, dict, bytearray, memoryview, np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Hold the places of values that have a length, and of those that their owner may change."""

    sized: tuple[int, ...]
    copied: tuple[int, ...]


class RowParser:
    """Take rows of some columns apart, one at a time."""

    def __init__(self, wanted: WantedSchema) -> None:
        self.wanted = wanted
        self._names = tuple(wanted.schema.names)
        self._pick = _picker(self._names)
        self._fitting: dict[Kinds, _Fitting] = {}

    def taken(self, row: object) -> tuple[Values, int] | None:
        """Return the values of a single row and about how many bytes they are.

        None says that it is something else: columns, many rows, or values that cannot be held.
        """
        whole = True
        if type(row) is dict:
            try:
                values = self._pick(row)
            except KeyError:
                values = None
            if values is None or len(row) != len(self._names):
                values, whole = self._filled(row), False
        else:
            mapping = _mapping(row, self._names)
            if mapping is None:
                return None
            values, whole = self._filled(mapping), False
        kinds = tuple(map(type, values))
        fitting = self._fitting.get(kinds)
        if fitting is None:
            fitting = self._learned(kinds, row, whole=whole)
            if fitting is None:
                return None
        size = VALUE_BYTES * len(values)
        for at in fitting.sized:
            size += len(values[at])  # type: ignore[arg-type]
        return _copied(values, fitting.copied, size) if fitting.copied else (values, size)

    def widened(self, keys: "RowParser", values: Values) -> Values:
        """Return the values of a key among those of a whole row, which are missing."""
        given = dict(zip(keys.wanted.schema.names, values, strict=True))
        return tuple(map(given.get, self._names))

    def batch(self, rows: Sequence[Values], deletes: Sequence[int]) -> pa.RecordBatch:
        """Return rows as a batch, or raise what is wrong with a value; deletes have keys only."""
        schema = self.wanted.schema
        columns = zip(*rows, strict=True)
        arrays = [column_of(each, field) for each, field in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        kept = batch
        if any(deletes):
            kept = batch.filter(pa.array(np.frombuffer(bytes(deletes), np.uint8) == 0))
        check_nulls(kept, self.wanted.checked)
        return batch

    def shown(self, values: Values) -> str:
        """Return a row as people would write it, cut where it is long."""
        text = repr(dict(zip(self._names, values, strict=True)))
        is_long = len(text) > _SHOWN_CHARACTERS_MAX
        return f"{text[:_SHOWN_CHARACTERS_MAX]}…" if is_long else text

    def _filled(self, row: Mapping[str, object]) -> Values:
        """Return the values of a row that has other columns than the wanted, or leaves some out."""
        self.wanted.names.check_known(list(row))
        return tuple(map(row.get, self._names))

    def _learned(self, kinds: Kinds, row: object, *, whole: bool) -> _Fitting | None:
        """Look at a row whose combination of types is new, and refuse it if it cannot be written.

        Where values are missing, types alone do not tell a row of arrays from columns.
        """
        is_plain = _PLAIN.issuperset(kinds)
        if not is_plain:
            if isinstance(row, Mapping) and is_columns(row, self.wanted.table):
                return None
            if not all(kind in _PLAIN or issubclass(kind, _MUTABLE) for kind in kinds):
                return None
        for _ in wanted_batches([row] if isinstance(row, tuple) else row, self.wanted):  # type: ignore[arg-type]
            pass
        fitting = _Fitting(
            tuple(at for at, kind in enumerate(kinds) if kind in _SIZED),
            tuple(at for at, kind in enumerate(kinds) if kind not in _PLAIN),
        )
        if is_plain or whole:
            if len(self._fitting) >= KINDS_MAX:
                self._fitting.clear()
            self._fitting[kinds] = fitting
        return fitting


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, object]], Values]:
    if len(names) > 1:
        return itemgetter(*names)
    name = names[0]
    return lambda row: (row[name],)


def _mapping(row: object, names: Sequence[str]) -> Mapping[str, object] | None:
    """Return a single row that is no dictionary as a mapping, None if it is no single row."""
    if isinstance(row, Mapping):
        return row
    # Tuples of anything else than plain values hold rows rather than being one.
    if isinstance(row, tuple) and row and type(row[0]) in _PLAIN:
        return as_mapping(row, names)
    return None


def _copied(values: Values, places: Sequence[int], size: int) -> tuple[Values, int]:
    held = list(values)
    for at in places:
        held[at], length = _copy(held[at])
        size += length
    return tuple(held), size


def _copy(value: object) -> tuple[object, int]:
    """Copy a value that its owner may change before it is written; tell about how large it is."""
    match value:
        case dict():
            pairs = [(_copy(key), _copy(each)) for key, each in value.items()]
            size = sum(key[1] + each[1] for key, each in pairs)
            return {key[0]: each[0] for key, each in pairs}, size
        case list() | tuple():
            copies = [_copy(each) for each in value]
            held = [each[0] for each in copies]
            size = sum(each[1] for each in copies)
            return (held if isinstance(value, list) else tuple(held)), size
        case bytearray() | memoryview():
            return bytes(value), len(value)
        case np.ndarray():
            return value.copy(), value.nbytes
        case str() | bytes():
            return value, len(value)
        case _:
            return value, VALUE_BYTES


@dataclass(slots=True)
class RowRun:
    """Hold rows in their order, and which of them delete."""

    form: RowParser
    first: int
    rows: list[Values] = field(default_factory=list)
    deletes: bytearray = field(default_factory=bytearray)

    def batch(self) -> tuple[pa.RecordBatch | None, InvalidValueError | None]:
        """Return the rows before the first that cannot be written, and why it cannot.

        What was taken behind such a row is not written either, so that whoever is told its number
        knows what is written: all rows before it, and none behind it.
        """
        try:
            return self._batch(0, len(self.rows)), None
        except InvalidValueError as fault:
            at, why = self._first_bad(fault)
        batch = self._batch(0, at) if at else None
        return batch, self._named(at, why)

    def _first_bad(self, why: InvalidValueError) -> tuple[int, InvalidValueError]:
        """Return the place of the first row that cannot be written, and why; one is known to."""
        good, end = 0, len(self.rows)
        while end - good > 1:
            middle = (good + end) // 2
            try:
                self._batch(good, middle)
                good = middle
            except InvalidValueError as fault:
                end, why = middle, fault
        return good, why

    def _batch(self, start: int, end: int) -> pa.RecordBatch:
        return self.form.batch(self.rows[start:end], self.deletes[start:end])

    def _named(self, at: int, fault: InvalidValueError) -> InvalidValueError:
        shown = self.form.shown(self.rows[at])
        return InvalidValueError(
            f"Row {self.first + at + 1} that this writer took, {shown}, cannot be written, and"
            f" those after it were not: {fault.message}",
            hint=fault.hint,
        )


class RowBuffer:
    """Hold rows in order, up to what makes one batch; may be used from any thread."""

    def __init__(
        self, form: RowParser, *, rows_max: int, bytes_max: int, mixes_deletes: bool
    ) -> None:
        self._form = form
        self._mixes_deletes = mixes_deletes
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._runs: list[RowRun] = []
        self._rows = 0
        self._bytes = self._last = 0
        self._taken = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether no row is held."""
        return not self._rows

    @property
    def is_full(self) -> bool:
        """Tell whether what is held makes a batch: one more row like the last would be too many."""
        return self._rows >= self._rows_max or self._bytes + self._last > self._bytes_max

    def add(self, values: Values, size: int, *, deletes: bool) -> bool:
        """Put a row behind the others; tell whether it is the first."""
        with self._lock:
            runs = self._runs
            if not runs or not (self._mixes_deletes or runs[-1].deletes[-1] == deletes):
                runs.append(RowRun(self._form, self._taken))
            runs[-1].rows.append(values)
            runs[-1].deletes.append(deletes)
            self._taken += 1
            self._bytes += size
            self._last = size
            self._rows += 1
            return self._rows == 1

    def cut(self) -> list[RowRun]:
        """Take all rows out."""
        with self._lock:
            runs, self._runs = self._runs, []
            self._rows = self._bytes = self._last = 0
            return runs
