"""What clients ask first: versions, and where everything is."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from headwater import errors
from headwater.model.acl import Operation, Resource
from headwater.model.table import TableInfo
from headwater.runtime.tasks import in_turns
from headwater.server.catalog.store import PartitionInfo
from headwater.server.context import FAULT_DELAY_S, Context, table_path
from headwater.server.handlers.tables import table_json
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS
from headwater.wire.messages import Part, bytes_head


async def api_versions(_: pb.ApiVersionsRequest, __: Context) -> pb.ApiVersionsResponse:
    """Return the supported APIs and versions."""
    # No server type: one port is both coordinator and tablet server.
    return pb.ApiVersionsResponse(
        api_versions=[
            pb.ApiVersion(api_key=api.key, min_version=0, max_version=api.version_max)
            for api in APIS.values()
        ]
    )


# Metadata: one server leads every bucket.

NODE_ID = 0
LEADER_EPOCH = 0
_TABLE_METADATA, _PARTITION_METADATA = 3, 4
_BUCKETS_OF_TABLE, _BUCKETS_OF_PARTITION = 5, 4


async def get_metadata(request: pb.MetadataRequest, context: Context) -> list[Part]:
    """Describe tables and partitions with the leaders of their buckets."""
    try:
        return await _metadata(request, context)
    except errors.PartitionMissingError:
        # Writers retry immediately until somebody creates it: slow them down.
        await context.services.clock.sleep(FAULT_DELAY_S)
        raise


async def _metadata(request: pb.MetadataRequest, context: Context) -> list[Part]:
    """Encode one table or partition after the other, as long as the response has room for it."""
    node = _node(context)
    answer = pb.MetadataResponse(coordinator_server=node, tablet_servers=[node])
    parts: list[Part] = [answer.SerializeToString()]
    left_bytes = bytes_max = context.services.settings.response_bytes_max
    async for number, encoded in in_turns(_described(request, context)):
        parts += [bytes_head(number, sum(map(len, encoded))), *encoded]
        left_bytes -= sum(map(len, encoded))
        if left_bytes < 0:
            raise errors.RecordTooLargeError(
                f"The metadata takes more than {bytes_max} bytes.",
                hint="Ask for fewer tables or partitions at a time.",
            )
    return parts


def _described(
    request: pb.MetadataRequest, context: Context
) -> Iterator[tuple[int, Sequence[Part]]]:
    """Yield the field of each table and partition that the client may see, once each."""
    tables = context.catalog.tables
    for path in dict.fromkeys(map(table_path, request.table_path)):
        if not context.may(Operation.DESCRIBE, Resource.table(path)):
            continue
        table = tables.info(path)
        context.session.told(table.table_id, table.schema_id)
        yield _TABLE_METADATA, _table_metadata(table, context)
    described: set[int] = set()
    for table, found in _partitions(request, context):
        if found.partition_id not in described:
            described.add(found.partition_id)
            yield _PARTITION_METADATA, _partition_metadata(table, found)


def _partitions(
    request: pb.MetadataRequest, context: Context
) -> Iterator[tuple[TableInfo, PartitionInfo]]:
    tables, partitions = context.catalog.tables, context.catalog.partitions
    for path in request.partitions_path:
        if not context.may(Operation.DESCRIBE, Resource.table(table_path(path))):
            continue
        table = tables.info(table_path(path))
        yield table, partitions.by_name(table.path, path.partition_name)
    for number in request.partitions_id:
        found = partitions.by_id(number)
        if context.may(Operation.DESCRIBE, found.table_id):
            yield tables.by_id(found.table_id), found


def _node(context: Context) -> pb.ServerNode:
    settings, session = context.services.settings, context.session
    host, port = settings.advertised_host, settings.advertised_port
    if session.is_encrypted and settings.tls_port is not None:
        host, port = settings.tls_advertised_host, settings.tls_advertised_port
    # By default a client is sent to the address that it is connected to.
    return pb.ServerNode(
        node_id=NODE_ID, host=host or session.local_host, port=port or session.local_port
    )


def _table_metadata(table: TableInfo, context: Context) -> Sequence[Part]:
    path = pb.TablePath(database_name=table.path.database, table_name=table.path.table)
    described = pb.TableMetadata(
        table_path=path,
        table_id=table.table_id,
        schema_id=table.schema_id,
        table_json=table_json(table, context),
        created_time=table.created_ms,
        modified_time=table.modified_ms,
    )
    leaders = b"" if table.descriptor.is_partitioned else _leaders(table, _BUCKETS_OF_TABLE)
    return described.SerializeToString(), leaders


def _partition_metadata(table: TableInfo, partition: PartitionInfo) -> Sequence[Part]:
    described = pb.PartitionMetadata(
        table_id=table.table_id,
        partition_name=partition.name,
        partition_id=partition.partition_id,
    )
    return described.SerializeToString(), _leaders(table, _BUCKETS_OF_PARTITION)


def _leaders(table: TableInfo, number: int) -> bytes:
    return _encoded_leaders(table.descriptor.bucket_count or 1, number)


@lru_cache(maxsize=64)
def _encoded_leaders(bucket_count: int, number: int) -> bytes:
    """Encode the buckets of a table or partition: the same for all with so many buckets."""
    buckets = (
        pb.BucketMetadata(
            bucket_id=bucket, leader_id=NODE_ID, replica_id=[NODE_ID], leader_epoch=LEADER_EPOCH
        ).SerializeToString()
        for bucket in range(bucket_count)
    )
    return b"".join(bytes_head(number, len(bucket)) + bucket for bucket in buckets)
