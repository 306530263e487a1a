"""The servers behind a client: which one leads which bucket, how to reach it, when to retry."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from headwater import errors
from headwater.cluster.blocking import BlockingConnections
from headwater.cluster.links import Address, DirectReads, Pool
from headwater.cluster.paths import wire_path
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath, name_of_spec
from headwater.model.schema import Schema, schema_from_json
from headwater.model.table import TableDescriptor, TableInfo, descriptor_from_json
from headwater.model.type_json import document_of
from headwater.runtime.clock import Clock, random_fraction
from headwater.runtime.tasks import shared
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.messages import Part, checked_answer_of
from headwater.wire.write import ProduceRequest, PutRequest

# Retries: how long to wait between attempts, and when to give up.

T = TypeVar("T")
_DOUBLINGS_MAX = 32


class Retries:
    """Repeat an operation that may succeed later, until it does or time is up."""

    def __init__(self, settings: ClientSettings, clock: Clock) -> None:
        self._settings = settings
        self.clock = clock

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        what: str,
        timeout_s: float | None = None,
        hopeless: tuple[type[errors.HeadwaterError], ...] = (),
    ) -> T:
        """Run an attempt; retriable errors are retried until the deadline.

        Errors that are `hopeless` are raised at once, even if another attempt could succeed.
        """
        timeout_s = self._settings.deadline_s if timeout_s is None else timeout_s
        deadline = self.clock.monotonic() + timeout_s
        failures, fault = 0, None
        while True:
            try:
                async with asyncio.timeout(max(deadline - self.clock.monotonic(), 0.0)):
                    return await attempt()
            except TimeoutError:
                raise _too_late(what, timeout_s, fault) from fault
            except errors.HeadwaterError as failed:
                if not failed.retriable or isinstance(failed, hopeless):
                    raise
                fault = failed
            failures += 1
            pause_s = self.backoff_s(failures)
            if self.clock.monotonic() + pause_s >= deadline:
                raise _too_late(what, timeout_s, fault) from fault
            await self.clock.sleep(pause_s)

    def backoff_s(self, failures: int) -> float:
        """Return how long to wait after a number of failures in a row, with random jitter."""
        doubled = self._settings.backoff_first_s * 2 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(doubled, self._settings.backoff_max_s) * (0.5 + random_fraction() / 2)


def _too_late(
    what: str, timeout_s: float, fault: errors.HeadwaterError | None
) -> errors.TimedOutError:
    last = "" if fault is None else f" The last attempt failed: {fault}"
    return errors.TimedOutError(f"{what} did not succeed within {timeout_s:g} s.{last}")


# Metadata: servers, tables, and which server leads which bucket.


@dataclass(frozen=True, slots=True)
class Metadata:
    """One metadata response of a cluster."""

    coordinator: Address | None
    nodes: Mapping[int, Address]
    tables: tuple[TableInfo, ...]
    partition_ids: Mapping[tuple[int, str], int]
    leaders: Mapping[TableBucket, int]


def metadata_of(answer: pb.MetadataResponse) -> Metadata:
    """Parse a metadata response."""
    leaders: dict[TableBucket, int] = {}
    for table in answer.table_metadata:
        leaders |= _leaders(table.bucket_metadata, table.table_id, partition_id=None)
    for partition in answer.partition_metadata:
        leaders |= _leaders(
            partition.bucket_metadata, partition.table_id, partition_id=partition.partition_id
        )
    has_coordinator = answer.HasField("coordinator_server")
    return Metadata(
        coordinator=_address(answer.coordinator_server) if has_coordinator else None,
        nodes={node.node_id: _address(node) for node in answer.tablet_servers},
        tables=tuple(map(_table, answer.table_metadata)),
        partition_ids={
            (each.table_id, each.partition_name): each.partition_id
            for each in answer.partition_metadata
        },
        leaders=leaders,
    )


def _address(node: pb.ServerNode) -> Address:
    return Address(node.host, node.port)


def _table(table: pb.TableMetadata) -> TableInfo:
    return TableInfo(
        path=TablePath(table.table_path.database_name, table.table_path.table_name),
        table_id=table.table_id,
        schema_id=table.schema_id,
        descriptor=read_descriptor(table.table_json),
        created_ms=table.created_time,
        modified_ms=table.modified_time,
    )


def read_descriptor(table_json: bytes) -> TableDescriptor:
    """Parse a table descriptor from JSON."""
    try:
        return descriptor_from_json(document_of(table_json))
    except ValueError as cause:
        raise errors.InvalidTableError(
            f"The server sent a table descriptor that is not JSON: {cause}."
        ) from cause


def _leaders(
    buckets: Iterable[pb.BucketMetadata], table_id: int, *, partition_id: int | None
) -> dict[TableBucket, int]:
    return {
        TableBucket(table_id, each.bucket_id, partition_id): each.leader_id
        for each in buckets
        if each.HasField("leader_id") and each.leader_id >= 0
    }


class DirectWrites(Protocol):
    """Write to a server of this process, from any thread but the server's own."""

    def write(
        self, request: ProduceRequest | PutRequest, *, timeout_s: float
    ) -> tuple[int, errors.HeadwaterError | None]:
        """Return the offset of the answer once rows are durable, or why they are not."""
        ...


Response = TypeVar("Response", bound=Message)


class Cluster:
    """Find leaders, cache metadata, and send requests to the right server."""

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        bootstrap: Sequence[Address],
        pool: Pool,
        *,
        settings: ClientSettings,
        clock: Clock,
        lakes: Lakes | None = None,
        reads: DirectReads | None = None,
        writes: DirectWrites | None = None,
        blocking: BlockingConnections | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.lakes = lakes or Lakes()
        self.retries = Retries(settings, clock)
        # Shortcuts for callers that do not await: directly into a server of this process, or over
        # blocking connections.
        self.reads = reads
        self.writes = writes
        self.blocking = blocking
        self.is_closed = False
        self._bootstrap = tuple(bootstrap)
        self._pool = pool
        self._coordinator: Address | None = None
        # How often a server knew no leader; this decides which server is asked next.
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
        """Return the cluster's single instance of a kind, making it on first use."""
        found = self._owned.get(kind)
        if not isinstance(found, kind):
            found = make()
            self._owned[kind] = found
        return found

    # ---- metadata

    async def table(self, path: TablePath) -> TableInfo:
        """Fetch a table as the cluster knows it now."""
        request = pb.MetadataRequest(table_path=[wire_path(path)])
        metadata = await self.retries.run(
            lambda: self._metadata(request), what=f"Finding the table {path}"
        )
        for table in metadata.tables:
            if table.path == path:
                return table
        # A server leaves out what one may not see; asked this way it says so.
        question = pb.GetTableInfoRequest(table_path=wire_path(path))
        await self._ask_once(question, pb.GetTableInfoResponse, coordinator=False)
        raise errors.TableMissingError(f"There is no table {path}.")

    def know(self, table: TableInfo) -> None:
        """Cache a table that another process has fetched."""
        self._paths[table.table_id] = table.path
        # Ids only grow, so the larger one belongs to the table that exists now.
        newest = max(self._table_ids.get(table.path, table.table_id), table.table_id)
        self._table_ids[table.path] = newest

    async def schema(self, table: TableInfo, schema_id: int) -> Schema:
        """Fetch a schema version of a table."""
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
        """Look up the id of a partition; an unknown name is an error."""
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
            raise errors.PartitionMissingError(f"{table.path} has no partition {name}.")
        return known

    def known_partition(self, table: TableInfo, name: str) -> int | None:
        """Return the id of a partition if it is cached; from any thread."""
        return self._partition_ids.get((table.table_id, name))

    def known_schema(self, table: TableInfo, schema_id: int) -> Schema | None:
        """Return a schema version of a table if it is cached; from any thread."""
        if schema_id == table.schema_id:
            return table.schema
        return self._schemas.get((table.table_id, schema_id))

    def knows_partition(self, table: TableInfo, name: str) -> bool:
        """Tell whether the id of a partition is cached."""
        return (table.table_id, name) in self._partition_ids

    async def partitions(self, table: TableInfo) -> dict[str, int]:
        """Fetch the partitions of a table now: name to id."""
        request = pb.ListPartitionInfosRequest(table_path=wire_path(table.path))
        answer = await self.ask(request, pb.ListPartitionInfosResponse)
        keys = table.descriptor.partition_keys
        found = {_name(each, keys): each.partition_id for each in answer.partitions_info}
        for known in [each for each in self._partition_ids if each[0] == table.table_id]:
            del self._partition_ids[known]
        self._partition_ids |= {(table.table_id, name): number for name, number in found.items()}
        return found

    def forget_partition(self, table: TableInfo, name: str) -> None:
        """Drop a partition from the cache; it may have been dropped or recreated."""
        self._partition_ids.pop((table.table_id, name), None)

    async def leader(self, bucket: TableBucket) -> int:
        """Find the server that leads a bucket, from the cache or the cluster."""
        known = self._leaders.get(bucket)
        if known is not None and known in self._nodes:
            return known
        # Once for all that wait together: otherwise as many steps as there are servers would lead
        # back to the same one.
        following = self._turn + 1
        try:
            await self._look_up(bucket)
        except errors.PartitionMissingError:
            await self._check_dropped(bucket)
            self._turn = following
            raise errors.LeaderMissingError(f"Not every server knows {bucket} yet.") from None
        self._check_same_table(bucket)
        known = self._leaders.get(bucket)
        if known is None or known not in self._nodes:
            # The server may not know yet; the next one is asked then.
            self._turn = following
            raise errors.LeaderMissingError(f"No server leads {bucket} at the moment.")
        return known

    def leader_address(self, bucket: TableBucket) -> Address | None:
        """Return the address of a bucket's leader if it is cached; from any thread."""
        node_id = self._leaders.get(bucket)
        return None if node_id is None else self._nodes.get(node_id)

    def stale(self, bucket: TableBucket) -> None:
        """Look up the leader of a bucket again before the next use."""
        self._leaders.pop(bucket, None)

    async def _look_up(self, bucket: TableBucket) -> None:
        """Refresh a table or partition once, however many of its buckets are waiting."""
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
        """Reject a table that was dropped, even if a new one has the same name."""
        path = self._path(bucket)
        if self._table_ids.get(path) != bucket.table_id:
            raise errors.TableMissingError(
                f"{path} was dropped, and a new table has the same name.",
                hint="Get the table again.",
            )

    async def _check_dropped(self, bucket: TableBucket) -> None:
        """Ask the coordinator about a partition that another server does not know."""
        path = self._path(bucket)
        request = pb.ListPartitionInfosRequest(table_path=wire_path(path))
        answer = await self._ask_once(request, pb.ListPartitionInfosResponse, coordinator=True)
        if all(each.partition_id != bucket.partition_id for each in answer.partitions_info):
            raise errors.PartitionMissingError(
                f"The partition {bucket.partition_id} of {path} no longer exists."
            )

    def _path(self, bucket: TableBucket) -> TablePath:
        path = self._paths.get(bucket.table_id)
        if path is None:
            raise errors.BucketMissingError(f"{bucket} does not belong to a known table.")
        return path

    async def _metadata(self, request: pb.MetadataRequest) -> Metadata:
        try:
            answer = await self._ask_once(request, pb.MetadataResponse, coordinator=False)
        except errors.ServerFaultError:
            for path in request.table_path:
                # Apache Fluss fails if a table is missing; asked this way it says so.
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
            raise errors.DisconnectedError(f"Server {node_id} has left the cluster.")
        link = await self._pool.link(address)
        return await link.exchange(
            api,
            parts,
            timeout_s=self.settings.request_timeout_s if timeout_s is None else timeout_s,
        )

    async def ask(
        self, request: Message, response: type[Response], *, coordinator: bool = False
    ) -> Response:
        """Send a request to any server, or to the coordinator, and retry until it is answered."""
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
        except (errors.DisconnectedError, errors.NotCoordinatorError):
            if coordinator:  # Another one may have replaced it.
                self._coordinator = None
            raise
        return checked_answer_of(response, body)

    async def _coordinator_address(self) -> Address:
        if self._coordinator is None:
            await self._metadata(pb.MetadataRequest())
        if self._coordinator is None:
            raise errors.LeaderMissingError("The cluster has no coordinator at the moment.")
        return self._coordinator

    async def _any_address(self) -> Address:
        """Find a server that can be reached, trying all known ones."""
        faults: list[errors.DisconnectedError] = []
        # Tablet servers first, since a coordinator serves fewer APIs.
        for address in dict.fromkeys((*self._nodes_to_ask(), *self._bootstrap)):
            try:
                await self._pool.link(address)
                return address
            except errors.DisconnectedError as fault:
                faults.append(fault)
        if len(faults) == 1:
            raise faults[0]
        is_hopeless = all(isinstance(fault, errors.ServerUnreachableError) for fault in faults)
        kind = errors.ServerUnreachableError if is_hopeless else errors.DisconnectedError
        raise kind(" ".join(fault.message for fault in faults))

    def _nodes_to_ask(self) -> list[Address]:
        """Return the tablet servers, the connected one or the next in turn first."""
        if not self._turn or not self._nodes:
            return sorted(self._nodes.values(), key=lambda each: each not in self._pool.reached)
        nodes = sorted(self._nodes.values(), key=str)
        first = self._turn % len(nodes)
        return [*nodes[first:], *nodes[:first]]

    async def connect(self) -> None:
        """Connect for the first time and fetch the list of servers.

        If no server is listening that fails at once, unless the settings say to wait: usually the
        server is not running or the address is wrong.
        """
        try:
            await self.retries.run(
                lambda: self._metadata(pb.MetadataRequest()),
                what=f"Connecting to {', '.join(map(str, self._bootstrap))}",
                timeout_s=self.settings.connect_timeout_s,
                hopeless=() if self.settings.waits_for_server else (errors.ServerUnreachableError,),
            )
        except errors.TimedOutError as fault:
            raise errors.TimedOutError(
                fault.message,
                hint="Check the address and that the server is running: headwater serve ./data",
            ) from fault

    async def close(self) -> None:
        """Close every link."""
        self.is_closed = True
        if self.blocking is not None:
            self.blocking.close()
        await self._pool.close()


def _name(partition: pb.PartitionInfo, keys: Sequence[str]) -> str:
    values = {each.key: each.value for each in partition.partition_spec.partition_key_values}
    return name_of_spec(tuple((key, values[key]) for key in keys))
