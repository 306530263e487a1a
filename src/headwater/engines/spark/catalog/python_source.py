"""Spark's own machinery for sources in Python, around ours."""

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from headwater.engines.spark.catalog.interfaces import PYTHON_SOURCE, PYTHON_TABLE, USER_SOURCE
from headwater.engines.spark.catalog.jvm import Jvm
from headwater.engines.spark.source import FORMAT, HeadwaterSource


def register_source(jvm: Jvm) -> None:
    """Make our source known to the session, which need not be the active one.

    `spark.dataSource.register` looks for the name in the active session, and refuses it there.
    """
    manager = _manager(jvm)
    if not manager.dataSourceExists(FORMAT):
        wrapped = _wrap_function(jvm.session.sparkContext, HeadwaterSource)
        manager.registerDataSource(FORMAT, jvm.named(USER_SOURCE)(wrapped))


def python_source(jvm: Jvm) -> JavaObject:
    """Return our source as the session has it registered."""
    return jvm.kept("python source", lambda: _manager(jvm).lookupDataSource(FORMAT))


def python_table(jvm: Jvm, schema: StructType) -> JavaObject:
    """Return Spark's table over our source, new each time: it remembers what was read of it."""
    source = jvm.named(PYTHON_SOURCE)()
    source.setShortName(FORMAT)
    return jvm.named(PYTHON_TABLE)(source, FORMAT, jvm.struct(schema))


def _manager(jvm: Jvm) -> JavaObject:
    return jvm.session._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001
