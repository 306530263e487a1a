"""What is settled before a write begins: the table is there, and the rows fit it."""

from pyspark.sql.types import StructType

from headwater.client.sync.table import Table
from headwater.client.virtual import VirtualKind, read_only, split_virtual
from headwater.engines.spark.sink_options import SinkOptions
from headwater.engines.spark.writing.columns import sink_columns
from headwater.engines.spark.writing.task import Job


def plan_job(options: SinkOptions, schema: StructType) -> tuple[Job, Table]:
    """Look the table up and match columns, or say what is wrong before anything is written."""
    path, kind = split_virtual(options.table)
    if isinstance(kind, VirtualKind):
        raise read_only(path, kind, wanted="a write")
    table = options.connection.client().table(path)
    columns = sink_columns(schema, table.info, options)
    return Job(options=options, table=table.info, columns=columns), table
