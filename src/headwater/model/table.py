"""A table as a server knows it: its description with the ids it was given."""

from dataclasses import dataclass

from headwater.model.descriptor import TableDescriptor
from headwater.model.path import TablePath
from headwater.model.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """Hold what a server tells of a table under its newest schema."""

    path: TablePath
    table_id: int
    schema_id: int
    descriptor: TableDescriptor
    created_ms: int
    modified_ms: int

    @property
    def schema(self) -> Schema:
        """Return the newest schema."""
        return self.descriptor.schema

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return self.descriptor.is_keyed

    @property
    def is_partitioned(self) -> bool:
        """Tell whether rows go to partitions."""
        return self.descriptor.is_partitioned

    @property
    def bucket_count(self) -> int:
        """Return the number of buckets of the table, or of each partition."""
        return self.descriptor.bucket_count or 1
