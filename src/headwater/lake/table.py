"""A table as a lake format sees it: what its lake table is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.path import TablePath
from headwater.model.schema import Schema

BUCKET_COLUMN = "__bucket"
SYSTEM_COLUMNS = (BUCKET_COLUMN, "__offset", "__timestamp")
"""The columns that Apache Fluss before 1.0 gives its lake tables, and expects to be the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableSpec:
    """Describe the lake table that belongs to a table; plain values, so that it travels."""

    path: TablePath
    schema: Schema
    """Columns by id: what has the same id is the same column, whatever its name."""
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    """Empty for a log table whose rows go to any bucket."""
    bucket_count: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    """Options for the lake table under the names of its format, e.g. `write.format.default`."""
    comment: str | None = None

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return bool(self.schema.primary_key)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """Return the part of the primary key that tells rows of one partition apart."""
        return tuple(name for name in self.schema.primary_key if name not in self.partition_keys)
