"""Partitions: create, drop, list."""

from headwater.server.context import Context
from headwater.server.handlers.paths import spec_of, table_path
from headwater.wire import fluss_pb2 as pb


async def create_partition(
    request: pb.CreatePartitionRequest, context: Context
) -> pb.CreatePartitionResponse:
    """Create a partition; writers do so on the fly as well."""
    await context.catalog.partitions.create_soon(
        table_path(request.table_path),
        spec_of(request.partition_spec),
        ignore_if_exists=request.ignore_if_exists,
    )
    return pb.CreatePartitionResponse()


async def drop_partition(
    request: pb.DropPartitionRequest, context: Context
) -> pb.DropPartitionResponse:
    """Drop a partition and its data."""
    dropped = context.catalog.partitions.drop(
        table_path(request.table_path),
        spec_of(request.partition_spec),
        ignore_if_missing=request.ignore_if_not_exists,
    )
    if dropped is not None:
        await context.tablets.drop_partition(dropped.table_id, dropped.partition_id)
    return pb.DropPartitionResponse()


async def list_partition_infos(
    request: pb.ListPartitionInfosRequest, context: Context
) -> pb.ListPartitionInfosResponse:
    """List the partitions of a table that fit a partial specification."""
    partial = spec_of(request.partial_partition_spec)
    found = context.catalog.partitions.list(table_path(request.table_path), partial)
    return pb.ListPartitionInfosResponse(
        partitions_info=[
            pb.PartitionInfo(
                partition_id=partition.partition_id,
                partition_spec=pb.PartitionSpec(
                    partition_key_values=[
                        pb.KeyValue(key=key, value=value) for key, value in partition.spec
                    ]
                ),
            )
            for partition in found
        ]
    )
