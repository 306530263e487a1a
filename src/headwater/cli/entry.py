"""Entry point of the `headwater` command: picks Arrow's memory pool before anything is loaded."""

import gc
import os
import signal
import sys
from importlib import import_module

MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}
"""Arrow's default pool keeps what each thread once used: a long-running tiering service grows for
hours. This one returns it, is as fast, and is in Arrow's packages for Linux.
"""
GC_ALLOCATIONS = 50_000
"""Loading modules creates almost no garbage, and collecting it took 7 % of a short command."""


def settle_memory() -> None:
    """Pick Arrow's memory pool unless the user has, and collect garbage rarely.

    Has no effect on Arrow once it is loaded.
    """
    for name, value in MEMORY.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(GC_ALLOCATIONS, 50, 50)


def main() -> None:
    """Run the command, loading only what it needs."""
    settle_memory()
    try:
        commands = import_module("headwater.cli.commands")
        wanted = [word for word in sys.argv[1:2] if word in commands.COMMANDS]
        app = commands.app_of(wanted or commands.COMMANDS)
    except KeyboardInterrupt:
        # Ctrl-C before anything started: no traceback.
        sys.exit(128 + signal.SIGINT)
    app()
