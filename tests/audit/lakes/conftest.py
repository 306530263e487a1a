"""A storage and a lake of every format."""

from collections.abc import AsyncIterator

import pytest

from headwater import aio
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from tests.audit.lakes.auditing import LakeWorld
from tests.lake.formats import FORMATS, config_of, opened
from tests.tiering.conftest import TABLE_FORMATS


@pytest.fixture(params=FORMATS)
def lake_format(request) -> str:
    return request.param


@pytest.fixture
async def world(lake_format, tmp_path) -> AsyncIterator[LakeWorld]:
    directory = tmp_path / "lake"
    directory.mkdir()
    lakes = Lakes(
        opener=lambda _name, _config: opened(lake_format, config_of(lake_format, directory))
    )
    settings = ClientSettings(deadline_s=30.0)
    async with await aio.open(tmp_path / "data", settings=settings) as hw:
        hw.cluster.lakes = lakes
        storage = (await hw.lake.heartbeat()).storage_id
        yield LakeWorld(hw, lakes, TABLE_FORMATS[lake_format], directory, storage=storage)
