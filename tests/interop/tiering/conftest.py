"""A client of a cluster that has a lake, and what it makes there."""

from collections.abc import AsyncIterator

import pytest_asyncio

from headwater import aio
from headwater.config.client import ClientSettings
from tests.interop.lake_cluster import LakeCluster
from tests.interop.tiering.world import ClusterWorld


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
