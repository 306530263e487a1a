"""The lake table of a table: its columns, how it is found or made, and what the server is told.

Lake tables of Apache Fluss before 1.0 have system columns, which whoever tiers must fill in.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.client import AsyncClient
from headwater.cluster.lake import TieringAssignment
from headwater.config.options import DATALAKE_SYSTEM_COLUMNS
from headwater.config.table_options import LakeOptions
from headwater.errors import LakeTableDiffersError
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import SYSTEM_COLUMNS, LakeSnapshot, LakeTableSpec
from headwater.model import Boundary, Column, DataType, LakeBucket, Schema, TableBucket, TableInfo
from headwater.model.arrow import arrow_schema
from headwater.model.boundary import TableIdentity
from headwater.model.types import BigIntType, IntType, TimestampLtzType
from headwater.read.offsets import LogBatch
from headwater.tiering.plan import check_same_table
from headwater.tiering.progress import LakeTarget

# The columns that Apache Fluss before 1.0 gives its lake tables beside those of the table.
#
# Its readers need a value in each of them, so whoever tiers to such a lake table fills them in.

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
    """Add the columns to rows of a state, whose times are no longer known."""
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


# The lake table of a table, with all the columns that it has.


def found_target(lakes: Lakes, table: TableInfo) -> LakeTarget:
    """Open the lake of a table, and describe its lake table, there or not; this may block."""
    lake, spec = lakes.of(table), lake_spec(table)
    held = lake.catalog().column_names(table.path)
    # One that is there keeps the columns that it was made with.
    is_filled = set(SYSTEM_COLUMNS) <= set(held) if held else _wants_system_columns(table)
    is_free = not set(SYSTEM_COLUMNS) & set(table.schema.names)
    return LakeTarget(table, lake, with_system_columns(spec) if is_filled and is_free else spec)


def _wants_system_columns(table: TableInfo) -> bool:
    """Tell whether a lake table is made with the columns that Flink needs.

    Files of Paimon cannot hold their times beside finer ones: there they come only if asked for,
    and the error says why that cannot be.
    """
    properties = table.descriptor.properties
    if DATALAKE_SYSTEM_COLUMNS.of(properties) is None:
        types = [str(field.type) for field in arrow_schema(table.schema)]
        if any("timestamp[ns" in each for each in types):
            return False
    return LakeOptions.of(properties).system_columns


def ensured_target(lakes: Lakes, table: TableInfo, *, identity: TableIdentity) -> LakeTarget:
    """Make the lake table of a table, or bring its columns up to date; this may block.

    That of another table, which had the same name, is refused before anything is changed.
    """
    return _ensured(found_target(lakes, table), identity=identity)


def ensured_fluss_target(lakes: Lakes, table: TableInfo, *, identity: TableIdentity) -> LakeTarget:
    """Do the same with the columns that the tiering service of Apache Fluss fills."""
    target = found_target(lakes, table)
    if has_system_columns(target.spec):
        return _ensured(target, identity=identity)
    if target.lake.catalog().exists(table.path):
        names = ", ".join(SYSTEM_COLUMNS)
        raise LakeTableDiffersError(
            f"The lake table {table.path} exists without the columns {names}.",
            hint=f"To recreate it: headwater lake drop {table.path}",
        )
    filled = replace(target, spec=with_system_columns(target.spec))
    return _ensured(filled, identity=identity)


def _ensured(target: LakeTarget, *, identity: TableIdentity) -> LakeTarget:
    table, catalog = target.table, target.lake.catalog()
    if catalog.exists(table.path):
        head = target.lake.committer(target.spec).head()
        held = None if head is None else head.boundary
        check_same_table(held, identity, path=table.path)
    catalog.ensure(target.spec)
    return target


# Telling the server what the lake holds.


async def prepare_offsets(
    client: AsyncClient,
    assignment: TieringAssignment,
    boundary: Boundary,
    *,
    replaces: bool = False,
) -> str:
    """Have the ends of a boundary written down, and return where."""
    return await client.lake.prepare(
        assignment.path,
        assignment.table_id,
        ends_of(boundary),
        written_by=boundary.written_by,
        ignore_previous=replaces,
    )


def ends_of(boundary: Boundary) -> dict[LakeBucket, int]:
    """Return the first offset of each bucket that the lake does not hold."""
    return {bucket: offsets.end for bucket, offsets in boundary.ranges.items()}


async def report_snapshot(
    client: AsyncClient, assignment: TieringAssignment, snapshot: LakeSnapshot
) -> None:
    """Tell of a snapshot that the server does not know: its id and how far it reaches."""
    assert snapshot.boundary is not None, "what nobody tiered is not reported"
    path = await prepare_offsets(client, assignment, snapshot.boundary)
    await client.lake.commit(
        assignment.table_id, snapshot.snapshot_id, path, ends=ends_of(snapshot.boundary)
    )
