"""A storage, a lake of every format, and both together."""

from collections.abc import AsyncIterator

import pytest

from headwater import aio
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from tests.lake.formats import FORMATS, config_of, opened
from tests.tiering.world import World

# The format of the table decides how rows find their bucket; the plain lake takes any.
TABLE_FORMATS = {"plain": "iceberg", "iceberg": "iceberg", "paimon": "paimon"}


@pytest.fixture
async def hw(tmp_path) -> AsyncIterator[aio.AsyncClient]:
    settings = ClientSettings(deadline_s=30.0)
    async with await aio.open(tmp_path / "data", settings=settings) as client:
        yield client


@pytest.fixture(params=FORMATS)
def lake_format(request) -> str:
    return request.param


@pytest.fixture
def lakes(lake_format, tmp_path) -> Lakes:
    directory = tmp_path / "lake"
    directory.mkdir()
    return Lakes(
        opener=lambda _name, _config: opened(lake_format, config_of(lake_format, directory))
    )


@pytest.fixture
def world(hw, lakes, lake_format, tmp_path) -> World:
    hw.cluster.lakes = lakes
    return World(hw, lakes, TABLE_FORMATS[lake_format], tmp_path / "lake")
