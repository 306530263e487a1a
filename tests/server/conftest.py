"""Connections are tested on both loops: the one of asyncio, and uvloop where it is installed."""

import asyncio
from importlib import import_module
from importlib.util import find_spec

ON_BOTH_LOOPS = ("test_requests.py", "test_answers.py", "test_life.py")


def pytest_asyncio_loop_factories(config, item):
    factories = {"asyncio": asyncio.new_event_loop}
    if item.path.name in ON_BOTH_LOOPS and find_spec("uvloop") is not None:
        factories["uvloop"] = import_module("uvloop").new_event_loop
    return factories
