"""Leaders are found as long as one server knows them."""

import asyncio
import json

import pytest

from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address
from headwater.config.client import ClientSettings
from headwater.errors import LeaderMissingError
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.runtime.clock import SystemClock
from headwater.wire import fluss_pb2 as pb

PATH = TablePath("fluss", "t")
TABLE = {
    "version": 1,
    "schema": {"version": 1, "columns": [{"name": "id", "data_type": {"type": "INTEGER"}}]},
    "bucket_count": 1,
}


class FakeServers:
    """Be a pool of servers, of which some have not heard who leads the only bucket."""

    def __init__(self, *leaders):
        self._leaders = leaders
        self.asked = []

    @property
    def reached(self):
        return (Address("server", 0),)

    async def link(self, address):
        return FakeLink(self, address.port)

    def metadata(self, number):
        self.asked.append(number)
        nodes = range(len(self._leaders))
        bucket = pb.BucketMetadata(bucket_id=0)
        if self._leaders[number] is not None:
            bucket.leader_id = self._leaders[number]
        table = pb.TableMetadata(
            table_path=pb.TablePath(database_name="fluss", table_name="t"),
            table_id=1,
            schema_id=1,
            table_json=json.dumps(TABLE).encode(),
            bucket_metadata=[bucket],
            created_time=0,
            modified_time=0,
        )
        servers = [pb.ServerNode(node_id=n, host="server", port=n) for n in nodes]
        return pb.MetadataResponse(tablet_servers=servers, table_metadata=[table])


class FakeLink:
    def __init__(self, servers, number):
        self._servers = servers
        self._number = number

    async def exchange(self, api, parts, *, timeout_s):
        return memoryview(self._servers.metadata(self._number).SerializeToString())


def cluster_of(servers):
    return Cluster([Address("server", 0)], servers, settings=ClientSettings(), clock=SystemClock())


async def test_another_server_is_asked_where_one_has_not_heard_of_the_leader():
    servers = FakeServers(None, None, 2)
    cluster = cluster_of(servers)
    await cluster.table(PATH)

    for _ in range(2):
        with pytest.raises(LeaderMissingError):
            await cluster.leader(TableBucket(1, 0))

    assert await cluster.leader(TableBucket(1, 0)) == 2
    assert servers.asked == [0, 0, 1, 2]


async def test_buckets_that_are_asked_for_together_take_turns_once():
    servers = FakeServers(None, None, 2)
    cluster = cluster_of(servers)
    await cluster.table(PATH)
    buckets = [TableBucket(1, 0)] * len(servers.metadata(0).tablet_servers)
    servers.asked.clear()

    for _ in range(2):
        answers = await asyncio.gather(*map(cluster.leader, buckets), return_exceptions=True)
        assert all(isinstance(each, LeaderMissingError) for each in answers)

    assert await cluster.leader(buckets[0]) == 2
    assert servers.asked == [0, 1, 2]


async def test_the_server_at_hand_is_asked_as_long_as_it_knows():
    servers = FakeServers(0, 0)
    cluster = cluster_of(servers)

    for _ in range(3):
        await cluster.table(PATH)

    assert servers.asked == [0, 0, 0]
