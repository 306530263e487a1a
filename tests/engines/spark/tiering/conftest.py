"""A storage that workers of Spark reach, a lake of each format, and a runner on Spark."""

from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from headwater import aio
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.tiering.runner import SparkRunner
from headwater.lake.lakes import Lakes
from tests.lake.formats import config_of, opened
from tests.tiering.world import World

WITHIN_S = 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Give the first task of a session the time that loading everything takes."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(WITHIN_S))


@pytest.fixture
async def hw(tmp_path) -> AsyncIterator[aio.AsyncClient]:
    async with await aio.open(tmp_path / "data", listen=True) as client:
        yield client


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request) -> str:
    return request.param


@pytest.fixture
def lakes(lake_format, tmp_path) -> Lakes:
    config = config_of(lake_format, tmp_path / "lake")
    (tmp_path / "lake").mkdir()
    return Lakes(opener=lambda name, _config: opened(name, config))


@pytest.fixture
def world(hw, lakes, lake_format, tmp_path) -> World:
    return World(hw, lakes, lake_format, tmp_path / "lake")


@pytest.fixture
def runner(spark, hw) -> Iterator[SparkRunner]:
    runner = SparkRunner(spark, SparkConnection(servers=(hw.address,)))
    yield runner
    runner.close()
