"""The lake formats that are installed, found by their entry points."""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import cast

from headwater.errors import UnsupportedError
from headwater.lake.spi import LakeStorage

GROUP = "headwater.lake"

OpenLake = Callable[[Mapping[str, str]], LakeStorage]


def lake_formats() -> tuple[str, ...]:
    """Return the names of the formats that are registered, usable or not."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def open_lake(name: str, config: Mapping[str, str]) -> LakeStorage:
    """Open a lake of a format, or say what to install."""
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise UnsupportedError(
            f"There is no lake format '{name}'.",
            hint=f"Installed are {', '.join(lake_formats()) or 'none'};"
            f" a package adds one by an entry point of the group '{GROUP}'.",
        )
    try:
        opener = cast("OpenLake", found[0].load())
    except ModuleNotFoundError as fault:
        raise UnsupportedError(
            f"The lake format '{name}' needs the package '{fault.name}', which is not installed.",
            hint=f"Run: pip install 'headwater[{name}]'",
        ) from fault
    return opener(config)
