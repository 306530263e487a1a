"""How much a scan will read, as Spark's optimizer asks for it."""

from py4j.java_gateway import JavaObject

from headwater.engines.spark.catalog.jvm import Jvm


class Statistics:
    """Say how much a scan reads."""

    def __init__(self, jvm: Jvm, *, rows: int, size: int) -> None:
        self._jvm = jvm
        self._rows = rows
        self._size = size

    def __str__(self) -> str:
        return f"{self._rows} rows, {self._size} bytes"

    def size_in_bytes(self) -> JavaObject:
        """Return the size of all rows."""
        return self._jvm.named("java.util.OptionalLong").of(self._size)

    def num_rows(self) -> JavaObject:
        """Return the number of rows."""
        return self._jvm.named("java.util.OptionalLong").of(self._rows)

    def column_stats(self) -> JavaObject:
        """Return nothing of the columns."""
        return self._jvm.kept("no column statistics", self._jvm.named("java.util.HashMap"))
