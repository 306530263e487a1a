"""Values that tests of plans are made of."""

from headwater.lake.split import UNKNOWN_BUCKET, ColumnBounds, LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import BigIntType, DateType, DoubleType, StringType
from headwater.read.view import TableView, ViewedSnapshot

PATH = TablePath("app", "events")
NOW_MS = 1_800_000_000_000
NAMES = ((0, "id"), (1, "day"), (2, "amount"), (3, "name"), (4, "born"))


def table(*, is_keyed=False, is_partitioned=False, bucket_count=4, bucket_keys=("id",)):
    key = (("day", "id") if is_partitioned else ("id",)) if is_keyed else ()
    schema = with_column_ids(
        Schema(
            columns=(
                Column(name="id", type=BigIntType(nullable=not is_keyed)),
                Column(name="day", type=StringType(nullable=not is_keyed)),
                Column(name="amount", type=DoubleType()),
                Column(name="name", type=StringType()),
                Column(name="born", type=DateType()),
            ),
            primary_key=key,
        )
    )
    descriptor = TableDescriptor(
        schema=schema,
        partition_keys=("day",) if is_partitioned else (),
        bucket_keys=bucket_keys,
        bucket_count=bucket_count,
        properties={"table.datalake.format": "iceberg"},
    )
    return TableInfo(
        path=PATH, table_id=7, schema_id=1, descriptor=descriptor, created_ms=0, modified_ms=0
    )


def bucket(key) -> LakeBucket:
    return key if isinstance(key, LakeBucket) else LakeBucket(None, key)


def view(logs, tiered=None, *, partitions=None, snapshot_id=12, **options) -> TableView:
    """Make a view; `tiered` is what the snapshot holds, and without it there is none."""
    snapshot = None
    if tiered is not None:
        snapshot = ViewedSnapshot(
            format="iceberg",
            snapshot_id=snapshot_id,
            committed_ms=NOW_MS - 60_000,
            ranges={bucket(key): OffsetRange(*offsets) for key, offsets in tiered.items()},
        )
    options.setdefault("is_partitioned", partitions is not None)
    options.setdefault("bucket_count", 1 + max((bucket(key).bucket for key in logs), default=0))
    return TableView(
        table=table(**options),
        snapshot=snapshot,
        logs={bucket(key): OffsetRange(*offsets) for key, offsets in logs.items()},
        partitions=partitions or {},
        read_ms=NOW_MS,
    )


def file(path="/lake/a.parquet", **fields) -> LakeFile:
    given = {
        "row_count": 10,
        "byte_count": 1000,
        "is_plain": True,
        "names": NAMES,
        "stands_alone": True,
    }
    return LakeFile(path=path, **{**given, **fields})


def bounds(column_id, lower, upper, null_count=0) -> ColumnBounds:
    return ColumnBounds(column_id=column_id, lower=lower, upper=upper, null_count=null_count)


def split(number=UNKNOWN_BUCKET, files=None, *, day=None) -> LakeSplit:
    return LakeSplit(
        format="iceberg",
        snapshot_id=12,
        bucket=number,
        partition=() if day is None else (("day", day),),
        files=(file(),) if files is None else tuple(files),
        payload=b"\x00payload",
    )
