"""Valid requests of every API, and the tables that they are for."""

import json

import pyarrow as pa
from google.protobuf.message import Message

from headwater.model.arrow import arrow_schema
from headwater.model.predicate import And, Leaf, LeafFunction
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor, descriptor_from_json, descriptor_to_json
from headwater.model.types import IntType
from headwater.rows.compacted.coders import encoder_of, key_encoder_of
from headwater.rows.keys import primary_key_encoder
from headwater.rows.kv_batch import build_kv_batch
from headwater.rows.row_bytes import RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_to_wire
from tests.flows.appending import batch_of, table_json
from tests.flows.upserting import keyed_json
from tests.fuzz.targets_batches import NESTED, nested_rows
from tests.server.support import partitioned_json

TABLES = ("rows", "keyed", "parts", "lake", "nested")
"""In the order of their ids."""

ROWS, KEYED, PARTS, LAKE, NESTED_KEYED = range(1, 6)
_NESTED = with_column_ids(
    Schema(
        columns=(Column(name="id", type=IntType(nullable=False)), *NESTED.columns),
        primary_key=("id",),
    )
)
_DESCRIPTIONS = {
    "rows": table_json(),
    "keyed": keyed_json(key=("id", "name"), bucket_key=("id",)),
    "parts": partitioned_json(),
    "lake": table_json(**{"table.datalake.enabled": "true"}),
    "nested": json.dumps(
        descriptor_to_json(TableDescriptor(schema=_NESTED, bucket_count=1))
    ).encode(),
}
_BIG = 1 << 20


def path_of(table: str) -> pb.TablePath:
    return pb.TablePath(database_name="fluss", table_name=table)


def spec(value: str) -> pb.PartitionSpec:
    return pb.PartitionSpec(partition_key_values=[pb.KeyValue(key="day", value=value)])


def create_requests() -> list[Message]:
    """Return what makes the tables, with some rows in them."""
    tables = [
        pb.CreateTableRequest(table_path=path_of(name), table_json=content, ignore_if_exists=False)
        for name, content in _DESCRIPTIONS.items()
    ]
    partition = pb.CreatePartitionRequest(
        table_path=path_of("parts"), partition_spec=spec("2026"), ignore_if_exists=False
    )
    return [*tables, partition, *_writes()]


def _writes() -> list[Message]:
    return [_produce(ROWS, batch_of([(1, 2), (3, 4)])), _put(5), _produce(LAKE, batch_of([(1, 1)]))]


def _produce(table_id: int, records: bytes) -> pb.ProduceLogRequest:
    return pb.ProduceLogRequest(
        acks=-1,
        table_id=table_id,
        timeout_ms=5000,
        buckets_req=[pb.ProduceLogBucketRequest(bucket_id=0, records=records)],
    )


def _keyed_bytes(count: int) -> tuple[RowBytes, RowBytes]:
    descriptor = descriptor_from_json(json.loads(_DESCRIPTIONS["keyed"]))
    columns = [list(range(count)), [f"n{n}" for n in range(count)], [10 * n for n in range(count)]]
    fields = arrow_schema(descriptor.schema)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)]
    keys = primary_key_encoder(descriptor).encode(arrays[:2])
    return keys, encoder_of(descriptor.schema).encode(arrays)


def _nested_bytes(count: int) -> tuple[RowBytes, RowBytes]:
    ids = pa.array(range(count), pa.int32())
    rows = encoder_of(_NESTED).encode([ids, *nested_rows(count).columns])
    return key_encoder_of(_NESTED, ["id"]).encode([ids]), rows


def _put(count: int, table_id: int = KEYED, **fields: object) -> pb.PutKvRequest:
    keys, rows = _keyed_bytes(count) if table_id == KEYED else _nested_bytes(count)
    records = build_kv_batch(keys, rows, schema_id=1)
    bucket = pb.PutKvBucketRequest(bucket_id=0, records=records)
    return pb.PutKvRequest(
        acks=-1, table_id=table_id, timeout_ms=5000, buckets_req=[bucket], **fields
    )


def seed_requests() -> list[Message]:
    return [*_catalog(), *_tables(), *_data(), *_keys(), *_lake(), *_cluster()]


def _cluster() -> list[Message]:
    change = pb.AlterConfig(config_key="max.bucket.num", config_value="1", op_type=0)
    end = pb.ProducerBucketOffset(partition_id=1, bucket_id=0, log_end_offset=5)
    offsets = pb.ProducerTableOffsets(table_id=KEYED, bucket_offsets=[end])
    snapshot = pb.KvSnapshotLeaseForBucket(partition_id=1, bucket_id=0, snapshot_id=1)
    leased = pb.KvSnapshotLeaseForTable(table_id=KEYED, bucket_snapshots=[snapshot])
    released = pb.LeasedBucket(table_id=KEYED, partition_id=1, bucket_id=0)
    return [
        pb.DescribeClusterConfigsRequest(),
        pb.AlterClusterConfigsRequest(alter_configs=[change]),
        pb.GetClusterHealthRequest(),
        pb.RegisterProducerOffsetsRequest(producer_id="job", table_offsets=[offsets], ttl_ms=9),
        pb.GetProducerOffsetsRequest(producer_id="job"),
        pb.DeleteProducerOffsetsRequest(producer_id="job"),
        pb.AcquireKvSnapshotLeaseRequest(
            lease_id="l", lease_duration_ms=9, snapshots_to_lease=[leased]
        ),
        pb.ReleaseKvSnapshotLeaseRequest(lease_id="l", buckets_to_release=[released]),
        pb.DropKvSnapshotLeaseRequest(lease_id="l"),
        pb.GetKvSnapshotMetadataRequest(table_id=KEYED, bucket_id=0, snapshot_id=1),
        pb.ListKvSnapshotsRequest(table_id=KEYED),
        pb.ListRemoteLogManifestsRequest(table_id=KEYED, partition_id=1),
    ]


def _catalog() -> list[Message]:
    change = pb.AlterConfig(config_key="owner", config_value="me", op_type=0)
    return [
        pb.ApiVersionsRequest(client_software_name="fuzz", client_software_version="0"),
        pb.AuthenticateRequest(protocol="PLAIN", token=b"\0user\0password"),
        pb.CreateDatabaseRequest(
            database_name="other",
            ignore_if_exists=True,
            database_json=b'{"version": 1, "comment": "c", "custom_properties": {"a": "b"}}',
        ),
        pb.DropDatabaseRequest(database_name="other", ignore_if_not_exists=True, cascade=True),
        pb.ListDatabasesRequest(include_summary=True),
        pb.DatabaseExistsRequest(database_name="fluss"),
        pb.GetDatabaseInfoRequest(database_name="fluss"),
        pb.AlterDatabaseRequest(
            database_name="fluss", ignore_if_not_exists=False, config_changes=[change]
        ),
    ]


def _tables() -> list[Message]:
    nested = {"type": "ARRAY", "element_type": {"type": "INTEGER"}}
    column = pb.AddColumn(
        column_name="more", data_type_json=json.dumps(nested).encode(), column_position_type=0
    )
    option = pb.AlterConfig(config_key="table.log.ttl", config_value="3 d", op_type=0)
    made: list[Message] = [
        pb.CreateTableRequest(table_path=path_of("new"), table_json=content, ignore_if_exists=False)
        for content in _DESCRIPTIONS.values()
    ]
    return [
        *made,
        pb.DropTableRequest(table_path=path_of("rows"), ignore_if_not_exists=False),
        pb.GetTableInfoRequest(table_path=path_of("keyed")),
        pb.ListTablesRequest(database_name="fluss"),
        pb.TableExistsRequest(table_path=path_of("rows")),
        pb.GetTableSchemaRequest(table_path=path_of("rows"), schema_id=1),
        pb.AlterTableRequest(
            table_path=path_of("rows"),
            ignore_if_not_exists=False,
            config_changes=[option],
            add_columns=[column],
        ),
        pb.CreatePartitionRequest(
            table_path=path_of("parts"), partition_spec=spec("2027"), ignore_if_exists=False
        ),
        pb.DropPartitionRequest(
            table_path=path_of("parts"), partition_spec=spec("2026"), ignore_if_not_exists=False
        ),
        pb.ListPartitionInfosRequest(table_path=path_of("parts"), partial_partition_spec=spec("2")),
        pb.MetadataRequest(
            table_path=[path_of("rows")],
            partitions_path=[
                pb.PhysicalTablePath(
                    database_name="fluss", table_name="parts", partition_name="2026"
                )
            ],
            partitions_id=[1],
        ),
    ]


def _data() -> list[Message]:
    schema = descriptor_from_json(json.loads(_DESCRIPTIONS["rows"])).schema
    wanted = And((Leaf(LeafFunction.GREATER_THAN, 1, (5,)), Leaf(LeafFunction.IS_NULL, 0, ())))
    bucket = pb.FetchLogBucketRequest(bucket_id=0, fetch_offset=0, max_fetch_bytes=_BIG)
    fields = {"table_id": ROWS, "buckets_req": [bucket]}
    tables = [
        pb.FetchLogTableRequest(projection_pushdown_enabled=False, **fields),
        pb.FetchLogTableRequest(
            projection_pushdown_enabled=True,
            projected_fields=[1],
            filter_predicate=predicate_to_wire(wanted, schema),
            filter_schema_id=1,
            **fields,
        ),
    ]
    fetches = [
        pb.FetchLogRequest(
            follower_server_id=-1, max_bytes=_BIG, max_wait_ms=0, min_bytes=1, tables_req=[table]
        )
        for table in tables
    ]
    return [
        _produce(ROWS, batch_of([(1, 2), (3, 4)])),
        _produce(ROWS, batch_of([(n, n) for n in range(40)], writer_id=7, sequence=0)),
        *fetches,
        pb.InitWriterRequest(table_path=[path_of("rows")]),
        pb.ListOffsetsRequest(
            follower_server_id=-1, offset_type=2, table_id=ROWS, bucket_id=[0], start_timestamp=1
        ),
        pb.LimitScanRequest(table_id=ROWS, bucket_id=0, limit=5),
        pb.GetTableStatsRequest(
            table_id=ROWS, buckets_req=[pb.TableStatsBucketRequest(bucket_id=0)]
        ),
    ]


def _keys() -> list[Message]:
    keys = _keyed_bytes(3)[0].to_list()
    prefixes = [key[:1] for key in keys]
    return [
        _put(3),
        _put(8, NESTED_KEYED),
        _put(2, NESTED_KEYED, target_columns=[0, 1]),
        _put(1, target_columns=[0, 1, 2]),
        pb.LookupRequest(
            table_id=KEYED, buckets_req=[pb.LookupBucketRequest(bucket_id=0, keys=keys)]
        ),
        pb.PrefixLookupRequest(
            table_id=KEYED,
            buckets_req=[pb.PrefixLookupBucketRequest(bucket_id=0, keys=prefixes)],
        ),
        pb.LimitScanRequest(table_id=KEYED, bucket_id=0, limit=5),
        pb.GetLatestKvSnapshotsRequest(table_path=path_of("keyed")),
        pb.ScanKvRequest(
            bucket_scan_req=pb.ScanKvBucketRequest(table_id=KEYED, bucket_id=0),
            batch_size_bytes=1000,
            call_seq_id=0,
        ),
        pb.ScanKvRequest(scanner_id=b"0123456789abcdef", call_seq_id=1, close_scanner=True),
    ]


def _lake() -> list[Message]:
    offset = pb.BucketOffset(bucket_id=0, log_end_offset=1)
    return [
        pb.GetFileSystemSecurityTokenRequest(),
        pb.GetLakeSnapshotRequest(table_path=path_of("lake")),
        pb.PrepareLakeTableSnapshotRequest(
            bucket_offsets=[
                pb.TableOffsets(table_id=LAKE, table_path=path_of("lake"), bucket_offsets=[offset])
            ]
        ),
        pb.CommitLakeTableSnapshotRequest(
            tables_req=[
                pb.LakeTableSnapshotInfo(
                    table_id=LAKE,
                    snapshot_id=1,
                    buckets_req=[pb.LakeTableOffsetForBucket(bucket_id=0, log_end_offset=1)],
                )
            ],
            lake_table_snapshot_metadata=[
                pb.LakeTableSnapshotMetadata(
                    table_id=LAKE,
                    snapshot_id=1,
                    tiered_bucket_offsets_file_path="file:///tmp/lake/4/x.offsets",
                )
            ],
        ),
        pb.LakeTieringHeartbeatRequest(
            request_table=True,
            tiering_tables=[
                pb.HeartbeatReqForTable(table_id=LAKE, coordinator_epoch=1, tiering_epoch=1)
            ],
        ),
    ]
