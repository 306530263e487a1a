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

    It is the way to write in the output mode `update` without a catalog:

        counts.writeStream.outputMode("update").foreachBatch(
            each_batch("shop.counts", name="counts")
        )

    The name tells apart what one query writes into a table in several ways. Over Spark Connect it
    stands for the query itself: there, take another name with another checkpoint, which numbers
    its micro-batches anew, or they are taken for done.
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
