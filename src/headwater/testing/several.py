"""Storages and servers that are made one by one and closed together."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

import headwater
from headwater.testing.server import RunningServer, serving


class StorageFactory(Protocol):
    """Open storages."""

    def __call__(self, name: str | None = None) -> headwater.Client:
        """Return a new storage, or the one of this name."""


class ServerFactory(Protocol):
    """Start servers."""

    def __call__(self, name: str | None = None) -> RunningServer:
        """Return a new server, or one that serves the directory of this name."""


@contextmanager
def storages(directory: Path) -> Iterator[StorageFactory]:
    """Give what opens storages below a directory: a new one each time, or one by its name."""
    numbers = count(1)
    with ExitStack() as opened:

        def open_storage(name: str | None = None) -> headwater.Client:
            storage = headwater.open(directory / (name or f"storage-{next(numbers)}"))
            return opened.enter_context(closing(storage))

        yield open_storage


@contextmanager
def servers(directory: Path) -> Iterator[ServerFactory]:
    """Give what starts servers below a directory: a new one each time, or one by its name."""
    numbers = count(1)
    with ExitStack() as started:

        def start_server(name: str | None = None) -> RunningServer:
            served = directory / (name or f"server-{next(numbers)}")
            return started.enter_context(serving(served))

        yield start_server
