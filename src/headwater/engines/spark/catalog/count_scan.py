"""The answer to `count(*)` of a table whose rows nobody has to read."""

from py4j.java_gateway import JavaObject
from pyspark.sql.types import LongType, StructField, StructType

from headwater.engines.spark.catalog.interfaces import (
    GENERIC_ROW,
    INTERNAL_ROW,
    METRIC,
    TASK_METRIC,
)
from headwater.engines.spark.catalog.jvm import Jvm

COUNT_SCHEMA = StructType([StructField("count(*)", LongType(), nullable=False)])


class CountScan:
    """Answer `count(*)` with a number that is known."""

    def __init__(self, jvm: Jvm, *, rows: int, table: str) -> None:
        self._jvm = jvm
        self._rows = rows
        self._table = table

    def __str__(self) -> str:
        return f"count of {self._table}: {self._rows}"

    def read_schema(self) -> JavaObject:
        """Return the one column."""
        return self._jvm.struct(COUNT_SCHEMA)

    def description(self) -> str:
        """Return what EXPLAIN shows."""
        return f"headwater {self._table}, counted without reading"

    def supported_custom_metrics(self) -> JavaObject:
        """Return no figures."""
        return self._jvm.array(METRIC)

    def report_driver_metrics(self) -> JavaObject:
        """Return no figures of the driver."""
        return self._jvm.array(TASK_METRIC)

    def rows(self) -> JavaObject:
        """Return the one row."""
        row = self._jvm.named(GENERIC_ROW)(1)
        row.setLong(0, self._rows)
        return self._jvm.array(INTERNAL_ROW, [row])
