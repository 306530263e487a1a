"""The process that Spark forks a tierer's workers from; it also loads the lake formats."""

from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points

from headwater.engines.spark.daemon import main
from headwater.lake.lakes import GROUP

MODULE = "headwater.engines.spark.tiering.daemon"
_WORKER = "headwater.engines.spark.tiering.runner"


def load_formats() -> None:
    """Import what tiering tasks need, and every lake format whose packages are installed."""
    import_module(_WORKER)
    for entry in entry_points(group=GROUP):
        with suppress(ImportError):
            entry.load()


if __name__ == "__main__":
    main(load_formats)
