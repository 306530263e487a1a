"""Arrow's functions, loaded with the first that is called.

Loading `pyarrow.compute` wraps hundreds of functions, which takes half as long as pyarrow itself.
What asks a server for a number, such as `headwater count`, calls none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["pc"]


class LateFunctions:
    """Be a module that is loaded when something of it is wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        found: object = getattr(import_module(self._name), name)
        # The next time it is found here, at no cost.
        self.__dict__[name] = found
        return found


if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LateFunctions("pyarrow.compute")
