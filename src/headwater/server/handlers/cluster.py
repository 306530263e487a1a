"""What newer clients ask of a cluster: settings, health, offsets of producers, leases.

One server has no remote storage, so it has no snapshots of states and no remote logs that clients
could read: lists of them are empty, no lease is given, and the data of one is not found.
"""

from collections.abc import Iterator
from dataclasses import replace

from headwater import errors
from headwater.config.lake import shown_options
from headwater.config.server import ServerSettings
from headwater.model.acl import Operation
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.tasks import in_turns
from headwater.server.context import Context
from headwater.wire import fluss_pb2 as pb

GREEN, RED = 0, 2
CREATED, ALREADY_EXISTS = 0, 1
_SOURCE = "INITIAL_SERVER_CONFIG"

# Settings and health.


async def describe_cluster_configs(
    _request: pb.DescribeClusterConfigsRequest, context: Context
) -> pb.DescribeClusterConfigsResponse:
    """List the settings that Fluss has too, under its names."""
    settings = context.services.settings
    authorizer = context.services.authorizer
    if authorizer is not None and authorizer.has_rule(context.session):
        # Who may not read all rows is not told where lakes are.
        settings = replace(settings, lake_properties={})
    return pb.DescribeClusterConfigsResponse(
        configs=[
            pb.DescribeConfig(config_key=key, config_value=value, config_source=_SOURCE)
            for key, value in sorted(_settings_of(settings))
        ]
    )


def _settings_of(settings: ServerSettings) -> Iterator[tuple[str, str]]:
    yield "default.bucket.number", str(settings.default_bucket_number)
    yield "default.replication.factor", "1"
    yield "max.bucket.num", str(settings.bucket_count_max)
    yield "max.partition.num", str(settings.partition_count_max)
    yield "auto-partition.check.interval", _seconds(settings.auto_partition_check_interval_s)
    yield "log.retention.check-interval", _seconds(settings.retention_check_interval_s)
    yield "kv.snapshot.interval", _seconds(settings.kv_snapshot_interval_s)
    yield "kv.scanner.ttl", _seconds(settings.kv_scanner_ttl_s)
    yield "kv.scanner.max-per-bucket", str(settings.kv_scanners_per_bucket_max)
    yield "kv.scanner.max-per-server", str(settings.kv_scanners_max)
    yield "netty.server.max-request-size", f"{settings.request_bytes_max}b"
    yield "datalake.format", str(settings.datalake_format)
    yield from shown_options(settings.lake_properties).items()


def _seconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


async def alter_cluster_configs(
    request: pb.AlterClusterConfigsRequest, _context: Context
) -> pb.AlterClusterConfigsResponse:
    """Refuse changes: settings hold from start to stop."""
    names = ", ".join(f"'{change.config_key[:80]}'" for change in request.alter_configs[:5])
    raise errors.InvalidOptionError(
        f"The settings of a running server cannot be changed: {names or 'none was named'}.",
        hint="Restart it with others: headwater serve --help.",
    )


async def get_cluster_health(
    _request: pb.GetClusterHealthRequest, context: Context
) -> pb.GetClusterHealthResponse:
    """Count the buckets, and those that can be written: each has one replica, its leader."""
    total = sum(_bucket_count(table, context) for table in context.catalog.tables.all())
    fenced = sum(tablet.is_fenced for _, tablet in context.tablets.all_open())
    well = total - len(context.tablets.unopenable) - fenced
    return pb.GetClusterHealthResponse(
        num_replicas=total,
        in_sync_replicas=well,
        num_leader_replicas=total,
        active_leader_replicas=well,
        status=GREEN if well == total else RED,
    )


def _bucket_count(table: TableInfo, context: Context) -> int:
    is_partitioned = table.descriptor.is_partitioned
    parts = len(context.catalog.partitions.list(table.path)) if is_partitioned else 1
    return table.bucket_count * parts


# Offsets of producers.


async def register_producer_offsets(
    request: pb.RegisterProducerOffsetsRequest, context: Context
) -> pb.RegisterProducerOffsetsResponse:
    """Keep the offsets of a producer, unless it has some already."""
    if request.HasField("ttl_ms") and request.ttl_ms <= 0:
        raise errors.InvalidProducerError(f"Offsets cannot be kept for {request.ttl_ms} ms.")
    ends: dict[TableBucket, int] = {}
    for table in request.table_offsets:
        async for each in in_turns(table.bucket_offsets):
            partition_id = each.partition_id if each.HasField("partition_id") else None
            ends[TableBucket(table.table_id, each.bucket_id, partition_id)] = each.log_end_offset
    is_new = context.catalog.producers.register(
        request.producer_id,
        ends,
        owner=context.session.principal or "",
        ttl_ms=request.ttl_ms if request.HasField("ttl_ms") else None,
    )
    return pb.RegisterProducerOffsetsResponse(result=CREATED if is_new else ALREADY_EXISTS)


async def get_producer_offsets(
    request: pb.GetProducerOffsetsRequest, context: Context
) -> pb.GetProducerOffsetsResponse:
    """Return the offsets of a producer; without any, the answer is empty."""
    owner = context.session.principal or ""
    found = context.catalog.producers.find(request.producer_id, owner=owner)
    if found is None:
        return pb.GetProducerOffsetsResponse()
    tables: dict[int, pb.ProducerTableOffsets] = {}
    for bucket, end in found.ends.items():
        if not _may(Operation.READ, bucket.table_id, context):
            continue
        of_table = tables.setdefault(
            bucket.table_id, pb.ProducerTableOffsets(table_id=bucket.table_id)
        )
        of_table.bucket_offsets.add(
            partition_id=bucket.partition_id, bucket_id=bucket.bucket, log_end_offset=end
        )
    return pb.GetProducerOffsetsResponse(
        producer_id=request.producer_id,
        expiration_time=found.expires_ms,
        table_offsets=list(tables.values()),
    )


async def delete_producer_offsets(
    request: pb.DeleteProducerOffsetsRequest, context: Context
) -> pb.DeleteProducerOffsetsResponse:
    """Forget the offsets of a producer."""
    owner = context.session.principal or ""
    held = context.catalog.producers.find(request.producer_id, owner=owner)
    for table_id in {bucket.table_id for bucket in held.ends} if held else ():
        if not _may(Operation.WRITE, table_id, context):
            context.require(Operation.WRITE, table_id)
    context.catalog.producers.delete(request.producer_id, owner=owner)
    return pb.DeleteProducerOffsetsResponse()


def _may(operation: Operation, table_id: int, context: Context) -> bool:
    """Tell whether the client may do something to a table; one that was dropped has no owner."""
    return table_id not in context.catalog.tables.ids() or context.may(operation, table_id)


# Snapshots of states, and logs in remote storage: there are none.


async def acquire_kv_snapshot_lease(
    request: pb.AcquireKvSnapshotLeaseRequest, _context: Context
) -> pb.AcquireKvSnapshotLeaseResponse:
    """Answer that no snapshot that was asked for is available."""
    return pb.AcquireKvSnapshotLeaseResponse(unavailable_snapshots=request.snapshots_to_lease)


async def release_kv_snapshot_lease(
    _request: pb.ReleaseKvSnapshotLeaseRequest, _context: Context
) -> pb.ReleaseKvSnapshotLeaseResponse:
    """Release nothing: a lease never holds a snapshot here."""
    return pb.ReleaseKvSnapshotLeaseResponse()


async def drop_kv_snapshot_lease(
    _request: pb.DropKvSnapshotLeaseRequest, _context: Context
) -> pb.DropKvSnapshotLeaseResponse:
    """Drop nothing: a lease never holds a snapshot here."""
    return pb.DropKvSnapshotLeaseResponse()


async def get_kv_snapshot_metadata(
    request: pb.GetKvSnapshotMetadataRequest, context: Context
) -> pb.GetKvSnapshotMetadataResponse:
    """Refuse: states are not saved in a form that clients read."""
    table = context.catalog.tables.by_id(request.table_id)
    raise errors.SnapshotMissingError(
        f"{table.path} has no snapshot {request.snapshot_id} that clients can read.",
        hint="Scan the table, or read its changelog from the start.",
    )


async def list_kv_snapshots(
    request: pb.ListKvSnapshotsRequest, context: Context
) -> pb.ListKvSnapshotsResponse:
    """List the snapshots in remote storage: none."""
    table = context.catalog.tables.by_id(request.table_id)
    if not table.is_keyed:
        raise errors.NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so it has no snapshots."
        )
    partition_id = _partition_of(request, table, context)
    return pb.ListKvSnapshotsResponse(table_id=table.table_id, partition_id=partition_id)


async def list_remote_log_manifests(
    request: pb.ListRemoteLogManifestsRequest, context: Context
) -> pb.ListRemoteLogManifestsResponse:
    """List the logs in remote storage: none."""
    _partition_of(request, context.catalog.tables.by_id(request.table_id), context)
    return pb.ListRemoteLogManifestsResponse()


def _partition_of(
    request: pb.ListKvSnapshotsRequest | pb.ListRemoteLogManifestsRequest,
    table: TableInfo,
    context: Context,
) -> int | None:
    """Check the partition that a request names, which partitioned tables need."""
    if not request.HasField("partition_id"):
        if table.is_partitioned:
            raise errors.PartitionMissingError(
                f"{table.path} is partitioned, but no partition is named."
            )
        return None
    partition = context.catalog.partitions.by_id(request.partition_id)
    if partition.table_id != table.table_id:
        raise errors.PartitionMissingError(f"{table.path} has no partition {request.partition_id}.")
    return partition.partition_id
