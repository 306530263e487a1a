"""The process that Spark forks Python workers from, with all their imports loaded."""

import gc
import importlib
from collections.abc import Callable
from socket import socket
from typing import Protocol

from pyspark import daemon

# The libraries that every task imports, and ours. None of them opens a connection or starts a
# thread on import, which a fork would not survive.
PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyarrow.compute",
    "pyarrow.ipc",
    "headwater.engines.spark.source",
    "headwater.engines.spark.lookup_task",
)

HUNG_UP = 1


class Worker(Protocol):
    """Serves one task after another, and returns why it stopped."""

    def __call__(self, sock: socket, authenticated: bool) -> int:  # noqa: FBT001 - Spark's
        """Serve a task."""
        ...


def main(load_more: Callable[[], None] = lambda: None) -> None:
    """Import everything, then serve Spark's requests for workers until it is done."""
    for name in PRELOADED:
        importlib.import_module(name)
    load_more()
    # Workers collect garbage after each task. The modules loaded here are not garbage, and scanning
    # them would take longer than a small task.
    gc.freeze()
    daemon.worker = _without_complaint(daemon.worker)
    daemon.manager()


def _without_complaint(worker: Worker) -> Worker:
    """Wrap a worker so that it ends quietly when Spark hangs up because it has enough rows.

    That is the end of every query with a limit, and would print a traceback each time.
    """

    def run(sock: socket, authenticated: bool) -> int:  # noqa: FBT001 - Spark's
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return HUNG_UP

    return run


if __name__ == "__main__":
    main()
