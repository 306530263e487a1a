"""Rows of a Parquet file of the lake without deleted positions, for engines that count no rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.client.union.native import local_path
from headwater.engines.arrow.dataset import Rows
from headwater.lake.split import LakeFile

_BATCH_ROWS = 128 * 1024


class FileRows:
    """Be the rows of one file that are not deleted, as the table has them.

    `names` are those that columns of the table have in the file; the others are null. An engine
    that was given nulls of its own would work them into conditions, which not all of them can.
    """

    def __init__(self, file: LakeFile, schema: pa.Schema, names: Mapping[str, str]) -> None:
        self._file = file
        self._names = names
        self.schema = schema

    def read(
        self,
        columns: Sequence[str],
        condition: pc.Expression | None,  # noqa: ARG002 - applied to what is read
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows, cast to the types of the schema."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        there = [self._names[name] for name in columns if name in self._names]
        # Some column has to be read to tell how many rows there are.
        read = there or list(self._names.values())[:1]
        deleted, first = _deleted(self._file), 0
        with pq.ParquetFile(local_path(self._file.path)) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=read):
                kept = np.ones(batch.num_rows, np.bool_)
                start, end = np.searchsorted(deleted, (first, first + batch.num_rows))
                kept[deleted[start:end] - first] = False
                first += batch.num_rows
                yield self._shaped(batch.filter(pa.array(kept)), schema)

    def _shaped(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        arrays = [
            rows.column(self._names[field.name]).cast(field.type)
            if field.name in self._names
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:  # noqa: ARG002
        """Return the whole: where a row stands in the file counts."""
        return [self]


def _deleted(file: LakeFile) -> npt.NDArray[np.int64]:
    """Return the positions that are deleted, sorted."""
    deletes = ds.dataset([local_path(path) for path in file.deletes], format="parquet")
    found = deletes.to_table(columns=["pos"], filter=pc.field("file_path") == file.path)
    return np.unique(found.column("pos").to_numpy())
