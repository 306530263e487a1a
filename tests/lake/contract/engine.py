"""An engine that reads Parquet files by itself, knowing only what splits say of them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.lake.spi import LakeSource
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NANOS_PER_MILLI = 10**6


def path_of(location: str) -> Path:
    """Return where a file lies; locations are not quoted."""
    return Path(location.removeprefix("file://"))


def whole_file(file: LakeFile, schema: Schema) -> pa.Table:
    """Return all rows of a file under the columns of a table, deleted ones included."""
    assert file.is_native
    names = dict(file.names)
    with pq.ParquetFile(path_of(file.path)) as parquet:
        held = parquet.read(columns=list(names.values()))
        assert set(names.values()) <= set(held.column_names)
        count = parquet.metadata.num_rows
    columns = [
        held[names[column.column_id]].cast(field.type)
        if column.column_id in names
        else pa.nulls(count, field.type)
        for column, field in zip(schema.columns, arrow_schema(schema), strict=True)
    ]
    return pa.table(columns, schema=arrow_schema(schema))


def current_rows(file: LakeFile, schema: Schema) -> pa.Table:
    """Return the rows of a file but for those at positions that its deletes name."""
    rows = whole_file(file, schema)
    keep = np.ones(rows.num_rows, np.bool_)
    for location in file.deletes:
        deletes = pq.read_table(path_of(location), partitioning=None)
        here = deletes.filter(pc.equal(deletes["file_path"], file.path))
        keep[here["pos"].to_numpy()] = False
    return rows.filter(pa.array(keep))


def check_bounds(file: LakeFile, rows: pa.Table, schema: Schema) -> None:
    """Fail if a value lies outside of what a file says of its column."""
    names = {column.column_id: column.name for column in schema.columns}
    assert len({bounds.column_id for bounds in file.bounds}) == len(file.bounds)
    for bounds in file.bounds:
        values = rows[names[bounds.column_id]]
        assert bounds.null_count in (None, values.null_count)
        _check(bounds, [each for each in _literals(values) if each is not None])


def _texts(rows: Iterable[pa.RecordBatch]) -> list[str]:
    return sorted(str(row) for batch in rows for row in batch.to_pylist())


def check_split(source: LakeSource, split: LakeSplit, schema: Schema) -> None:
    """Read natively what can be, the rest by the source, and compare with the whole split."""
    native = [file for file in split.files if file.is_native]
    others = tuple(file for file in split.files if not file.is_native)
    found: list[str] = []
    for file in native:
        check_bounds(file, whole_file(file, schema), schema)
        rows = _texts(current_rows(file, schema).to_batches())
        assert rows == _texts(source.read(replace(split, files=(file,))))
        found += rows
    found += _texts(source.read(replace(split, files=others))) if others else []
    assert sorted(found) == _texts(source.read(split))


def _check(bounds: ColumnBounds, values: list[object]) -> None:
    is_unknown = bounds.lower is None and bounds.upper is None
    assert is_unknown or not any(value != value for value in values)  # noqa: PLR0124
    assert bounds.lower is None or all(bounds.lower <= value for value in values), bounds
    assert bounds.upper is None or all(value <= bounds.upper for value in values), bounds
    assert is_unknown or all(type(value) is type(bounds.lower) for value in values), bounds


def _literals(values: pa.ChunkedArray) -> list[object]:
    kind = values.type
    if not pa.types.is_temporal(kind):
        return values.to_pylist()
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    numbers = values.cast(width).to_pylist()
    if pa.types.is_date(kind):
        return numbers
    nanos = [None if each is None else each * _NANOS[kind.unit] for each in numbers]
    if pa.types.is_timestamp(kind):
        return nanos
    return [None if each is None else each // _NANOS_PER_MILLI for each in nanos]
