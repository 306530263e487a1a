"""Changes of a table's metadata, handed to its catalog in one attempt."""

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from headwater.lake.iceberg.places import remove, settle

_REMOVES_METADATA = "write.metadata.delete-after-commit.enabled"


def commit_updates(
    table: Table,
    *,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> TableMetadata:
    """Apply updates if the requirements hold; raises what pyiceberg raises, and tries once."""
    answer = table.catalog.commit_table(table, requirements, updates)
    settle([answer.metadata_location])
    if answer.metadata.properties.get(_REMOVES_METADATA) == "true":
        kept = {entry.metadata_file for entry in answer.metadata.metadata_log}
        held = {entry.metadata_file for entry in table.metadata.metadata_log}
        remove(table.io, held - kept)
    return answer.metadata
