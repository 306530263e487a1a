"""Telling from what is known of data files which cannot hold a row that passes filters."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.lake.split import LakeFile
from headwater.lake.table import LakeTableSpec
from headwater.model.predicate import And, Literal, Predicate
from headwater.rows.pruning import may_match
from headwater.rows.statistics import BatchStatistics, ColumnStatistics


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Decide for each data file whether to read it."""

    filters: tuple[Predicate, ...]
    spec: LakeTableSpec

    def may_hold(self, file: LakeFile, partition: Sequence[Literal]) -> bool:
        """Return False only if no row of the file passes, and none comes back without it.

        Where files are merged only keys count: an older row must not come back because the file
        with its newer values was left out.
        """
        if not self.filters:
            return True
        usable = None if file.stands_alone else self._key_ids()
        known = {
            each.column_id: ColumnStatistics(each.null_count, each.lower, each.upper)
            for each in file.bounds
            if each.null_count is not None and (usable is None or each.column_id in usable)
        }
        known.update(self._of_partition(partition))
        return may_match(And(self.filters), BatchStatistics(known), record_count=file.row_count)

    def _key_ids(self) -> set[int]:
        schema = self.spec.schema
        return {schema.column(name).column_id for name in schema.primary_key}

    def _of_partition(self, partition: Sequence[Literal]) -> dict[int, ColumnStatistics]:
        columns = [self.spec.schema.column(key) for key in self.spec.partition_keys]
        return {
            column.column_id: ColumnStatistics(0, value, value)
            for column, value in zip(columns, partition, strict=True)
        }
