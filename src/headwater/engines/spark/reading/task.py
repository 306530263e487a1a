"""A task: the rows of its share, as Spark takes them."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.engines.spark.reading.pump import pumped
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.share_rows import ShareRows
from headwater.engines.spark.reading.splits import Share
from headwater.engines.spark.types import SparkBatches


def read_share(
    reading: Reading, share: Share, *, schema: StructType, truncates_nanoseconds: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share, reading on while Spark takes them."""
    if not share:
        return
    link = reading.link()
    rows = ShareRows(link.awaiting.cluster, reading)
    batches = SparkBatches(schema, truncates_nanoseconds=truncates_nanoseconds)
    for batch in pumped(link.loop, lambda: rows.batches(share)):
        yield batches.cast(batch)
