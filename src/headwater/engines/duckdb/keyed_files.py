"""Tails by key as files: the rows that their changes leave, and the positions that they hide.

DuckDB joins lake rows with changed keys at several times the cost of leaving out rows by their
position in a file, and it takes a stream for a single row when it plans joins. So a tail becomes a
Parquet file, and changed keys become files of deleted positions. Both hold for one position only
and cost more than one query saves: a tail that is long is written, and positions are looked for,
only when a position is asked for again.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.client.sync.scan import View
from headwater.engines.duckdb.sql import POSITION_COLUMNS
from headwater.engines.duckdb.tail_files import (
    BYTES_MAX,
    ROWS_MAX,
    FileNames,
    TailPlace,
    file_names,
    tail_file,
)
from headwater.engines.storages import changed_in
from headwater.lake.split import LakeFile
from headwater.model.table import TableInfo
from headwater.read.merge.keys import Columns, Find, TableKey, finder
from headwater.read.plan import local_path
from headwater.read.split import FileGroup, Hybrid, LogRange, NativePlan

ROWS_AT_ONCE = 100_000
"""Changes of a tail that is written although nobody may ask for its position again."""
LAKE_ROWS_MAX = 50_000_000
"""Rows of touched files in which positions are looked for; more are left to DuckDB's join."""
KEYS_BYTES_MAX = 64 * 1024**2
"""Keys of lake files that are kept in memory for the next position."""
TABLES_MAX = 64


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Name the file of positions that changed keys have in files of the lake."""

    deletes: Path
    files: frozenset[str]
    """The files in which there are any."""


@dataclass(slots=True)
class _Held:
    """Hold the files of a table at one position."""

    position: object = None
    asked: int = 0
    rows: LakeFile | None = None
    is_too_long: bool = False
    hidden: "_Hidden | None" = None
    lock: Lock = field(default_factory=Lock)

    @property
    def is_whole(self) -> bool:
        """Tell whether all files are there: somebody may have cleaned up temporary ones."""
        rows = self.rows is None or Path(self.rows.path).exists()
        return rows and (self.hidden is None or self.hidden.deletes.exists())

    def begin(self, position: object) -> list[Path]:
        """Begin with a position, and return the files that no later query reads."""
        if position == self.position and self.is_whole:
            self.asked += 1
            return []
        paths = [] if self.rows is None else [Path(self.rows.path)]
        paths += [] if self.hidden is None else [self.hidden.deletes]
        self.position, self.asked = position, 1
        self.rows, self.hidden, self.is_too_long = None, None, False
        return paths


class KeyedFiles:
    """Write tails by key and what they hide, and keep the files of the newest positions."""

    def __init__(self, place: TailPlace) -> None:
        self._place = place
        self._tables: OrderedDict[int, _Held] = OrderedDict()
        self._keys = _FileKeys()
        self._lock = Lock()

    def with_tail(self, view: View, plan: NativePlan) -> NativePlan:
        """Return a plan that reads files; as much of it as is worth writing at this position.

        1. Write the rows that the changes leave. 2. Find the positions of changed keys in the
        files that they touch, and write these like deletes of the lake.
        """
        table = view.value.table
        names = file_names(table.schema, plan)
        if names is None or plan.others or not plan.tail or not table.is_keyed:
            return plan
        held = self._of(table.table_id)
        with held.lock:
            self._place.retire(held.begin(_position(view, names)))
            if held.rows is None and not held.is_too_long and _is_worth_it(plan, held.asked):
                held.rows = self._written(view, plan, names)
                held.is_too_long = held.rows is None
            if held.hidden is None and held.asked > 1:
                held.hidden = self._hidden(view, plan)
            return _with_files(plan, held)

    def _of(self, table_id: int) -> _Held:
        with self._lock:
            held = self._tables.setdefault(table_id, _Held())
            self._tables.move_to_end(table_id)
            while len(self._tables) > TABLES_MAX:
                _, oldest = self._tables.popitem(last=False)
                self._place.retire(oldest.begin(None))
            return held

    def _written(self, view: View, plan: NativePlan, names: FileNames) -> LakeFile | None:
        """Write the rows that the changes leave; None if they are too many."""
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in view.tail_rows(plan.tail):
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > ROWS_MAX or size > BYTES_MAX:
                return None
        called = dict(names)
        schema = view.value.table.schema
        found = pa.Table.from_batches(batches, schema=view.schema)
        found = found.rename_columns([called[column.column_id] for column in schema.columns])
        path = self._place.write(found)
        return None if path is None else tail_file(path, rows, names)

    def _hidden(self, view: View, plan: NativePlan) -> _Hidden | None:
        """Find the positions that changed keys have in touched files; None if DuckDB should."""
        touched = [group for group in plan.groups if group.is_touched]
        rows = sum(file.row_count for group in touched for file in group.files)
        columns = {name.casefold() for group in touched for _, name in group.names}
        if not touched or rows > LAKE_ROWS_MAX or columns & POSITION_COLUMNS:
            return None
        key, found = TableKey.of(view.value.table), dict[str, npt.NDArray[np.int64]]()
        for group in touched:
            changed = view.changed_keys(changed_in(plan.tail, group)).combine_chunks()
            is_changed = _finder(key, changed)
            for file in group.files:
                keys = self._keys.of(view.value.table, file)
                if keys is None:
                    return None
                masks = [is_changed(some) for some in keys]
                if any(mask.any() for mask in masks):
                    found[file.path] = np.flatnonzero(np.concatenate(masks))
        path = self._place.write(_deletes(found))
        return None if path is None else _Hidden(path, frozenset(found))


def _position(view: View, names: FileNames) -> object:
    """Return what tells positions of a table apart."""
    value = view.value
    snapshot = None if value.snapshot is None else value.snapshot.snapshot_id
    return value.table.schema_id, names, snapshot, dict(value.logs)


def _is_worth_it(plan: NativePlan, asked: int) -> bool:
    """Tell whether the rows of a tail are written now; how many a state has is not known."""
    tails = [split.tail if isinstance(split, Hybrid) else split for split in plan.tail]
    logs = [tail for tail in tails if isinstance(tail, LogRange)]
    changes = sum(log.offsets.end - log.offsets.start for log in logs)
    is_short = len(logs) == len(tails) and changes <= ROWS_AT_ONCE
    return is_short or (asked > 1 and changes <= ROWS_MAX)


def _with_files(plan: NativePlan, held: _Held) -> NativePlan:
    groups, tail = plan.groups, plan.tail
    if held.hidden is not None:
        groups = tuple(chain.from_iterable(_divided(group, held.hidden) for group in groups))
    if held.rows is not None:
        groups, tail = (*groups, FileGroup(files=(held.rows,), is_touched=False)), ()
    return replace(plan, groups=groups, tail=tail)


def _divided(group: FileGroup, hidden: _Hidden) -> Iterator[FileGroup]:
    """Yield the files of a group, those with hidden positions apart."""
    if not group.is_touched:
        yield group
        return
    deletes = str(hidden.deletes)
    marked = [
        replace(file, deletes=(*file.deletes, deletes)) if file.path in hidden.files else file
        for file in group.files
    ]
    for has_deletes in (True, False):
        files = tuple(file for file in marked if bool(file.deletes) == has_deletes)
        if files:
            yield FileGroup(files=files, is_touched=False)


def _finder(key: TableKey, changed: pa.Table) -> Find:
    batches = changed.to_batches()
    assert len(batches) <= 1, "chunks were combined"
    return finder(key.columns(batches[0])) if batches else lambda rows: np.zeros(len(rows[0]), bool)


def _deletes(positions: Mapping[str, npt.NDArray[np.int64]]) -> pa.Table:
    """Return positions in files in the form that lakes delete them."""
    counts = [len(each) for each in positions.values()]
    numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    paths = pa.DictionaryArray.from_arrays(
        pa.array(numbers), pa.array(list(positions), pa.string())
    )
    rows = np.concatenate([np.array([], np.int64), *positions.values()])
    return pa.table({"file_path": paths, "pos": pa.array(rows)})


# The keys of lake files, kept in memory for the next position.


class _FileKeys:
    """Read the keys of files, and keep those that were used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[list[Columns], int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(self, table: TableInfo, file: LakeFile) -> list[Columns] | None:
        """Return the keys of all rows of a file in order; None if a file does not have them."""
        name = table.table_id, file.path
        with self._lock:
            if (kept := self._kept.get(name)) is not None:
                self._kept.move_to_end(name)
                return kept[0]
        keys = _read_keys(table, file)
        if keys is not None:
            self._keep(name, keys)
        return keys

    def _keep(self, name: tuple[int, str], keys: list[Columns]) -> None:
        size = sum(column.nbytes for some in keys for column in some)
        with self._lock:
            if size > KEYS_BYTES_MAX or name in self._kept:
                return
            self._kept[name] = keys, size
            self._bytes += size
            while self._bytes > KEYS_BYTES_MAX:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._bytes -= dropped


def _read_keys(table: TableInfo, file: LakeFile) -> list[Columns] | None:
    called = dict(file.names or ())
    key = TableKey.of(table)
    names = [called.get(table.schema.column(name).column_id) for name in key.distinct]
    if None in names:
        return None
    with pq.ParquetFile(local_path(file.path)) as opened:
        if not set(names) <= set(opened.schema_arrow.names):
            return None
        rows = opened.read(columns=names)
    if rows.num_rows != file.row_count or set(rows.column_names) != set(names):
        return None
    rows = rows.select(names).rename_columns(list(key.distinct))
    return [key.columns(batch) for batch in rows.to_batches()]
