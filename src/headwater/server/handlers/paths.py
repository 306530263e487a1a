"""Names as they come over the wire."""

from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.wire import fluss_pb2 as pb

_BucketRequest = pb.FetchLogBucketRequest | pb.TableStatsBucketRequest


def table_path(message: pb.TablePath | pb.PhysicalTablePath) -> TablePath:
    """Return the path that a message names."""
    return TablePath(message.database_name, message.table_name)


def spec_of(message: pb.PartitionSpec) -> dict[str, str]:
    """Return a partition specification; its pairs come in any order."""
    return {pair.key: pair.value for pair in message.partition_key_values}


def bucket_of(table_id: int, message: _BucketRequest | pb.LimitScanRequest) -> TableBucket:
    """Return the bucket that a message names."""
    return TableBucket(table_id, message.bucket_id, partition_of(message))


def partition_of(
    message: _BucketRequest | pb.LimitScanRequest | pb.ListOffsetsRequest,
) -> int | None:
    """Return the partition that a message names, if any."""
    return message.partition_id if message.HasField("partition_id") else None
