"""Writing to a table: Spark's own Python writers, with what the catalog knows."""

from py4j.java_gateway import JavaObject

from headwater.engines.spark.catalog.interfaces import WRITE, WRITE_BUILDER
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.catalog.proxy import Proxy
from headwater.engines.spark.options import PARTIAL_UPDATE
from headwater.errors import UnsupportedError


class WriteBuilder:
    """Build a write that appends, or upserts by key."""

    def __init__(self, jvm: Jvm, builder: JavaObject, *, table: str, is_partial: bool) -> None:
        self._jvm = jvm
        self._builder = builder
        self._table = table
        self._is_partial = is_partial

    def __str__(self) -> str:
        return f"write builder of {self._table} {id(self)}"

    def proxy(self, *interfaces: str) -> Proxy:
        """Return the builder for the JVM, with what it offers beyond building."""
        return Proxy(self._jvm, self, (WRITE_BUILDER, *interfaces))

    def truncate(self) -> Proxy:
        """Do nothing: asked for of new tables only, which are empty."""
        return self.proxy()

    def build(self) -> Proxy:
        """Return the write."""
        write = Write(self._builder.build(), table=self._table, is_partial=self._is_partial)
        return Proxy(self._jvm, write, (WRITE,))


class Write:
    """Write rows in a batch or a stream."""

    def __init__(self, write: JavaObject, *, table: str, is_partial: bool) -> None:
        self._write = write
        self._table = table
        self._is_partial = is_partial

    def __str__(self) -> str:
        return f"write to {self._table} {id(self)}"

    def description(self) -> str:
        """Return what EXPLAIN shows."""
        return f"headwater {self._table}"

    def to_batch(self) -> JavaObject:
        """Return what writes a batch."""
        if self._is_partial:
            raise UnsupportedError(
                f"'{PARTIAL_UPDATE.name}' cannot be used with a table of the catalog: Spark fills"
                " the columns that are left out with nulls.",
                hint="Write with df.write.format('headwater') and the option 'table'.",
            )
        return self._write.toBatch()

    def to_streaming(self) -> JavaObject:
        """Return what writes a stream."""
        return self._write.toStreaming()

    def supported_custom_metrics(self) -> JavaObject:
        """Return the figures that Spark's Python writers count."""
        return self._write.supportedCustomMetrics()

    def report_driver_metrics(self) -> JavaObject:
        """Return the figures of the driver."""
        return self._write.reportDriverMetrics()
