"""The reference page of `headwater.spark`, from the signatures and docstrings in the code."""

from collections.abc import Iterator

from headwater import spark
from scripts.python_reference import function_text, value_text

# In the order in which they are needed; every public name stands in one of these.
GROUPS = {
    "A session": ("session", "register"),
    "Tables with a lake": ("read",),
    "SQL": ("catalog", "views"),
    "Streams": ("read_stream", "set_watermark", "drop_watermark", "each_batch"),
    "Rows on their way": ("lookup_join", "by_bucket"),
    "The lake": ("tier",),
    "Pipelines in SQL": ("sql", "run"),
}
SOURCE = "HeadwaterSource"
ROUND = "TieredRound"


def spark_reference() -> Iterator[str]:
    """Yield the parts of the page."""
    shown = {SOURCE, ROUND, *(name for names in GROUPS.values() for name in names)}
    assert shown == set(spark.__all__), shown ^ set(spark.__all__)
    yield "# headwater.spark"
    yield (
        'What there is beside `format("headwater")`, whose options are'
        " [here](spark-options.md). It needs `pip install 'headwater[spark]'`. How to use it:"
        " [batches](../how-to/spark.md), [streams](../how-to/spark-streaming.md),"
        " [SQL](../how-to/spark-sql.md), [pipelines](../how-to/pipelines.md),"
        " [clusters](../how-to/spark-cluster.md)."
    )
    for title, names in GROUPS.items():
        yield f"## {title}"
        for name in names:
            yield from function_text(getattr(spark, name), called=f"spark.{name}")
    yield from value_text(getattr(spark, ROUND))
    yield "## The source"
    yield (
        f"`{SOURCE}` is the class behind the format. `register` hands it to"
        " `spark.dataSource.register`, which you can call yourself."
    )
