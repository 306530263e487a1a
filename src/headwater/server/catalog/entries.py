"""What the catalog knows of databases, tables and partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.partition import PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """Describe a database."""

    name: str
    comment: str | None = None
    custom_properties: Mapping[str, str] = field(default_factory=dict)
    created_ms: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """Describe a partition; the specification is in the order of the partition keys."""

    partition_id: int
    table_id: int
    name: str
    spec: PartitionSpec
