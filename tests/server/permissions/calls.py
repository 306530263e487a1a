"""One request for every call of the protocol, harmless where it is allowed."""

from google.protobuf.message import Message

from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.flows.appending import table_json
from tests.server.support import fetch_request

REFUSED = 48
PRODUCER = "producer"
ALLOW = 2
TABLE, READ, ANY = 4, 3, 1


def requests_about(database: str, table: str, table_id: int) -> dict[ApiKey, Message]:
    """Return a request for each call about one table."""
    return {
        **_about_databases(database),
        **_about_tables(pb.TablePath(database_name=database, table_name=table)),
        **_about_rows(table_id),
        **_about_lakes(pb.TablePath(database_name=database, table_name=table), table_id),
        **_about_acls(f"{database}.{table}"),
        **_about_clusters(table_id),
        ApiKey.API_VERSIONS: pb.ApiVersionsRequest(
            client_software_name="test", client_software_version="1"
        ),
        ApiKey.AUTHENTICATE: pb.AuthenticateRequest(protocol="nothing", token=b""),
    }


def _about_databases(name: str) -> dict[ApiKey, Message]:
    return {
        ApiKey.CREATE_DATABASE: pb.CreateDatabaseRequest(database_name=name, ignore_if_exists=True),
        ApiKey.DROP_DATABASE: pb.DropDatabaseRequest(
            database_name=name, ignore_if_not_exists=False, cascade=False
        ),
        ApiKey.ALTER_DATABASE: pb.AlterDatabaseRequest(
            database_name=name, ignore_if_not_exists=False
        ),
        ApiKey.GET_DATABASE_INFO: pb.GetDatabaseInfoRequest(database_name=name),
        ApiKey.LIST_DATABASES: pb.ListDatabasesRequest(),
        ApiKey.DATABASE_EXISTS: pb.DatabaseExistsRequest(database_name=name),
        ApiKey.LIST_TABLES: pb.ListTablesRequest(database_name=name),
    }


def _about_tables(path: pb.TablePath) -> dict[ApiKey, Message]:
    nothing = pb.PartitionSpec()
    return {
        ApiKey.CREATE_TABLE: pb.CreateTableRequest(
            table_path=path, table_json=table_json(), ignore_if_exists=True
        ),
        ApiKey.DROP_TABLE: pb.DropTableRequest(table_path=path, ignore_if_not_exists=False),
        ApiKey.ALTER_TABLE: pb.AlterTableRequest(table_path=path, ignore_if_not_exists=False),
        ApiKey.GET_TABLE_INFO: pb.GetTableInfoRequest(table_path=path),
        ApiKey.GET_TABLE_SCHEMA: pb.GetTableSchemaRequest(table_path=path),
        ApiKey.TABLE_EXISTS: pb.TableExistsRequest(table_path=path),
        ApiKey.GET_METADATA: pb.MetadataRequest(table_path=[path]),
        ApiKey.LIST_PARTITION_INFOS: pb.ListPartitionInfosRequest(table_path=path),
        ApiKey.CREATE_PARTITION: pb.CreatePartitionRequest(
            table_path=path, partition_spec=nothing, ignore_if_exists=True
        ),
        ApiKey.DROP_PARTITION: pb.DropPartitionRequest(
            table_path=path, partition_spec=nothing, ignore_if_not_exists=True
        ),
        ApiKey.GET_LATEST_KV_SNAPSHOTS: pb.GetLatestKvSnapshotsRequest(table_path=path),
        ApiKey.GET_LAKE_SNAPSHOT: pb.GetLakeSnapshotRequest(table_path=path),
        ApiKey.INIT_WRITER: pb.InitWriterRequest(table_path=[path]),
    }


def _about_rows(table_id: int) -> dict[ApiKey, Message]:
    lookup = pb.LookupBucketRequest(bucket_id=0, keys=[b"k"])
    prefix = pb.PrefixLookupBucketRequest(bucket_id=0, keys=[b"k"])
    return {
        ApiKey.PRODUCE_LOG: pb.ProduceLogRequest(acks=1, table_id=table_id, timeout_ms=1),
        ApiKey.PUT_KV: pb.PutKvRequest(acks=1, table_id=table_id, timeout_ms=1),
        ApiKey.FETCH_LOG: fetch_request(table_id),
        ApiKey.LOOKUP: pb.LookupRequest(table_id=table_id, buckets_req=[lookup]),
        ApiKey.PREFIX_LOOKUP: pb.PrefixLookupRequest(table_id=table_id, buckets_req=[prefix]),
        ApiKey.LIMIT_SCAN: pb.LimitScanRequest(table_id=table_id, bucket_id=0, limit=1),
        ApiKey.SCAN_KV: pb.ScanKvRequest(
            bucket_scan_req=pb.ScanKvBucketRequest(table_id=table_id, bucket_id=0),
            batch_size_bytes=100,
            call_seq_id=0,
        ),
        ApiKey.GET_TABLE_STATS: pb.GetTableStatsRequest(
            table_id=table_id, buckets_req=[pb.TableStatsBucketRequest(bucket_id=0)]
        ),
        ApiKey.LIST_OFFSETS: pb.ListOffsetsRequest(
            follower_server_id=-1, offset_type=0, table_id=table_id, bucket_id=[0]
        ),
    }


def _about_lakes(path: pb.TablePath, table_id: int) -> dict[ApiKey, Message]:
    beat = pb.HeartbeatReqForTable(table_id=table_id, coordinator_epoch=1, tiering_epoch=1)
    return {
        ApiKey.GET_FILESYSTEM_SECURITY_TOKEN: pb.GetFileSystemSecurityTokenRequest(),
        ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT: pb.PrepareLakeTableSnapshotRequest(
            bucket_offsets=[pb.TableOffsets(table_id=table_id, table_path=path)]
        ),
        ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT: pb.CommitLakeTableSnapshotRequest(
            lake_table_snapshot_metadata=[
                pb.LakeTableSnapshotMetadata(
                    table_id=table_id, snapshot_id=1, tiered_bucket_offsets_file_path="none"
                )
            ]
        ),
        ApiKey.LAKE_TIERING_HEARTBEAT: pb.LakeTieringHeartbeatRequest(tiering_tables=[beat]),
    }


def _about_clusters(table_id: int) -> dict[ApiKey, Message]:
    lease = pb.KvSnapshotLeaseForTable(table_id=table_id)
    return {
        ApiKey.GET_KV_SNAPSHOT_METADATA: pb.GetKvSnapshotMetadataRequest(
            table_id=table_id, bucket_id=0, snapshot_id=1
        ),
        ApiKey.LIST_KV_SNAPSHOTS: pb.ListKvSnapshotsRequest(table_id=table_id),
        ApiKey.LIST_REMOTE_LOG_MANIFESTS: pb.ListRemoteLogManifestsRequest(table_id=table_id),
        ApiKey.ACQUIRE_KV_SNAPSHOT_LEASE: pb.AcquireKvSnapshotLeaseRequest(
            lease_id="l", lease_duration_ms=1, snapshots_to_lease=[lease]
        ),
        ApiKey.RELEASE_KV_SNAPSHOT_LEASE: pb.ReleaseKvSnapshotLeaseRequest(
            lease_id="l", buckets_to_release=[pb.LeasedBucket(table_id=table_id, bucket_id=0)]
        ),
        ApiKey.DROP_KV_SNAPSHOT_LEASE: pb.DropKvSnapshotLeaseRequest(lease_id="l"),
        ApiKey.REGISTER_PRODUCER_OFFSETS: pb.RegisterProducerOffsetsRequest(
            producer_id="new", table_offsets=[pb.ProducerTableOffsets(table_id=table_id)]
        ),
        ApiKey.GET_PRODUCER_OFFSETS: pb.GetProducerOffsetsRequest(producer_id=PRODUCER),
        ApiKey.DELETE_PRODUCER_OFFSETS: pb.DeleteProducerOffsetsRequest(producer_id=PRODUCER),
        ApiKey.DESCRIBE_CLUSTER_CONFIGS: pb.DescribeClusterConfigsRequest(),
        ApiKey.ALTER_CLUSTER_CONFIGS: pb.AlterClusterConfigsRequest(),
        ApiKey.GET_CLUSTER_HEALTH: pb.GetClusterHealthRequest(),
    }


def _about_acls(table: str) -> dict[ApiKey, Message]:
    """Grant what is granted already, and revoke what nobody has."""
    return {
        ApiKey.CREATE_ACLS: pb.CreateAclsRequest(acl=[acl_of("keeper", READ, TABLE, table)]),
        ApiKey.LIST_ACLS: pb.ListAclsRequest(acl_filter=filter_of(TABLE, table)),
        ApiKey.DROP_ACLS: pb.DropAclsRequest(
            acl_filter=[filter_of(TABLE, table, principal="nobody")]
        ),
    }


def acl_of(user: str, operation: int, kind: int, name: str) -> pb.AclInfo:
    return pb.AclInfo(
        resource_name=name,
        resource_type=kind,
        principal_name=user,
        principal_type="User",
        host="*",
        operation_type=operation,
        permission_type=ALLOW,
    )


def filter_of(kind: int, name: str, *, principal: str = "keeper") -> pb.AclFilter:
    return pb.AclFilter(
        resource_name=name,
        resource_type=kind,
        principal_name=principal,
        principal_type="User",
        operation_type=ANY,
        permission_type=ANY,
    )


def is_refused(answer: Message) -> bool:
    """Tell whether an answer holds the code of a missing permission, however deep."""
    for field, value in answer.ListFields():
        if field.name == "error_code" and value == REFUSED:
            return True
        if field.message_type is None:
            continue
        inner = [value] if isinstance(value, Message) else value
        if any(is_refused(each) for each in inner):
            return True
    return False


def is_hidden(answer: Message, database: str, table: str) -> bool:
    """Tell whether an answer that lists things leaves this database or table out."""
    match answer:
        case pb.ListDatabasesResponse():
            return database not in answer.database_name
        case pb.ListTablesResponse():
            return table not in answer.table_name
        case pb.DatabaseExistsResponse() | pb.TableExistsResponse():
            return not answer.exists
        case pb.MetadataResponse():
            return not answer.table_metadata
        case pb.ListAclsResponse():
            return not answer.acl
        case pb.GetProducerOffsetsResponse():
            return not answer.table_offsets
    return False
