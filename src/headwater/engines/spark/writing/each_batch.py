"""Writing the micro-batches of a stream from `foreachBatch`, each once."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from headwater.engines.spark.options import SERVERS, SERVERS_DEFAULT, TABLE, WRITE_EPOCH, WRITE_ID


def each_batch(
    table: str,
    *,
    name: str,
    bootstrap_servers: str = SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return what `foreachBatch` calls to write each micro-batch into a table, exactly once.

    It is the way to write in the output mode `update`, which Spark has for no sink in Python:

        counts.writeStream.outputMode("update").foreachBatch(
            each_batch("shop.counts", name="counts")
        )

    The name stands for the query. Keep it as long as its checkpoint, and take another one with
    another checkpoint, since that numbers its micro-batches anew.
    """
    given = {
        SERVERS.name: bootstrap_servers,
        **(options or {}),
        TABLE.name: table,
        WRITE_ID.name: name,
    }

    def write(batch: DataFrame, number: int) -> None:
        writer = batch.write.format("headwater").options(**given).mode("append")
        writer.option(WRITE_EPOCH.name, number).save()

    return write
