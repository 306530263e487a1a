"""Where the `headwater` command begins: memory is settled before anything else is loaded."""

import os
import signal
import sys
from importlib import import_module

MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}
"""Arrow's usual pool keeps what each thread once had: a tierer that runs for long grows for hours.
This one gives it back, is as fast, and is in Arrow's packages for Linux."""


def settle_memory() -> None:
    """Choose Arrow's memory, unless the user has; it has no effect once Arrow is loaded."""
    for name, value in MEMORY.items():
        os.environ.setdefault(name, value)


def main() -> None:
    """Run the command, without loading what only others need."""
    settle_memory()
    try:
        commands = import_module("headwater.cli.commands")
        wanted = [word for word in sys.argv[1:2] if word in commands.COMMANDS]
        app = commands.app_of(wanted or commands.COMMANDS)
    except KeyboardInterrupt:
        # Ctrl-C before anything began: nobody wants to see which module was just being loaded.
        sys.exit(128 + signal.SIGINT)
    app()
