"""Tails as Parquet files: what the lake does not hold of a table at a position, bucket by bucket.

The files of a log table hold ranges of offsets, which never change: the next load writes only what
came since. By key, the changes of a bucket leave rows, and hide rows of the lake, whose positions
are written as deletes; both hold for one position. Where the lake is none of Iceberg's, all rows
are written, whatever tier they come from.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.typedef import Record

from headwater.client.sync.scan import View
from headwater.doors.iceberg.origins import TableOrigin
from headwater.errors import UnsupportedError
from headwater.lake.iceberg import data_files
from headwater.lake.iceberg.catalog import reached
from headwater.lake.iceberg.files import HeldFile
from headwater.lake.iceberg.read import Positions
from headwater.lake.iceberg.types import FIELD_ID, fitted, parquet_schema
from headwater.lake.iceberg.write import DELETES_SCHEMA, FileColumns, OlderRows
from headwater.model import LakeBucket, OffsetRange
from headwater.read.split import Hybrid, LakeFiles, LogRange, Split, StateAt, rows_max_of

PIECES_FEW = 6
"""Files of a bucket's tail above which small ones are put together."""
_GROWTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPiece:
    """Files with rows of one bucket."""

    files: tuple[DataFile, ...]
    offsets: OffsetRange | None = None
    """The rows of a log that they hold; None where they hold something else."""
    source: Hashable = None
    """What they were made of, where that is no range of a log."""


BucketName: TypeAlias = tuple[str | None, LakeBucket | None, int]
Pieces: TypeAlias = Mapping[BucketName, Sequence[TailPiece]]


@dataclass(slots=True)
class TailTally:
    """What a load wrote."""

    rows: int = 0
    files: int = 0
    byte_count: int = 0

    def add(self, files: Sequence[DataFile]) -> None:
        """Count files of rows and of deletes."""
        self.rows += sum(
            file.record_count for file in files if file.content == DataFileContent.DATA
        )
        self.files += len(files)
        self.byte_count += data_files.byte_count(files)


# Which files are kept, and which rows are written: decided, not done.


def kept_pieces(held: Sequence[TailPiece], wanted: OffsetRange) -> list[TailPiece]:
    """Return the pieces that hold the beginning of a range, without a gap and nothing beyond."""
    kept: list[TailPiece] = []
    at = wanted.start
    for piece in held:
        offsets = piece.offsets
        if offsets is not None and offsets.start == at and offsets.end <= wanted.end:
            kept.append(piece)
            at = offsets.end
    return kept


def extension(
    held: Sequence[TailPiece], wanted: OffsetRange
) -> tuple[list[TailPiece], OffsetRange]:
    """Return the pieces to keep, and the range to write behind them.

    If there are many pieces, the last ones are written anew with what is missing, as far back as
    they are not much larger: each row is written a few times at most.
    """
    kept = kept_pieces(held, wanted)
    start = _end_of(kept, wanted)
    if start < wanted.end and len(kept) >= PIECES_FEW:
        while kept and _length(kept[-1]) <= _GROWTH * (wanted.end - start):
            start -= _length(kept.pop())
    return kept, OffsetRange(start, wanted.end)


def _end_of(kept: Sequence[TailPiece], wanted: OffsetRange) -> int:
    last = kept[-1].offsets if kept else None
    return wanted.start if last is None else last.end


def _length(piece: TailPiece) -> int:
    assert piece.offsets is not None
    return piece.offsets.end - piece.offsets.start


# Writing.


@dataclass(slots=True, kw_only=True)
class TailWriter:
    """Writes the tail of one view into the folder of a door. Used by one thread, once."""

    view: View
    origin: TableOrigin
    location: str
    """The folder into which it writes."""
    rows_max: int
    written: TailTally = field(default_factory=TailTally)
    begun: list[data_files.ParquetFiles] = field(default_factory=list)

    def pieces(self, held: Pieces) -> dict[BucketName, tuple[TailPiece, ...]]:
        """Return the files of the tail, of which those that are held already are not written.

        Whatever was written is removed if it cannot be finished.
        """
        try:
            found: dict[BucketName, tuple[TailPiece, ...]] = {}
            for split in self.view.plan().splits:
                pieces = self._of_split(split, held)
                if pieces:
                    found.setdefault(name_of(split), ())
                    found[name_of(split)] += tuple(pieces)
        except BaseException:
            for files in self.begun:
                files.abort()
            raise
        return found

    def _of_split(self, split: Split, held: Pieces) -> list[TailPiece]:
        has_lake = self.origin.snapshot is not None
        if isinstance(split, LakeFiles) and has_lake:
            return []
        here = held.get(name_of(split), ())
        if isinstance(split, LogRange) and not self.view.value.table.is_keyed:
            return self._of_log(split, here)
        source = self._source(split)
        known = [piece for piece in here if piece.source == source]
        if known:
            return known
        rows = (
            self.view.tail_rows([split], columns=self._names)
            if has_lake
            else self.view.read([split], columns=self._names)
        )
        files = self._written(split, rows)
        if isinstance(split, Hybrid) and has_lake:
            files += self._deletes(split)
        return [TailPiece(files=files, source=source)]

    def _of_log(self, split: LogRange, held: Sequence[TailPiece]) -> list[TailPiece]:
        kept, missing = extension(held, split.offsets)
        if missing.start < missing.end:
            rows = self.view.tail_rows([replace(split, offsets=missing)], columns=self._names)
            kept.append(TailPiece(files=self._written(split, rows), offsets=missing))
        return kept

    def _source(self, split: Split) -> Hashable:
        """Return what tells the rows of a split from others of its bucket."""
        snapshot, table = self.view.value.snapshot, self.view.value.table
        number = None if split.lake is None or snapshot is None else snapshot.snapshot_id
        paths = () if split.lake is None else tuple(file.path for file in split.lake.files)
        kind = StateAt if isinstance(split.tail, StateAt) else LogRange
        return table.schema_id, number, hash(paths), kind.__name__, split.log

    @property
    def _names(self) -> list[str]:
        """The columns that the Iceberg table has: at an earlier position there may be others."""
        return [self.origin.spec.schema.columns[at].name for at in self._columns_at]

    @property
    def _columns_at(self) -> list[int]:
        fields = {field.field_id for field in self.origin.metadata.schema().fields}
        ids = self.origin.place(self.location).ids.fields
        columns = self.origin.spec.schema.columns
        return [at for at, each in enumerate(columns) if ids.get(each.column_id) in fields]

    def _columns(self) -> FileColumns:
        place = self.origin.place(self.location)
        columns = [self.origin.spec.schema.columns[at] for at in self._columns_at]
        at = {place.ids.fields[each.column_id]: number for number, each in enumerate(columns)}
        fields = place.schema.fields
        return FileColumns(
            schema=parquet_schema(fields),
            sources=tuple(at.get(field.field_id) for field in fields),
        )

    def _written(self, split: Split, rows: Iterator[pa.RecordBatch]) -> tuple[DataFile, ...]:
        columns, place = self._columns(), self.origin.place(self.location)
        names = data_files.FileNames(place=place, partition=(), bucket=max(split.bucket, 0))
        files = data_files.IcebergDataFiles.of(
            place, names, io=self.origin.io(), schema=columns.schema
        )
        self.begun.append(files.files)
        count = self.written.rows
        with reached(f"Writing the tail of {self.origin.spec.path}"):
            for batch in rows:
                files.write(columns.fitted(batch))
                count += batch.num_rows
                if count > self.rows_max:
                    raise tail_too_long(self.view, f"more than {self.rows_max:,}", self.rows_max)
            found = tuple(files.finish())
        self.written.add(found)
        return found

    # ---- by key

    def _deletes(self, split: Hybrid) -> tuple[DataFile, ...]:
        """Write the positions that the changed keys of a bucket have in files of the lake."""
        changed = self.view.changed_keys([split])
        held = [self.origin.held[file.path] for file in split.files.files]
        schema = self._key_schema()
        names = self._key_names()
        older = OlderRows(self.origin.io(), schema, held)
        columns = [
            pa.chunked_array([fitted(each, kind.type) for each in changed.column(name).chunks])
            if changed.num_rows
            else changed.column(name)
            for name, kind in zip(names, schema, strict=True)
        ]
        with reached(f"Looking for changed keys in the files of {self.origin.spec.path}"):
            older.take_away(columns)
            found: list[DataFile] = []
            for (spec_id, record), files in _alike(held, older.taken):
                found += self._positions(files, older.taken, spec_id=spec_id, record=record)
        self.written.add(found)
        return tuple(found)

    def _positions(
        self,
        files: Sequence[HeldFile],
        taken: Mapping[str, Positions],
        *,
        spec_id: int,
        record: Record,
    ) -> list[DataFile]:
        place = self.origin.place(self.location)
        names = data_files.FileNames(place=place, partition=(), bucket=0)
        writer = data_files.ParquetFiles(
            io=self.origin.io(),
            schema=parquet_schema(DELETES_SCHEMA.fields),
            settings=data_files.ParquetSettings.of(place.properties),
            new_location=names.deletes,
        )
        self.begun.append(writer)
        for path in sorted(held.file.file_path for held in files):
            writer.write(_rows(path, taken[path], writer.schema))
        writer.end_file()
        found = [
            data_files.described(
                file,
                place,
                record=record,
                content=DataFileContent.POSITION_DELETES,
                schema=DELETES_SCHEMA,
            )
            for file in writer.written
        ]
        for each in found:
            each.spec_id = spec_id
        return found

    def _key_names(self) -> tuple[str, ...]:
        spec = self.origin.spec
        return spec.row_keys or spec.schema.primary_key

    def _key_schema(self) -> pa.Schema:
        """Return the columns that tell rows of a bucket apart, as data files have them."""
        place, schema = self.origin.place(self.location), self._columns().schema
        by_id = {int(field.metadata[FIELD_ID]): field for field in schema}
        columns = [self.origin.spec.schema.column(name) for name in self._key_names()]
        return pa.schema([by_id[place.ids.fields[each.column_id]] for each in columns])


def name_of(split: Split) -> BucketName:
    """Return what tells the buckets of a table apart, also those that its storage dropped."""
    return split.partition, split.log_bucket, split.bucket


def _alike(
    held: Sequence[HeldFile], taken: Mapping[str, Positions]
) -> Iterator[tuple[tuple[int, Record], list[HeldFile]]]:
    """Group the files that lose rows by what a delete file has in common with them."""

    def key(each: HeldFile) -> tuple[int, str]:
        return each.file.spec_id, repr(each.file.partition)

    losing = sorted((each for each in held if each.file.file_path in taken), key=key)
    for _, group in groupby(losing, key=key):
        files = list(group)
        yield (files[0].file.spec_id, files[0].file.partition), files


def _rows(path: str, positions: Positions, schema: pa.Schema) -> pa.RecordBatch:
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int8), pa.array([path]))
    columns = [paths.cast(pa.string()), pa.array(positions)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# Tails that are too long.


def check_length(view: View, *, has_lake: bool, rows_max: int) -> None:
    """Refuse a tail that is longer than the limit before anything of it is read.

    How many rows a state has is not known: those are counted while they are written.
    """
    rows = 0
    for split in view.plan().splits:
        if isinstance(split.tail, LogRange):
            rows += rows_max_of(split.tail)
        if split.lake is not None and not has_lake:
            rows += split.lake.row_count
    if rows > rows_max:
        raise tail_too_long(view, f"{rows:,}", rows_max)


def tail_too_long(view: View, rows: str, rows_max: int) -> UnsupportedError:
    """Tell how far tiering is behind, and what can be read instead."""
    lag = view.explain().lake_lag_s
    behind = (
        "nothing of the table is in an Iceberg lake yet"
        if view.value.snapshot is None or lag is None
        else f"tiering is {_told(lag)} behind"
    )
    return UnsupportedError(
        f"The tail of {view.path} has {rows} rows, more than the {rows_max:,} of "
        f"--tail-rows-max: {behind}.",
        hint=f"Let tiering catch up (headwater tier {view.path} --once), raise the limit, or read "
        f"what the lake holds: {view.path}@lake",
    )


def _told(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"
