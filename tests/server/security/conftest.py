"""One CA for all tests here: making certificates takes a while."""

import pytest

from tests.server.security.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.server()
    return made


@pytest.fixture
def other_authority(tmp_path):
    """A CA of this test alone, whose certificates it may replace."""
    made = Authority(tmp_path / "authority")
    made.server()
    return made
