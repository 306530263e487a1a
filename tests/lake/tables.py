"""Lake tables for tests, each made under a name of its own."""

from dataclasses import dataclass, field
from itertools import count

from headwater.lake.spi import LakeStorage, LakeTableSpec
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType, DataType, StringType
from tests.lake.lake_table import LakeTable

PLAIN = {"id": BigIntType(), "name": StringType()}
KEYED = {"id": BigIntType(nullable=False), "name": StringType()}


@dataclass
class Tables:
    """Make tables, each under a name of its own."""

    lake: LakeStorage
    numbers: count = field(default_factory=count)

    def spec(self, columns: dict[str, DataType], *, key: tuple[str, ...] = (), **layout):
        schema = Schema(
            columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()),
            primary_key=key,
        )
        if key and "bucket_keys" not in layout:
            partitions = layout.get("partition_keys", ())
            layout["bucket_keys"] = tuple(name for name in key if name not in partitions)
        path = TablePath("db", f"t{next(self.numbers)}")
        return LakeTableSpec(path=path, schema=with_column_ids(schema), **layout)

    def make(self, columns: dict[str, DataType] = PLAIN, **options) -> LakeTable:
        spec = self.spec(columns, **options)
        self.lake.catalog().ensure(spec)
        return LakeTable(self.lake, spec)

    def keyed(self, columns: dict[str, DataType] = KEYED, **options) -> LakeTable:
        return self.make(columns, **{"key": ("id",), **options})
