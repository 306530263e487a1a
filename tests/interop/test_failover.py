"""A tablet server may be killed: the cluster goes on without it and takes it back."""

from collections.abc import Iterator

import fluss
import pyarrow as pa
import pytest
from scripts.fluss_cluster import FlussCluster
from scripts.fluss_nodes import tablet_servers

from tests.conformance.client import append, create, read_all
from tests.interop.official import connected, settled

ROWS = pa.table({"id": pa.array(range(100), pa.int32())})
REPLICATED = {"table.replication.factor": "3"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[FlussCluster]:
    # Not the shared one: others would notice.
    with FlussCluster.start() as cluster:
        yield cluster


def test_all_servers_know_the_tablet_servers(cluster):
    known = dict(enumerate(cluster.tablet_addresses))

    for port in (cluster.layout.coordinator_port, *cluster.layout.tablet_ports):
        assert tablet_servers("127.0.0.1", port) == known


async def test_replicated_rows_survive_a_killed_tablet_server(cluster):
    path = fluss.TablePath("fluss", "replicated")
    async with connected(cluster.bootstrap) as connection:
        admin = connection.get_admin()
        await create(admin, path, ROWS.schema, bucket_count=3, properties=REPLICATED)
        await settled(admin, path, buckets=3)
        await append(await connection.get_table(path), ROWS)

    cluster.kill_tablet_server(0)
    cluster.await_tablet_servers([1, 2])

    async with connected(cluster.bootstrap) as connection:
        await settled(connection.get_admin(), path, buckets=3)
        read = await read_all(await connection.get_table(path), buckets=3)
    assert read.sort_by("id") == ROWS


def test_a_killed_tablet_server_comes_back(cluster):
    cluster.kill_tablet_server(1)

    cluster.restart_tablet_server(1)

    assert 1 in tablet_servers("127.0.0.1", cluster.layout.coordinator_port)
