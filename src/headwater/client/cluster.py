"""The servers behind a client: who leads which bucket, and how to reach them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from headwater.client.metadata import Metadata, metadata_of
from headwater.client.paths import wire_path
from headwater.client.pool import Address, Pool
from headwater.client.retries import Retries
from headwater.config.client import ClientSettings
from headwater.errors import (
    BucketMissingError,
    DisconnectedError,
    LeaderMissingError,
    NotCoordinatorError,
    PartitionMissingError,
    ServerFaultError,
    ServerUnreachableError,
    TableMissingError,
    TimedOutError,
)
from headwater.lake.lakes import Lakes
from headwater.model.bucket import TableBucket
from headwater.model.partition import name_of_spec
from headwater.model.path import TablePath
from headwater.model.schema import Schema, schema_from_json
from headwater.model.table import TableInfo
from headwater.model.type_json import document_of
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import shared
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.fields import Part

Response = TypeVar("Response", bound=Message)
T = TypeVar("T")


class Cluster:
    """Find leaders, keep what metadata told, and send requests to the right server."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        pool: Pool,
        *,
        settings: ClientSettings,
        clock: Clock,
        lakes: Lakes | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.lakes = lakes or Lakes()
        self.retries = Retries(settings, clock)
        self._bootstrap = tuple(bootstrap)
        self._pool = pool
        self._coordinator: Address | None = None
        # How often a server that was asked knew no leader, which tells whom to ask next.
        self._turn = 0
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[TableBucket, int] = {}
        self._paths: dict[int, TablePath] = {}
        self._table_ids: dict[TablePath, int] = {}
        self._partition_ids: dict[tuple[int, str], int] = {}
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._looking: dict[TablePath | int, asyncio.Task[Metadata]] = {}
        self._owned: dict[type[object], object] = {}

    def own(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the one thing of a kind that is kept for as long as the cluster is used."""
        found = self._owned.get(kind)
        if not isinstance(found, kind):
            found = make()
            self._owned[kind] = found
        return found

    # ---- what metadata tells

    async def table(self, path: TablePath) -> TableInfo:
        """Return a table as the cluster knows it now."""
        request = pb.MetadataRequest(table_path=[wire_path(path)])
        metadata = await self.retries.run(
            lambda: self._metadata(request), what=f"Finding the table {path}"
        )
        for table in metadata.tables:
            if table.path == path:
                return table
        raise TableMissingError(f"There is no table {path}.")

    def know(self, table: TableInfo) -> None:
        """Take note of a table that another process has found, so as not to ask again."""
        self._paths[table.table_id] = table.path
        # Ids only grow, so that the larger one is that of the table there is.
        newest = max(self._table_ids.get(table.path, table.table_id), table.table_id)
        self._table_ids[table.path] = newest

    async def schema(self, table: TableInfo, schema_id: int) -> Schema:
        """Return a version of a table's schema."""
        if schema_id == table.schema_id:
            return table.schema
        known = self._schemas.get((table.table_id, schema_id))
        if known is None:
            request = pb.GetTableSchemaRequest(
                table_path=wire_path(table.path), schema_id=schema_id
            )
            answer = await self.ask(request, pb.GetTableSchemaResponse)
            known = schema_from_json(document_of(answer.schema_json))
            self._schemas[table.table_id, schema_id] = known
        return known

    async def partition_id(self, table: TableInfo, name: str) -> int:
        """Return the id of a partition, or say that there is none."""
        known = self._partition_ids.get((table.table_id, name))
        if known is not None:
            return known
        path = pb.PhysicalTablePath(
            database_name=table.path.database, table_name=table.path.table, partition_name=name
        )
        request = pb.MetadataRequest(partitions_path=[path])
        await self.retries.run(
            lambda: self._metadata(request), what=f"Finding partition {name} of {table.path}"
        )
        known = self._partition_ids.get((table.table_id, name))
        if known is None:
            raise PartitionMissingError(f"{table.path} has no partition {name}.")
        return known

    def knows_partition(self, table: TableInfo, name: str) -> bool:
        """Tell whether the id of a partition is known, without asking anybody."""
        return (table.table_id, name) in self._partition_ids

    async def partitions(self, table: TableInfo) -> dict[str, int]:
        """Return the partitions that a table has now: name to id."""
        request = pb.ListPartitionInfosRequest(table_path=wire_path(table.path))
        answer = await self.ask(request, pb.ListPartitionInfosResponse)
        keys = table.descriptor.partition_keys
        found = {_name(each, keys): each.partition_id for each in answer.partitions_info}
        for known in [each for each in self._partition_ids if each[0] == table.table_id]:
            del self._partition_ids[known]
        self._partition_ids |= {(table.table_id, name): number for name, number in found.items()}
        return found

    def forget_partition(self, table: TableInfo, name: str) -> None:
        """Ask anew for a partition, which may have been dropped or made again."""
        self._partition_ids.pop((table.table_id, name), None)

    async def leader(self, bucket: TableBucket) -> int:
        """Return the server that leads a bucket, asking the cluster if that is not known."""
        known = self._leaders.get(bucket)
        if known is not None and known in self._nodes:
            return known
        # Once for all who ask together: as many steps as there are servers lead back to the same.
        following = self._turn + 1
        try:
            await self._look_up(bucket)
        except PartitionMissingError:
            await self._check_dropped(bucket)
            self._turn = following
            raise LeaderMissingError(f"Not every server knows {bucket} yet.") from None
        self._check_same_table(bucket)
        known = self._leaders.get(bucket)
        if known is None or known not in self._nodes:
            # The one that was asked may have missed the news; the next one is asked then.
            self._turn = following
            raise LeaderMissingError(f"No server leads {bucket} at present.")
        return known

    def stale(self, bucket: TableBucket) -> None:
        """Ask for the leader of a bucket again before the next use."""
        self._leaders.pop(bucket, None)

    async def _look_up(self, bucket: TableBucket) -> None:
        """Refresh a table or partition once, however many of its buckets are asked for."""
        key = self._path(bucket) if bucket.partition_id is None else bucket.partition_id
        looking = self._looking.get(key)
        if looking is None:
            if isinstance(key, TablePath):
                request = pb.MetadataRequest(table_path=[wire_path(key)])
            else:
                request = pb.MetadataRequest(partitions_id=[key])
            looking = asyncio.get_running_loop().create_task(self._metadata(request))
            self._looking[key] = looking
            looking.add_done_callback(lambda _: self._looking.pop(key, None))
        await shared(looking)

    def _check_same_table(self, bucket: TableBucket) -> None:
        """Refuse a table that was dropped, though there is another of its name."""
        path = self._path(bucket)
        if self._table_ids.get(path) != bucket.table_id:
            raise TableMissingError(
                f"{path} was dropped, and there is another table of that name now.",
                hint="Get the table again.",
            )

    async def _check_dropped(self, bucket: TableBucket) -> None:
        """Raise what the coordinator says of a partition that another server does not know."""
        path = self._path(bucket)
        request = pb.ListPartitionInfosRequest(table_path=wire_path(path))
        answer = await self._ask_once(request, pb.ListPartitionInfosResponse, coordinator=True)
        if all(each.partition_id != bucket.partition_id for each in answer.partitions_info):
            raise PartitionMissingError(f"{path} has no partition {bucket.partition_id} any more.")

    def _path(self, bucket: TableBucket) -> TablePath:
        path = self._paths.get(bucket.table_id)
        if path is None:
            raise BucketMissingError(f"{bucket} belongs to no table that is known.")
        return path

    async def _metadata(self, request: pb.MetadataRequest) -> Metadata:
        try:
            answer = await self._ask_once(request, pb.MetadataResponse, coordinator=False)
        except ServerFaultError:
            for path in request.table_path:
                # Apache Fluss fails where a table is missing; asked this way it says so.
                question = pb.GetTableInfoRequest(table_path=path)
                await self._ask_once(question, pb.GetTableInfoResponse, coordinator=False)
            raise
        metadata = metadata_of(answer)
        if metadata.nodes:
            self._nodes = dict(metadata.nodes)
        self._coordinator = metadata.coordinator or self._coordinator
        self._leaders |= metadata.leaders
        self._partition_ids |= metadata.partition_ids
        self._paths |= {table.table_id: table.path for table in metadata.tables}
        self._table_ids |= {table.path: table.table_id for table in metadata.tables}
        return metadata

    # ---- calls

    async def call_leader(
        self,
        bucket: TableBucket,
        api: Api,
        parts: Sequence[Part],
        *,
        timeout_s: float | None = None,
    ) -> memoryview:
        """Send a request to the leader of a bucket, once."""
        node_id = await self.leader(bucket)
        return await self.call_node(node_id, api, parts, timeout_s=timeout_s)

    async def call_node(
        self, node_id: int, api: Api, parts: Sequence[Part], *, timeout_s: float | None = None
    ) -> memoryview:
        """Send a request to a server, once."""
        address = self._nodes.get(node_id)
        if address is None:
            raise DisconnectedError(f"Server {node_id} has left the cluster.")
        link = await self._pool.link(address)
        return await link.exchange(
            api,
            parts,
            timeout_s=self.settings.request_timeout_s if timeout_s is None else timeout_s,
        )

    async def ask(
        self, request: Message, response: type[Response], *, coordinator: bool = False
    ) -> Response:
        """Send a request to any server, or to the coordinator, until it is answered."""
        what = API_OF_REQUEST[type(request)].key.name
        return await self.retries.run(
            lambda: self._ask_once(request, response, coordinator=coordinator), what=what
        )

    async def _ask_once(
        self, request: Message, response: type[Response], *, coordinator: bool
    ) -> Response:
        api = API_OF_REQUEST[type(request)]
        address = await (self._coordinator_address() if coordinator else self._any_address())
        link = await self._pool.link(address)
        try:
            body = await link.exchange(
                api, [request.SerializeToString()], timeout_s=self.settings.request_timeout_s
            )
        except (DisconnectedError, NotCoordinatorError):
            if coordinator:  # Another one may have taken its place.
                self._coordinator = None
            raise
        answer = response()
        answer.ParseFromString(bytes(body))
        return answer

    async def _coordinator_address(self) -> Address:
        if self._coordinator is None:
            await self._metadata(pb.MetadataRequest())
        if self._coordinator is None:
            raise LeaderMissingError("The cluster has no coordinator at present.")
        return self._coordinator

    async def _any_address(self) -> Address:
        """Return a server that can be reached, trying all that are known."""
        faults: list[DisconnectedError] = []
        # Tablet servers first, as a coordinator serves less.
        for address in dict.fromkeys((*self._nodes_to_ask(), *self._bootstrap)):
            try:
                await self._pool.link(address)
                return address
            except DisconnectedError as fault:
                faults.append(fault)
        if len(faults) == 1:
            raise faults[0]
        is_hopeless = all(isinstance(fault, ServerUnreachableError) for fault in faults)
        kind = ServerUnreachableError if is_hopeless else DisconnectedError
        raise kind(" ".join(fault.message for fault in faults))

    def _nodes_to_ask(self) -> list[Address]:
        """Return the tablet servers: the one at hand first, or whose turn it is to know more."""
        if not self._turn or not self._nodes:
            return sorted(self._nodes.values(), key=lambda each: each not in self._pool.reached)
        nodes = sorted(self._nodes.values(), key=str)
        first = self._turn % len(nodes)
        return [*nodes[first:], *nodes[:first]]

    async def connect(self) -> None:
        """Reach the cluster for the first time and learn who belongs to it.

        Where nobody listens that is told at once, unless the settings say to wait: most often
        the server was not started, or the address is wrong.
        """
        try:
            await self.retries.run(
                lambda: self._metadata(pb.MetadataRequest()),
                what=f"Connecting to {', '.join(map(str, self._bootstrap))}",
                timeout_s=self.settings.connect_timeout_s,
                hopeless=() if self.settings.waits_for_server else (ServerUnreachableError,),
            )
        except TimedOutError as fault:
            raise TimedOutError(
                fault.message,
                hint="Check the address, and that the server runs: headwater serve ./data",
            ) from fault

    async def close(self) -> None:
        """Close every link."""
        await self._pool.close()


def _name(partition: pb.PartitionInfo, keys: Sequence[str]) -> str:
    values = {each.key: each.value for each in partition.partition_spec.partition_key_values}
    return name_of_spec(tuple((key, values[key]) for key in keys))
