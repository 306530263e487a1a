"""The server that requests are fuzzed with lives as long as the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.fuzz.targets_requests import close_server


@pytest.fixture(scope="package", autouse=True)
def fuzzed_server_is_closed() -> Iterator[None]:
    yield
    close_server()
