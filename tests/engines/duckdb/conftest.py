"""A storage with a lake of each format, shared by the tests of a process."""

from collections.abc import Iterator

import pytest

from headwater.engines.storages import close_opened
from tests.engines.duckdb.world import World

pytest.importorskip("duckdb")


@pytest.fixture(scope="session", params=("iceberg", "paimon"))
def world(request, tmp_path_factory) -> Iterator[World]:
    pytest.importorskip({"iceberg": "pyiceberg", "paimon": "pypaimon"}[request.param])
    opened = World.open(tmp_path_factory.mktemp(request.param), request.param)
    yield opened
    opened.close()
    close_opened()
