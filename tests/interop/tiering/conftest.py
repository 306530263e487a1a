"""A cluster of Apache Fluss with a lake, for each format that it can have."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from scripts.fluss_cluster import FlussCluster, fluss_version
from scripts.fluss_lake import ICEBERG_CATALOG, iceberg_lake, paimon_lake

from headwater import aio
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from tests.interop.tiering.world import ClusterWorld

LAKES = {"paimon": paimon_lake, "iceberg": iceberg_lake}


@dataclass(frozen=True)
class LakeCluster:
    format: str
    cluster: FlussCluster
    lakes: Lakes
    directory: Path


@pytest.fixture(scope="session", params=LAKES)
def lake_cluster(request, tmp_path_factory) -> Iterator[LakeCluster]:
    directory = tmp_path_factory.mktemp(request.param)
    version = fluss_version()
    lake = LAKES[request.param](version, directory)
    with FlussCluster.start(
        tablet_servers=1, version=version, settings=lake.settings, jars=lake.jars
    ) as cluster:
        lakes = Lakes(config=config_of(request.param, directory))
        yield LakeCluster(request.param, cluster, lakes, directory)


def config_of(lake_format: str, directory: Path) -> dict[str, str]:
    """Return what a tierer has to be told: Java and Python name catalogs in other ways."""
    if lake_format == "paimon":
        return {}
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.sqlite",
        "name": ICEBERG_CATALOG,
    }


@pytest_asyncio.fixture
async def world(lake_cluster: LakeCluster) -> AsyncIterator[ClusterWorld]:
    settings = ClientSettings(deadline_s=60.0)
    bootstrap = lake_cluster.cluster.bootstrap
    lake = dict(lake_cluster.lakes.config)
    async with await aio.connect(bootstrap, settings=settings, lake=lake) as client:
        world = ClusterWorld(
            client, lake_cluster.lakes, lake_cluster.format, lake_cluster.directory
        )
        yield world
        await world.drop_all()
