"""The pytest plugin: fixtures with a storage or a server, closed after the test."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater import Client
    from headwater.testing.server import RunningServer, ServerFactory, StorageFactory

# pytest loads this file in every run, so imports wait for the first test that needs them.
_SEVERAL = "headwater.testing.server"


@pytest.fixture
def headwater_storage(headwater_storage_factory: "StorageFactory") -> "Client":
    """An empty storage in this process, closed after the test."""
    return headwater_storage_factory()


@pytest.fixture(scope="session")
def headwater_session_storage(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Client]":
    """One storage for all tests of the run; use different tables in each test."""
    with import_module(_SEVERAL).storages(tmp_path_factory.mktemp("headwater")) as open_storage:
        yield open_storage()


@pytest.fixture
def headwater_server(headwater_server_factory: "ServerFactory") -> "RunningServer":
    """An empty server on a free port, stopped after the test."""
    return headwater_server_factory()


@pytest.fixture
def headwater_storage_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[StorageFactory]":
    """A factory of storages; one that was closed can be reopened by name."""
    with import_module(_SEVERAL).storages(tmp_path_factory.mktemp("headwater")) as open_storage:
        yield open_storage


@pytest.fixture
def headwater_server_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[ServerFactory]":
    """A factory of servers; one that was stopped can be restarted by name."""
    with import_module(_SEVERAL).servers(tmp_path_factory.mktemp("headwater")) as start_server:
        yield start_server
