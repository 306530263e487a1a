"""The rows inside of batches, decoded to see that they can be."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.audit.files.catalog_seen import TableSeen
from headwater.errors import HeadwaterError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.rows.log_batch import BatchHeader, read_sections

FAULTS_MAX = 10


def read_rows(
    batch: memoryview, header: BatchHeader, schema: Schema
) -> tuple[npt.NDArray[np.uint8], pa.RecordBatch]:
    """Return the change types and the rows of a batch; an append-only one has zeros for types."""
    arrow = arrow_schema(schema)
    if not header.record_count:
        return np.empty(0, np.uint8), pa.RecordBatch.from_pylist([], schema=arrow)
    sections = read_sections(batch, header)
    types = np.frombuffer(batch[sections.parts_end : sections.changes_end], np.uint8)
    if header.is_append_only:
        types = np.zeros(header.record_count, np.uint8)
    message = batch[sections.changes_end : header.size]
    stream = pa.ipc.open_stream(b"".join((arrow.serialize().to_pybytes(), message)))
    rows = stream.read_next_batch()
    rows.validate(full=True)
    if len(rows) != header.record_count:
        raise pa.ArrowInvalid(f"{len(rows)} rows are where {header.record_count} were announced")
    return types, rows


@dataclass(slots=True)
class Bodies:
    """Look into batches: that their schema is known, and in a deep audit that their rows are."""

    table: TableSeen
    deep: bool
    rows: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """Look into one batch; after so many faults, one more says nothing new."""
        if len(self.faults) >= FAULTS_MAX:
            return
        try:
            schema = self.table.schema(header.schema_id)
            if self.deep:
                read_rows(batch, header, schema)
                self.rows += header.record_count
        except (HeadwaterError, pa.ArrowException) as fault:
            self.faults.append((header.base_offset, str(fault)))
