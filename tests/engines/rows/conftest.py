"""A storage with a lake of each format, shared by the tests of a process, and every engine."""

from collections.abc import Callable, Iterator

import pytest

import headwater
from headwater.engines.storages import close_opened
from tests.engines.rows.readers import READERS, counted
from tests.engines.rows.world import World

Check = Callable[[headwater.View, list[dict]], None]


@pytest.fixture(scope="package", params=("iceberg", "paimon"))
def world(request, tmp_path_factory) -> Iterator[World]:
    pytest.importorskip({"iceberg": "pyiceberg", "paimon": "pypaimon"}[request.param])
    opened = World.open(tmp_path_factory.mktemp(request.param), request.param)
    yield opened
    opened.hw.close()
    close_opened()


@pytest.fixture
def check() -> Check:
    """Compare what each engine reads with what the client reads, and with what is expected."""

    def compare(view: headwater.View, expected: list[dict]) -> None:
        assert counted(view.scan().to_pylist()) == counted(expected)
        for name, reader in READERS.items():
            found = reader(view)
            assert found.schema.names == view.schema.names, name
            assert counted(found.to_pylist()) == counted(expected), name

    return compare
