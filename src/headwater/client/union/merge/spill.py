"""Changes in files, by the hash of their keys."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpillPlace:
    """Name a directory in which a fold may make one of its own, which it removes again."""

    directory: Path
