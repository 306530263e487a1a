"""What a cluster tells of itself: servers, tables, and who leads which bucket."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.client.pool import Address
from headwater.errors import InvalidTableError
from headwater.model.bucket import TableBucket
from headwater.model.descriptor import TableDescriptor, descriptor_from_json
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.model.type_json import document_of
from headwater.wire import fluss_pb2 as pb


@dataclass(frozen=True, slots=True)
class Metadata:
    """Hold one answer of a cluster about itself."""

    coordinator: Address | None
    nodes: Mapping[int, Address]
    tables: tuple[TableInfo, ...]
    partition_ids: Mapping[tuple[int, str], int]
    leaders: Mapping[TableBucket, int]


def metadata_of(answer: pb.MetadataResponse) -> Metadata:
    """Read an answer to a request for metadata."""
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
    """Read the description of a table from its JSON text."""
    try:
        return descriptor_from_json(document_of(table_json))
    except ValueError as cause:
        raise InvalidTableError(f"The description of a table is no JSON: {cause}.") from cause


def _leaders(
    buckets: Iterable[pb.BucketMetadata], table_id: int, *, partition_id: int | None
) -> dict[TableBucket, int]:
    return {
        TableBucket(table_id, each.bucket_id, partition_id): each.leader_id
        for each in buckets
        if each.HasField("leader_id") and each.leader_id >= 0
    }
