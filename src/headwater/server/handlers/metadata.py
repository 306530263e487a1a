"""Where everything is: one server that leads every bucket."""

from headwater.errors import PartitionMissingError
from headwater.model.table import TableInfo
from headwater.server.catalog.entries import PartitionInfo
from headwater.server.context import FAULT_DELAY_S, Context
from headwater.server.handlers.paths import table_path
from headwater.server.handlers.tables import table_json
from headwater.wire import fluss_pb2 as pb

NODE_ID = 0
LEADER_EPOCH = 0


async def get_metadata(request: pb.MetadataRequest, context: Context) -> pb.MetadataResponse:
    """Describe tables and partitions with the leaders of their buckets."""
    try:
        return _metadata(request, context)
    except PartitionMissingError:
        # Writers ask again at once until somebody creates it: they shall not do so at full speed.
        await context.services.clock.sleep(FAULT_DELAY_S)
        raise


def _metadata(request: pb.MetadataRequest, context: Context) -> pb.MetadataResponse:
    node = _node(context)
    tables = [context.catalog.tables.info(table_path(path)) for path in request.table_path]
    for table in tables:
        context.session.told(table.table_id, table.schema_id)
    return pb.MetadataResponse(
        coordinator_server=node,
        tablet_servers=[node],
        table_metadata=[_table_metadata(table, context) for table in tables],
        partition_metadata=[
            *(_partition_by_path(path, context) for path in request.partitions_path),
            *(_partition_by_id(number, context) for number in request.partitions_id),
        ],
    )


def _node(context: Context) -> pb.ServerNode:
    settings, session = context.services.settings, context.session
    # Unless told otherwise, a client is sent to the address that it has reached already.
    return pb.ServerNode(
        node_id=NODE_ID,
        host=settings.advertised_host or session.local_host,
        port=settings.advertised_port or session.local_port,
    )


def _table_metadata(table: TableInfo, context: Context) -> pb.TableMetadata:
    path = pb.TablePath(database_name=table.path.database, table_name=table.path.table)
    return pb.TableMetadata(
        table_path=path,
        table_id=table.table_id,
        schema_id=table.schema_id,
        table_json=table_json(table, context),
        bucket_metadata=[] if table.descriptor.is_partitioned else _buckets(table),
        created_time=table.created_ms,
        modified_time=table.modified_ms,
    )


def _buckets(table: TableInfo) -> list[pb.BucketMetadata]:
    return [
        pb.BucketMetadata(
            bucket_id=bucket, leader_id=NODE_ID, replica_id=[NODE_ID], leader_epoch=LEADER_EPOCH
        )
        for bucket in range(table.descriptor.bucket_count or 1)
    ]


def _partition_by_path(path: pb.PhysicalTablePath, context: Context) -> pb.PartitionMetadata:
    table = context.catalog.tables.info(table_path(path))
    partition = context.catalog.partitions.by_name(table.path, path.partition_name)
    return _partition_metadata(table, partition)


def _partition_by_id(partition_id: int, context: Context) -> pb.PartitionMetadata:
    partition = context.catalog.partitions.by_id(partition_id)
    return _partition_metadata(context.catalog.tables.by_id(partition.table_id), partition)


def _partition_metadata(table: TableInfo, partition: PartitionInfo) -> pb.PartitionMetadata:
    return pb.PartitionMetadata(
        table_id=table.table_id,
        partition_name=partition.name,
        partition_id=partition.partition_id,
        bucket_metadata=_buckets(table),
    )
