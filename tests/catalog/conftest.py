"""An open catalog for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.server.catalog.catalog import ServerCatalog
from tests.catalog.samples import FakeClock, open_catalog


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def catalog(tmp_path: Path, clock: FakeClock) -> Iterator[ServerCatalog]:
    opened = open_catalog(tmp_path, clock=clock, partition_count_max=5)
    yield opened
    opened.close()
