"""Positions of data files that are deleted, written as files of deletes."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from headwater.lake.iceberg.data_files import FileNames, described
from headwater.lake.iceberg.parquet import ParquetFiles, ParquetSettings
from headwater.lake.iceberg.reading import Positions, deleted_positions, merged, without
from headwater.lake.iceberg.tasks import PATH_FIELD_ID, HeldFile, scoped_path
from headwater.lake.iceberg.types import parquet_schema

_POSITION_FIELD_ID = 2147483545
DELETES_SCHEMA = Schema(
    NestedField(PATH_FIELD_ID, "file_path", StringType(), required=True),
    NestedField(_POSITION_FIELD_ID, "pos", LongType(), required=True),
)


@dataclass(slots=True)
class Deletes:
    """Write files of deletes, each about one data file. Used by one thread, once.

    A data file has one of them at most: a later one holds what the earlier one held, and stands
    in its place. So reading never gets slower with the number of rounds.
    """

    io: FileIO
    names: FileNames
    added: list[DataFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    _begun: list[ParquetFiles] = field(default_factory=list)

    def write(self, held: HeldFile, taken: Positions) -> None:
        """Take positions away from a data file, beyond those that earlier deletes took."""
        path = held.file.file_path
        earlier = [each for each in held.deletes if scoped_path(each) == path]
        gone = deleted_positions(self.io, HeldFile(held.file, tuple(earlier)))
        positions = merged(without(taken, gone), gone)
        files = ParquetFiles(
            io=self.io,
            schema=parquet_schema(DELETES_SCHEMA.fields),
            settings=ParquetSettings.of(self.names.place.properties),
            new_location=self.names.deletes,
        )
        self._begun.append(files)
        files.write(_rows(path, positions, files.schema))
        files.end_file()
        for file in files.written:
            found = described(
                file,
                self.names.place,
                record=held.file.partition,
                content=DataFileContent.POSITION_DELETES,
                schema=DELETES_SCHEMA,
            )
            found.spec_id = held.file.spec_id
            self.added.append(found)
        self.removed += [each.file_path for each in earlier]
        self.needed.append(path)

    def abort(self) -> None:
        """Remove all files."""
        for files in self._begun:
            files.abort()


def _rows(path: str, positions: Positions, schema: pa.Schema) -> pa.RecordBatch:
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int8), pa.array([path]))
    columns = [paths.cast(pa.string()), pa.array(positions)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
