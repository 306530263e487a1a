"""A pytest plugin: leave out the tests of an environment variable, by their whole names."""

import os

import pytest

VARIABLE = "TESTS_LEFT_OUT"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = os.environ[VARIABLE].split()
    left_out = [item for item in items if item.nodeid in names]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
