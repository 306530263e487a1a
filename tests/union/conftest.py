"""One storage for all tests of a process: each has tables of its own."""

from collections.abc import Iterator

import pytest

from tests.union.storage import Storage


@pytest.fixture(scope="session")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("union") / "data")
    yield opened
    opened.close()
