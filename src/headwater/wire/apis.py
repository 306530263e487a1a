"""The supported APIs: key, highest version, request and response message."""

from dataclasses import dataclass
from enum import IntEnum

from google.protobuf.message import Message

from headwater.wire import fluss_pb2 as pb


class ApiKey(IntEnum):
    """The API keys of the protocol."""

    API_VERSIONS = 1000
    CREATE_DATABASE = 1001
    DROP_DATABASE = 1002
    LIST_DATABASES = 1003
    DATABASE_EXISTS = 1004
    CREATE_TABLE = 1005
    DROP_TABLE = 1006
    GET_TABLE_INFO = 1007
    LIST_TABLES = 1008
    LIST_PARTITION_INFOS = 1009
    TABLE_EXISTS = 1010
    GET_TABLE_SCHEMA = 1011
    GET_METADATA = 1012
    PRODUCE_LOG = 1014
    FETCH_LOG = 1015
    PUT_KV = 1016
    LOOKUP = 1017
    LIST_OFFSETS = 1021
    GET_LATEST_KV_SNAPSHOTS = 1023
    GET_KV_SNAPSHOT_METADATA = 1024
    GET_FILESYSTEM_SECURITY_TOKEN = 1025
    INIT_WRITER = 1026
    COMMIT_LAKE_TABLE_SNAPSHOT = 1030
    GET_LAKE_SNAPSHOT = 1032
    LIMIT_SCAN = 1033
    PREFIX_LOOKUP = 1034
    GET_DATABASE_INFO = 1035
    CREATE_PARTITION = 1036
    DROP_PARTITION = 1037
    AUTHENTICATE = 1038
    CREATE_ACLS = 1039
    LIST_ACLS = 1040
    DROP_ACLS = 1041
    LAKE_TIERING_HEARTBEAT = 1042
    ALTER_TABLE = 1044
    DESCRIBE_CLUSTER_CONFIGS = 1045
    ALTER_CLUSTER_CONFIGS = 1046
    PREPARE_LAKE_TABLE_SNAPSHOT = 1052
    REGISTER_PRODUCER_OFFSETS = 1053
    GET_PRODUCER_OFFSETS = 1054
    DELETE_PRODUCER_OFFSETS = 1055
    ACQUIRE_KV_SNAPSHOT_LEASE = 1056
    RELEASE_KV_SNAPSHOT_LEASE = 1057
    DROP_KV_SNAPSHOT_LEASE = 1058
    GET_TABLE_STATS = 1059
    ALTER_DATABASE = 1060
    SCAN_KV = 1061
    GET_CLUSTER_HEALTH = 1062
    LIST_REMOTE_LOG_MANIFESTS = 1063
    LIST_KV_SNAPSHOTS = 1064


@dataclass(frozen=True, slots=True)
class Api:
    """One API."""

    key: ApiKey
    request: type[Message]
    response: type[Message]
    version_max: int = 0


_APIS = (
    Api(ApiKey.API_VERSIONS, pb.ApiVersionsRequest, pb.ApiVersionsResponse),
    Api(ApiKey.CREATE_DATABASE, pb.CreateDatabaseRequest, pb.CreateDatabaseResponse),
    Api(ApiKey.DROP_DATABASE, pb.DropDatabaseRequest, pb.DropDatabaseResponse),
    Api(ApiKey.LIST_DATABASES, pb.ListDatabasesRequest, pb.ListDatabasesResponse),
    Api(ApiKey.DATABASE_EXISTS, pb.DatabaseExistsRequest, pb.DatabaseExistsResponse),
    Api(ApiKey.CREATE_TABLE, pb.CreateTableRequest, pb.CreateTableResponse),
    Api(ApiKey.DROP_TABLE, pb.DropTableRequest, pb.DropTableResponse),
    Api(ApiKey.GET_TABLE_INFO, pb.GetTableInfoRequest, pb.GetTableInfoResponse),
    Api(ApiKey.LIST_TABLES, pb.ListTablesRequest, pb.ListTablesResponse),
    Api(ApiKey.LIST_PARTITION_INFOS, pb.ListPartitionInfosRequest, pb.ListPartitionInfosResponse),
    Api(ApiKey.TABLE_EXISTS, pb.TableExistsRequest, pb.TableExistsResponse),
    Api(ApiKey.GET_TABLE_SCHEMA, pb.GetTableSchemaRequest, pb.GetTableSchemaResponse),
    Api(ApiKey.GET_METADATA, pb.MetadataRequest, pb.MetadataResponse),
    Api(ApiKey.PRODUCE_LOG, pb.ProduceLogRequest, pb.ProduceLogResponse, version_max=1),
    Api(ApiKey.FETCH_LOG, pb.FetchLogRequest, pb.FetchLogResponse),
    Api(ApiKey.PUT_KV, pb.PutKvRequest, pb.PutKvResponse, version_max=3),
    Api(ApiKey.LOOKUP, pb.LookupRequest, pb.LookupResponse, version_max=1),
    Api(ApiKey.LIST_OFFSETS, pb.ListOffsetsRequest, pb.ListOffsetsResponse),
    Api(
        ApiKey.GET_LATEST_KV_SNAPSHOTS,
        pb.GetLatestKvSnapshotsRequest,
        pb.GetLatestKvSnapshotsResponse,
    ),
    Api(
        ApiKey.GET_FILESYSTEM_SECURITY_TOKEN,
        pb.GetFileSystemSecurityTokenRequest,
        pb.GetFileSystemSecurityTokenResponse,
    ),
    Api(ApiKey.INIT_WRITER, pb.InitWriterRequest, pb.InitWriterResponse),
    Api(
        ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT,
        pb.CommitLakeTableSnapshotRequest,
        pb.CommitLakeTableSnapshotResponse,
    ),
    Api(ApiKey.GET_LAKE_SNAPSHOT, pb.GetLakeSnapshotRequest, pb.GetLakeSnapshotResponse),
    Api(ApiKey.LIMIT_SCAN, pb.LimitScanRequest, pb.LimitScanResponse),
    Api(ApiKey.PREFIX_LOOKUP, pb.PrefixLookupRequest, pb.PrefixLookupResponse, version_max=1),
    Api(ApiKey.GET_DATABASE_INFO, pb.GetDatabaseInfoRequest, pb.GetDatabaseInfoResponse),
    Api(ApiKey.CREATE_PARTITION, pb.CreatePartitionRequest, pb.CreatePartitionResponse),
    Api(ApiKey.DROP_PARTITION, pb.DropPartitionRequest, pb.DropPartitionResponse),
    Api(ApiKey.AUTHENTICATE, pb.AuthenticateRequest, pb.AuthenticateResponse),
    Api(ApiKey.CREATE_ACLS, pb.CreateAclsRequest, pb.CreateAclsResponse),
    Api(ApiKey.LIST_ACLS, pb.ListAclsRequest, pb.ListAclsResponse),
    Api(ApiKey.DROP_ACLS, pb.DropAclsRequest, pb.DropAclsResponse),
    Api(
        ApiKey.LAKE_TIERING_HEARTBEAT,
        pb.LakeTieringHeartbeatRequest,
        pb.LakeTieringHeartbeatResponse,
    ),
    Api(ApiKey.ALTER_TABLE, pb.AlterTableRequest, pb.AlterTableResponse),
    Api(
        ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT,
        pb.PrepareLakeTableSnapshotRequest,
        pb.PrepareLakeTableSnapshotResponse,
    ),
    Api(ApiKey.GET_TABLE_STATS, pb.GetTableStatsRequest, pb.GetTableStatsResponse),
    Api(ApiKey.ALTER_DATABASE, pb.AlterDatabaseRequest, pb.AlterDatabaseResponse),
    Api(ApiKey.SCAN_KV, pb.ScanKvRequest, pb.ScanKvResponse),
    Api(
        ApiKey.GET_KV_SNAPSHOT_METADATA,
        pb.GetKvSnapshotMetadataRequest,
        pb.GetKvSnapshotMetadataResponse,
    ),
    Api(
        ApiKey.DESCRIBE_CLUSTER_CONFIGS,
        pb.DescribeClusterConfigsRequest,
        pb.DescribeClusterConfigsResponse,
    ),
    Api(
        ApiKey.ALTER_CLUSTER_CONFIGS, pb.AlterClusterConfigsRequest, pb.AlterClusterConfigsResponse
    ),
    Api(
        ApiKey.REGISTER_PRODUCER_OFFSETS,
        pb.RegisterProducerOffsetsRequest,
        pb.RegisterProducerOffsetsResponse,
    ),
    Api(ApiKey.GET_PRODUCER_OFFSETS, pb.GetProducerOffsetsRequest, pb.GetProducerOffsetsResponse),
    Api(
        ApiKey.DELETE_PRODUCER_OFFSETS,
        pb.DeleteProducerOffsetsRequest,
        pb.DeleteProducerOffsetsResponse,
    ),
    Api(
        ApiKey.ACQUIRE_KV_SNAPSHOT_LEASE,
        pb.AcquireKvSnapshotLeaseRequest,
        pb.AcquireKvSnapshotLeaseResponse,
    ),
    Api(
        ApiKey.RELEASE_KV_SNAPSHOT_LEASE,
        pb.ReleaseKvSnapshotLeaseRequest,
        pb.ReleaseKvSnapshotLeaseResponse,
    ),
    Api(
        ApiKey.DROP_KV_SNAPSHOT_LEASE, pb.DropKvSnapshotLeaseRequest, pb.DropKvSnapshotLeaseResponse
    ),
    Api(ApiKey.GET_CLUSTER_HEALTH, pb.GetClusterHealthRequest, pb.GetClusterHealthResponse),
    Api(
        ApiKey.LIST_REMOTE_LOG_MANIFESTS,
        pb.ListRemoteLogManifestsRequest,
        pb.ListRemoteLogManifestsResponse,
    ),
    Api(ApiKey.LIST_KV_SNAPSHOTS, pb.ListKvSnapshotsRequest, pb.ListKvSnapshotsResponse),
)

APIS: dict[int, Api] = {api.key: api for api in _APIS}
API_OF_REQUEST: dict[type[Message], Api] = {api.request: api for api in _APIS}
