"""Partitions of a table, as SHOW PARTITIONS and ALTER TABLE see them: their values are texts."""

from collections.abc import Mapping, Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StringType, StructField, StructType

from headwater.client.sync.table import Table
from headwater.engines.spark.catalog.interfaces import GENERIC_ROW, INTERNAL_ROW, UTF8
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.errors import PartitionMissingError


class Partitions:
    """List, create and drop the partitions of a table."""

    def __init__(self, jvm: Jvm, table: Table) -> None:
        self._jvm = jvm
        self._table = table
        self._keys = table.info.descriptor.partition_keys

    def schema(self) -> JavaObject:
        """Return the partition columns."""
        fields = [StructField(key, StringType()) for key in self._keys]
        return self._jvm.struct(StructType(fields))

    def create(self, row: JavaObject) -> None:
        """Create a partition."""
        self._table.create_partition(self._spec(row, self._keys))

    def drop(self, row: JavaObject) -> bool:
        """Drop a partition, or tell that there is none."""
        try:
            self._table.drop_partition(self._spec(row, self._keys))
        except PartitionMissingError:
            return False
        return True

    def matching(self, names: Sequence[str], row: JavaObject) -> JavaObject:
        """Return the partitions that have these values."""
        wanted = self._spec(row, tuple(names)).items()
        found = [spec for spec in self._table.partitions() if wanted <= spec.items()]
        return self._jvm.array(INTERNAL_ROW, [self._row(spec) for spec in found])

    def _spec(self, row: JavaObject, keys: Sequence[str]) -> dict[str, str]:
        return {key: row.getUTF8String(place).toString() for place, key in enumerate(keys)}

    def _row(self, spec: Mapping[str, str]) -> JavaObject:
        row = self._jvm.named(GENERIC_ROW)(len(self._keys))
        for place, key in enumerate(self._keys):
            row.update(place, self._jvm.named(UTF8).fromString(spec[key]))
        return row
