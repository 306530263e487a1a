"""Every command runs against a directory and against a server."""

import itertools

import pytest

from tests.cli.commanding import Storage
from tests.serving import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


@pytest.fixture
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("opened")


@pytest.fixture(params=["directory", "server"])
def storage(request):
    """Return a storage to run commands on: an empty directory, or the server of all tests."""
    if request.param == "directory":
        return Storage(str(request.getfixturevalue("directory")))
    return Storage(request.getfixturevalue("server").address)


_numbers = itertools.count()


@pytest.fixture
def name():
    """Return a name that no other test uses."""
    return f"t{next(_numbers)}"
