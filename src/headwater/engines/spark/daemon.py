"""What Spark forks its Python workers from: it has loaded beforehand all that they need."""

import gc
import importlib

from pyspark.daemon import manager

# The libraries that every task loads, and ours. None of them opens a connection or starts a
# thread when it is loaded, which a fork would not survive.
PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyarrow.compute",
    "pyarrow.ipc",
    "headwater.engines.spark.source",
    "headwater.engines.spark.lookups.task",
)


def main() -> None:
    """Load everything, then serve Spark's requests for workers until it is done."""
    for name in PRELOADED:
        importlib.import_module(name)
    # Workers collect garbage after each task. What is loaded here is none, and to look through it
    # would take longer than a small task.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
