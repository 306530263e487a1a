"""The nouns of Headwater: types, schemas, tables, buckets, offsets. No I/O."""

from headwater.model.boundary import Boundary, LakeBucket
from headwater.model.bucket import Lineage, LogPosition, OffsetRange, TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import DataType

__all__ = [
    "Boundary",
    "Column",
    "DataType",
    "LakeBucket",
    "Lineage",
    "LogPosition",
    "OffsetRange",
    "Schema",
    "TableBucket",
    "TableDescriptor",
    "TableInfo",
    "TablePath",
]
