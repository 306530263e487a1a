"""Where older rows of changed keys stand, in files of the lake and in those just written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from headwater.lake.folding import KeySet
from headwater.lake.iceberg.reading import (
    Positions,
    deleted_positions,
    merged,
    read_columns,
    without,
)
from headwater.lake.iceberg.tasks import HeldFile
from headwater.lake.iceberg.types import FIELD_ID

_Raw = int | bytes
_NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class OlderRows:
    """Collect the positions that changed keys take away from files."""

    io: FileIO
    keys: pa.Schema
    """The key columns as they stand in data files, with the ids of their fields."""
    files: list[HeldFile]
    taken: dict[str, Positions] = field(default_factory=dict)
    """What is taken away from each file beyond what was, ascending, by its path."""
    _gone: dict[str, Positions] = field(default_factory=dict)

    def take_away(self, changed: Sequence[pa.ChunkedArray]) -> None:
        """Note where rows with changed keys stand."""
        if not len(changed[0]):
            return
        keys = KeySet.of(changed)
        ranges = [_range(column) for column in changed]
        for held in self.files:
            if self._may_hold(held.file, ranges):
                self._take_from(held, keys)

    def _may_hold(self, file: DataFile, ranges: Sequence[tuple[_Raw, _Raw] | None]) -> bool:
        """Tell whether the bounds of a file leave room for a changed key."""
        for column, changed in zip(self.keys, ranges, strict=True):
            field_id = int(column.metadata[FIELD_ID])
            lower = _raw_bound((file.lower_bounds or {}).get(field_id), column.type)
            upper = _raw_bound((file.upper_bounds or {}).get(field_id), column.type)
            if changed is None or lower is None or upper is None:
                continue
            if _is_below(changed[1], lower) or _is_below(upper, changed[0]):
                return False
        return True

    def _take_from(self, held: HeldFile, keys: KeySet) -> None:
        found: list[Positions] = []
        start = 0
        fields = [int(column.metadata[FIELD_ID]) for column in self.keys]
        for rows in read_columns(self.io, held.file, schema=self.keys, fields=fields):
            found.append(np.flatnonzero(keys.mask(rows.columns)) + start)
            start += rows.num_rows
        positions = np.concatenate(found) if found else _NONE
        if not len(positions):
            return
        path = held.file.file_path
        if path not in self._gone:
            self._gone[path] = deleted_positions(self.io, held)
        new = without(positions, self._gone[path])
        if len(new):
            self.taken[path] = merged(self.taken.get(path, _NONE), new)
            self._gone[path] = merged(self._gone[path], new)


def _range(changed: pa.ChunkedArray) -> tuple[_Raw, _Raw] | None:
    """Return the lowest and highest value; None for types whose order is not worth it."""
    if pa.types.is_floating(changed.type):
        return None
    found = pc.min_max(changed)
    return _raw(found["min"]), _raw(found["max"])


def _raw(value: pa.Scalar) -> _Raw:
    """Return a value in a form that compares as bounds of files do."""
    kind = value.type
    if pa.types.is_decimal(kind):
        sign, digits, _ = value.as_py().as_tuple()
        unscaled = int("".join(map(str, digits)))
        return -unscaled if sign else unscaled
    if pa.types.is_string(kind):
        return str(value.as_py()).encode()
    if pa.types.is_date(kind):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_temporal(kind):
        return int(value.cast(pa.int64()).as_py())
    raw: _Raw = value.as_py()
    return raw


def _is_below(value: _Raw, other: _Raw) -> bool:
    if isinstance(value, bytes):
        assert isinstance(other, bytes)
        return value < other
    assert not isinstance(other, bytes)
    return value < other


def _raw_bound(bound: bytes | None, kind: pa.DataType) -> _Raw | None:
    if bound is None or pa.types.is_floating(kind):
        return None
    if pa.types.is_decimal(kind):
        return int.from_bytes(bound, "big", signed=True)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bound
    return int.from_bytes(bound, "little", signed=not pa.types.is_boolean(kind))
