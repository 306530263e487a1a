"""What the catalog of a data directory says, as far as it can be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import SchemaMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.descriptor import TableDescriptor
from headwater.model.schema import Schema
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """Hold a table with all its schemas; it tells what reading its rows needs to know."""

    table_id: int
    name: str
    schema_id: int
    descriptor: TableDescriptor
    schemas: Mapping[int, Schema]

    def latest(self) -> tuple[int, TableDescriptor]:
        """Return the current schema id and descriptor."""
        return self.schema_id, self.descriptor

    def schema(self, schema_id: int) -> Schema:
        """Return a schema that the table has or had."""
        if schema_id not in self.schemas:
            raise SchemaMissingError(f"{self.name} has no schema {schema_id}.")
        return self.schemas[schema_id]

    def reserve_ids(self, count: int) -> int:
        """Take no numbers: nothing is written here."""
        raise AssertionError(count)


@dataclass(slots=True)
class CatalogSeen:
    """Hold the entries of a catalog that could be read."""

    tables: dict[int, TableSeen] = field(default_factory=dict)
    # The ids of tables that are there, though they may not be readable.
    table_ids: set[int] = field(default_factory=set)
    # The table and the name of each partition.
    partitions: dict[int, tuple[int, str]] = field(default_factory=dict)
    lake_snapshots: dict[int, list[ReportedLakeSnapshot]] = field(default_factory=dict)
    table_id_last: int = UNKNOWN
    partition_id_last: int = UNKNOWN
    # Blocks of which ids of writers were handed out; None if they cannot be read.
    writer_blocks: set[int] | None = None

    def tiered_end(self, bucket: TableBucket) -> int:
        """Return the first offset of a bucket that the lake does not hold."""
        snapshots = self.lake_snapshots.get(bucket.table_id)
        if not snapshots:
            return 0
        return snapshots[-1].tiered.ends.get(LakeBucket(bucket.partition_id, bucket.bucket), 0)

    def find(self, name: str) -> TableSeen | None:
        """Return a table by its name."""
        return next((each for each in self.tables.values() if each.name == name), None)
