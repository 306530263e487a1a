"""A world for each story, which leaves no process behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.torture.world import World


@pytest.fixture
def make_world(tmp_path) -> Iterator[Callable[..., World]]:
    with ExitStack() as stack:

        def make(**settings) -> World:
            world = World(tmp_path / "world", **settings)
            stack.callback(world.close)
            world.make_tables()
            return world

        yield make
