"""Reading data files under the columns of a table, whatever schema they were written under."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptFileError
from headwater.lake.damage import check_count, read_whole
from headwater.lake.dropped import values_gone
from headwater.lake.paimon.files import reaching
from headwater.lake.paimon.layout import KIND, SEQUENCE, FileLayout
from headwater.lake.paimon.schema import LakeSchema
from headwater.lake.paimon.table import PaimonTable
from headwater.model.arrow import arrow_type
from headwater.model.schema import Column

_BATCH_ROWS = 131_072
_SYSTEM_TYPES = {SEQUENCE: pa.int64(), KIND: pa.int8()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Name a column to read: the field it comes from, and what it becomes."""

    field_id: int | None
    becomes: pa.Field
    column: Column | None = None
    """The column of the table; None for a field of files as it stands there."""


def wanted_columns(table: PaimonTable, columns: Sequence[Column]) -> tuple[Wanted, ...]:
    """Return how columns of the table are read, with the types of the table."""
    return tuple(
        Wanted(
            table.field_id_of(each),
            pa.field(each.name, arrow_type(each.type), nullable=each.type.nullable),
            each,
        )
        for each in columns
    )


def wanted_fields(layout: FileLayout, schema: LakeSchema) -> tuple[Wanted, ...]:
    """Return how all fields of the lake table are read, with the types of its files."""
    return tuple(
        Wanted(held.field_id, field)
        for held, field in zip(schema.fields, layout.fields, strict=True)
    )


@dataclass(frozen=True, slots=True)
class FileReader:
    """Read data files of one table."""

    table: PaimonTable
    wanted: tuple[Wanted, ...]
    """What to read, in this order."""
    with_system: bool = False
    """Whether to read, behind the columns, what orders the rows of a key."""

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of what comes out."""
        system = [pa.field(name, kind) for name, kind in _SYSTEM_TYPES.items()]
        return pa.schema(
            [*(each.becomes for each in self.wanted), *(system if self.with_system else ())]
        )

    def batches(self, path: str, *, schema_id: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        self._check_held(path, schema_id)
        names = self._names(schema_id)
        wanted = [name for name in names if name is not None]
        with self._opened(path) as file:
            # Without columns, the rows are still to be counted.
            if not wanted:
                yield from self._blank(file.metadata.num_rows, len(names))
                return
            count = 0
            for rows in self._iterated(file, path, wanted):
                count += rows.num_rows
                with read_whole(path):
                    conformed = self._conformed(rows, names)
                yield conformed
            check_count(path, count, expected=file.metadata.num_rows)

    def whole(self, path: str, *, schema_id: int) -> pa.Table:
        """Return all rows of a file."""
        return pa.Table.from_batches(self.batches(path, schema_id=schema_id), schema=self.schema)

    def _check_held(self, path: str, schema_id: int) -> None:
        """Refuse a file that was written when a column was dropped already."""
        written = self.table.schema_of(schema_id)
        for each in self.wanted:
            if each.column is not None and self.table.is_lost(each.column, written):
                raise values_gone(self.table.spec.path, each.column.name, path)

    def _names(self, schema_id: int) -> list[str | None]:
        """Return what each column is called in a file; None if the file does not have it."""
        written = self.table.schema_of(schema_id)
        ids = [each.field_id for each in self.wanted]
        fields = [None if each is None else written.field(each) for each in ids]
        names = [None if field is None else field.name for field in fields]
        return [*names, *(_SYSTEM_TYPES if self.with_system else ())]

    def _opened(self, path: str) -> pq.ParquetFile:
        try:
            with reaching(path), read_whole(path):
                return pq.ParquetFile(
                    self.table.files.open_input(path), page_checksum_verification=True
                )
        except FileNotFoundError as fault:
            raise CorruptFileError(
                f"The data file {path} is gone.",
                hint="Its snapshot was expired while it was read: read a newer one.",
            ) from fault

    def _iterated(
        self, file: pq.ParquetFile, path: str, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        with read_whole(path):
            if missing := {*names} - {*file.schema_arrow.names}:
                raise pa.ArrowInvalid(f"it holds no column {min(missing)}")
            batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=list(names))
        while True:
            with reaching(path), read_whole(path):
                rows = next(batches, None)
            if rows is None:
                return
            yield rows

    def _conformed(self, rows: pa.RecordBatch, names: Sequence[str | None]) -> pa.RecordBatch:
        columns = [
            pa.nulls(rows.num_rows, field.type)
            if name is None
            else _cast(rows.column(name), field.type)
            for name, field in zip(names, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _blank(self, count: int, column_count: int) -> Iterator[pa.RecordBatch]:
        assert column_count == len(self.schema)
        nulls = pa.nulls(count, pa.struct(list(self.schema)))
        yield (
            pa.RecordBatch.from_arrays(
                [pa.nulls(count, field.type) for field in self.schema], schema=self.schema
            )
            if column_count
            else pa.RecordBatch.from_struct_array(nulls)
        )


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)
