"""Whether rows are in the bucket where Iceberg looks for them."""

import pyarrow as pa

from headwater.errors import InvalidValueError, LakeTableDiffersError
from headwater.lake.table import LakeTableSpec
from headwater.rows.bucketing import BucketFunction, buckets_of
from headwater.rows.lake_keys import IcebergKeys

_ROWS_CHECKED = 1000


def check_bucket(spec: LakeTableSpec, rows: pa.RecordBatch, *, bucket: int) -> None:
    """See that some rows of a bucket belong there by Iceberg's function.

    Rows that were spread by another one would be lost to whoever looks for a key: Iceberg's
    readers leave out files by the number of the bucket.
    """
    if not spec.bucket_keys or spec.bucket_count == 1:
        return
    types = [spec.schema.column(name).type for name in spec.bucket_keys]
    columns = [rows.column(name).slice(0, _ROWS_CHECKED) for name in spec.bucket_keys]
    try:
        keys = IcebergKeys.of(types).encode(columns)
    except InvalidValueError:
        return
    found = buckets_of(keys, spec.bucket_count, function=BucketFunction.ICEBERG)
    if (found != bucket).any():
        raise LakeTableDiffersError(
            f"Rows of bucket {bucket} of {spec.path} are not spread as Iceberg spreads them.",
            hint="Make the table anew with `table.datalake.format` set to iceberg from the"
            " beginning, so that clients find buckets by its function.",
        )
