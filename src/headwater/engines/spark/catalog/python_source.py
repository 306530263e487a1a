"""Spark's own machinery for sources in Python, around ours."""

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType

from headwater.engines.spark.catalog.interfaces import PYTHON_SOURCE, PYTHON_TABLE
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.source import FORMAT


def is_registered(jvm: Jvm) -> bool:
    """Tell whether the session knows our source, by itself or from the one it was made of."""
    return bool(_state(jvm).dataSourceManager().dataSourceExists(FORMAT))


def python_source(jvm: Jvm) -> JavaObject:
    """Return our source as the session has it registered."""
    return jvm.kept(
        "python source", lambda: _state(jvm).dataSourceManager().lookupDataSource(FORMAT)
    )


def python_table(jvm: Jvm, schema: StructType) -> JavaObject:
    """Return Spark's table over our source, new each time: it remembers what was read of it."""
    source = jvm.named(PYTHON_SOURCE)()
    source.setShortName(FORMAT)
    return jvm.named(PYTHON_TABLE)(source, FORMAT, jvm.struct(schema))


def _state(jvm: Jvm) -> JavaObject:
    return jvm.session._jsparkSession.sessionState()  # noqa: SLF001 - the session of the JVM
