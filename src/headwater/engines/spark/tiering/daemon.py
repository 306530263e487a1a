"""What Spark forks the workers of a tierer from: it has loaded the lake formats as well."""

from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points

from headwater.engines.spark.daemon import main
from headwater.lake.registry import GROUP

MODULE = "headwater.engines.spark.tiering.daemon"
_WORKER = "headwater.engines.spark.tiering.worker"


def load_formats() -> None:
    """Load what tasks of tiering need, and every lake format whose packages are installed."""
    import_module(_WORKER)
    for entry in entry_points(group=GROUP):
        with suppress(ImportError):
            entry.load()


if __name__ == "__main__":
    main(load_formats)
