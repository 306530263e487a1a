"""Settings for the whole suite."""

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

# The machine may be shared and slow: no example is judged by its duration. The same code passes
# or fails each time; `make torture` looks for examples that were never tried.
settings.register_profile(
    "headwater",
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
