"""Settings for the whole suite."""

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.choices import EVERYTHING, chosen, examples

# The machine may be shared and slow: no example is judged by its duration. The same code passes
# or fails each time; `make torture` looks for examples that were never tried.
settings.register_profile(
    "headwater",
    max_examples=examples(100),
    deadline=None,
    derandomize="HEADWATER_RANDOM" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headwater")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `--spark` say how the Spark tests reach Spark."""
    parser.addoption(
        "--spark", choices=("classic", "connect", "standalone"), default="classic", help="mode"
    )


@pytest.hookimpl(trylast=True)  # after what was not asked for is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a test in one of the worlds that it knows, if not all are asked for."""
    if EVERYTHING:
        return
    kept = chosen(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(autouse=True)
def _events_as_before():
    """Undo what a command that runs in this process does to its log."""
    root, own = logging.getLogger(), logging.getLogger("headwater")
    # One that ran for the fixture of a module did so before this.
    own.setLevel(logging.NOTSET)
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers
    own.setLevel(logging.NOTSET)
