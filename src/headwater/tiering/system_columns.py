"""The columns that Apache Fluss before 1.0 gives its lake tables beside those of the table.

Its readers need a value in each of them, so whoever tiers to such a lake table fills them in.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.reading.log_batch import LogBatch
from headwater.lake.table import SYSTEM_COLUMNS, LakeTableSpec
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import TableBucket
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, DataType, IntType, TimestampLtzType

_TYPES: tuple[DataType, ...] = (
    IntType(nullable=False),
    BigIntType(nullable=False),
    TimestampLtzType(precision=3, nullable=False),
)
# With ids that no column of a table has.
COLUMNS = tuple(
    Column(name=name, type=kind, column_id=at - 4)
    for at, (name, kind) in enumerate(zip(SYSTEM_COLUMNS, _TYPES, strict=True))
)
_FIELDS = list(arrow_schema(Schema(columns=COLUMNS)))
_UNKNOWN = -1


def has_system_columns(spec: LakeTableSpec) -> bool:
    """Tell whether a lake table has these columns."""
    return spec.schema.columns[-len(COLUMNS) :] == COLUMNS


def with_system_columns(spec: LakeTableSpec) -> LakeTableSpec:
    """Describe the lake table with these columns behind its own."""
    return replace(spec, schema=replace(spec.schema, columns=(*spec.schema.columns, *COLUMNS)))


def log_rows_filled(batch: LogBatch) -> LogBatch:
    """Add the columns to rows of a log."""
    rows = _filled(batch.rows, batch.bucket, batch.offsets, batch.row_timestamps())
    return replace(batch, rows=rows)


def state_rows_filled(rows: pa.RecordBatch, bucket: TableBucket) -> pa.RecordBatch:
    """Add the columns to rows of a state, of which nobody knows any more when they came."""
    unknown = np.full(rows.num_rows, _UNKNOWN, np.int64)
    return _filled(rows, bucket, unknown, unknown)


def _filled(
    rows: pa.RecordBatch,
    bucket: TableBucket,
    offsets: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    count = rows.num_rows
    values: tuple[npt.NDArray[np.int64], ...] = (
        np.full(count, bucket.bucket, np.int64),
        offsets,
        timestamps,
    )
    columns = [pa.array(each).cast(field.type) for each, field in zip(values, _FIELDS, strict=True)]
    schema = pa.schema([*rows.schema, *_FIELDS])
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=schema)
