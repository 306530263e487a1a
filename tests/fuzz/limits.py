"""How far a process that tries inputs may grow."""

import os
import resource
from pathlib import Path

MEMORY_BYTES_MAX = 2 * 1024**3
"""What inputs may take beside what the process has once it is ready."""


def limit_memory() -> None:
    """Let the process grow only so far from here on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
