"""Rows of a Parquet file of the lake without deleted positions, for engines that count no rows."""

from collections.abc import Iterator, Sequence

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
    """Be the rows of one file that are not deleted."""

    def __init__(self, file: LakeFile, schema: pa.Schema) -> None:
        self._file = file
        self.schema = schema

    def read(
        self,
        columns: Sequence[str],
        condition: pc.Expression | None,  # noqa: ARG002 - applied to what is read
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows, cast to the types of the schema."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        deleted, first = _deleted(self._file), 0
        with pq.ParquetFile(local_path(self._file.path)) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                kept = np.ones(batch.num_rows, np.bool_)
                start, end = np.searchsorted(deleted, (first, first + batch.num_rows))
                kept[deleted[start:end] - first] = False
                first += batch.num_rows
                yield batch.select(list(columns)).filter(pa.array(kept)).cast(schema)

    def parts(self, condition: pc.Expression | None) -> Sequence[Rows]:  # noqa: ARG002
        """Return the whole: where a row stands in the file counts."""
        return [self]


def _deleted(file: LakeFile) -> npt.NDArray[np.int64]:
    """Return the positions that are deleted, sorted."""
    deletes = ds.dataset([local_path(path) for path in file.deletes], format="parquet")
    found = deletes.to_table(columns=["pos"], filter=pc.field("file_path") == file.path)
    return np.unique(found.column("pos").to_numpy())
