"""The current rows of data files: columns found by the ids of their fields, deletes left out."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from headwater.errors import LakeSnapshotMissingError, UnsupportedError
from headwater.lake.damage import check_count, decoded, read_whole
from headwater.lake.iceberg.arrays import fitted
from headwater.lake.iceberg.tasks import HeldFile, scoped_path
from headwater.lake.iceberg.types import FIELD_ID

_BATCH_ROWS = 128 * 1024

Positions = npt.NDArray[np.int64]


def read_rows(
    io: FileIO, held: HeldFile, *, schema: pa.Schema, fields: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted.

    Every column of the schema comes from the field with the id at its place; a file that was
    written before there was such a field has nulls.
    """
    deleted = deleted_positions(io, held)
    start = 0
    for rows in read_columns(io, held.file, schema=schema, fields=fields):
        kept = _without(rows, deleted, start=start)
        start += rows.num_rows
        if kept.num_rows:
            yield kept


def deleted_positions(io: FileIO, held: HeldFile) -> Positions:
    """Return the positions of a data file that deletes take away, ascending."""
    found = [_positions(io, each, held.file.file_path) for each in held.deletes]
    if len(found) == 1:
        # Deletes of one file are written in order.
        positions = found[0]
        return positions if np.all(np.diff(positions) > 0) else np.unique(positions)
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def without(positions: Positions, others: Positions) -> Positions:
    """Return those positions that are not among others; both ascend."""
    if not len(others):
        return positions
    places = np.minimum(np.searchsorted(others, positions), len(others) - 1)
    return positions[others[places] != positions]


def merged(positions: Positions, others: Positions) -> Positions:
    """Return two lists of positions as one; both ascend, and have none in common."""
    together = np.concatenate((positions, others))
    together.sort(kind="stable")  # which merges what is in order
    return together


def read_columns(
    io: FileIO, file: DataFile, *, schema: pa.Schema, fields: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a data file, deleted rows among them."""
    with _opened(io, file) as parquet:
        with read_whole(file.file_path):
            names = _names_by_id(parquet.schema_arrow)
        if not names:
            raise UnsupportedError(
                f"The columns of the file {file.file_path} have no ids, so that nobody knows which"
                " is which.",
                hint="Rewrite it with the engine that added it to the table.",
            )
        sources = [None if field is None else names.get(field) for field in fields]
        wanted = sorted({name for name in sources if name is not None})
        if not wanted:
            yield _nulls(parquet.metadata.num_rows, schema)
            return
        batches, count = parquet.iter_batches(batch_size=_BATCH_ROWS, columns=wanted), 0
        while (rows := _next(batches, file)) is not None:
            count += rows.num_rows
            columns = [
                pa.nulls(rows.num_rows, column.type)
                if name is None
                else fitted(rows.column(name), column.type)
                for column, name in zip(schema, sources, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        check_count(file.file_path, count, expected=file.record_count)


def held_fields(io: FileIO, file: DataFile) -> frozenset[int]:
    """Return the ids of the fields that a data file has."""
    with _opened(io, file) as parquet:
        return frozenset(_names_by_id(parquet.schema_arrow))


def _opened(io: FileIO, file: DataFile) -> pq.ParquetFile:
    if file.file_format != FileFormat.PARQUET:
        raise UnsupportedError(
            f"The file {file.file_path} is of format {file.file_format.value}, not Parquet.",
            hint="Rewrite it with the engine that wrote it.",
        )
    try:
        # Also the name of a file can be damaged, and be none that can be asked for.
        with decoded(f"the Iceberg table that names {file.file_path!r}"):
            stream = io.new_input(file.file_path).open()
    except FileNotFoundError as fault:
        raise LakeSnapshotMissingError(
            f"The file {file.file_path} is gone.",
            hint="If its snapshot has expired, ask for the latest one; else somebody removed it:"
            " headwater audit tells what to do.",
        ) from fault
    with read_whole(file.file_path):
        return pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)


def _next(batches: Iterator[pa.RecordBatch], file: DataFile) -> pa.RecordBatch | None:
    with read_whole(file.file_path):
        return next(batches, None)


def _names_by_id(schema: pa.Schema) -> Mapping[int, str]:
    return {
        int(field.metadata[FIELD_ID]): field.name
        for field in schema
        if field.metadata and FIELD_ID in field.metadata
    }


def _nulls(count: int, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(count, column.type) for column in schema]
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    # A batch without columns knows its rows from the one that it was taken from.
    return pa.record_batch([pa.nulls(count)], names=["rows"]).select([])


def _without(rows: pa.RecordBatch, deleted: Positions, *, start: int) -> pa.RecordBatch:
    low, high = np.searchsorted(deleted, [start, start + rows.num_rows])
    if low == high:
        return rows
    keep = np.ones(rows.num_rows, np.bool_)
    keep[deleted[low:high] - start] = False
    return rows.take(pa.array(np.flatnonzero(keep)))


def _positions(io: FileIO, file: DataFile, path: str) -> Positions:
    names = ["pos"] if scoped_path(file) == path else ["file_path", "pos"]
    with _opened(io, file) as parquet, read_whole(file.file_path):
        if not {*names} <= {*parquet.schema_arrow.names}:
            raise pa.ArrowInvalid(f"it does not hold the columns {names}")
        read = parquet.read(columns=names)
    check_count(file.file_path, read.num_rows, expected=file.record_count)
    if len(names) > 1:
        read = read.filter(pc.equal(read.column("file_path"), path))
    found = read.column("pos")
    positions: Positions = found.to_numpy().astype(np.int64)
    return positions
