"""Entry point of the `headwater` command: settles memory before anything else is loaded."""

import atexit
import gc
import os
import signal
import sys
from importlib import import_module

MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}
"""Arrow's default pool keeps what each thread once used: a long-running tiering service grows for
hours. This one returns it, is as fast, and is in Arrow's packages for Linux.
"""
THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy starts a thread of linear algebra for each core, which nothing here uses; they cost every
command a tenth of its time.
"""
GC_ALLOCATIONS = 50_000


def settle_memory() -> None:
    """Pick Arrow's memory pool and numpy's threads unless the user has; collect no garbage yet.

    Has no effect on libraries that are loaded already.
    """
    for name, value in (MEMORY | THREADS).items():
        os.environ.setdefault(name, value)
    # Loading modules creates almost no garbage.
    gc.disable()


def settle_garbage() -> None:
    """Keep what is loaded out of collections, also of the one at the end, and collect rarely."""
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 50, 50)
    gc.enable()
    atexit.register(_settle_end)


def _settle_end() -> None:
    """Spare the interpreter its last collection, unless DuckDB reports what that leaves behind."""
    if "duckdb" in sys.modules:
        gc.unfreeze()
    else:
        gc.freeze()


def main() -> None:
    """Run the command, loading only what it needs."""
    settle_memory()
    try:
        commands = import_module("headwater.cli.commands")
        wanted = [word for word in sys.argv[1:2] if word in commands.COMMANDS]
        app = commands.app_of(wanted or commands.COMMANDS)
        settle_garbage()
    except KeyboardInterrupt:
        # Ctrl-C before anything started: no traceback.
        sys.exit(128 + signal.SIGINT)
    app()
