"""The pytest plugin: fixtures with a storage or a server that is ready, and gone afterwards."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater import Client
    from headwater.testing.server import RunningServer
    from headwater.testing.several import ServerFactory, StorageFactory

# pytest loads this file in every run, so what it needs is loaded by the first test that asks.
_SEVERAL = "headwater.testing.several"


@pytest.fixture
def headwater_storage(headwater_storage_factory: "StorageFactory") -> "Client":
    """Return an empty storage in this process, which is closed after the test."""
    return headwater_storage_factory()


@pytest.fixture(scope="session")
def headwater_session_storage(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Client]":
    """Give one storage to all tests of the run; give each test tables of its own."""
    with import_module(_SEVERAL).storages(tmp_path_factory.mktemp("headwater")) as open_storage:
        yield open_storage()


@pytest.fixture
def headwater_server(headwater_server_factory: "ServerFactory") -> "RunningServer":
    """Return an empty server on a free port, which is stopped after the test."""
    return headwater_server_factory()


@pytest.fixture
def headwater_storage_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[StorageFactory]":
    """Give what opens several storages; one that was closed opens again by its name."""
    with import_module(_SEVERAL).storages(tmp_path_factory.mktemp("headwater")) as open_storage:
        yield open_storage


@pytest.fixture
def headwater_server_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[ServerFactory]":
    """Give what starts several servers; one that was stopped starts again by its name."""
    with import_module(_SEVERAL).servers(tmp_path_factory.mktemp("headwater")) as start_server:
        yield start_server
