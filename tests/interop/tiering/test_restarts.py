"""A coordinator that is started again finds its lake, and tiering goes on."""

from collections.abc import Iterator

import pytest

from tests.interop.lake_cluster import LAKES, LakeCluster, running_lake_cluster
from tests.tiering.world import rows


@pytest.fixture(scope="module", params=LAKES)
def lake_cluster(request, tmp_path_factory) -> Iterator[LakeCluster]:
    """Give a cluster of its own.

    Iceberg's catalog in Java leaves a read open when it finds its tables in SQLite, and then
    cannot write once others have: a coordinator that was started again makes no more tables.
    """
    with running_lake_cluster(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


async def test_tiering_goes_on_after_the_coordinator_restarted(world, lake_cluster):
    table = await world.table()
    for number in range(3):
        await table.append(rows(number))
        await world.tier(table)
    lake_cluster.cluster.restart_coordinator()
    await table.append(rows(3))

    report = await world.tier(table)

    await world.check(table)
    assert report.row_count == 1
