"""The partitions of tables."""

from collections.abc import Mapping

from headwater.config.auto_partition import check_partition_time
from headwater.config.server import ServerSettings
from headwater.config.table_options import TableOptions
from headwater.errors import PartitionExistsError, PartitionLimitError
from headwater.model.partition import (
    PartitionSpec,
    check_spec_values,
    complete_spec,
    name_of_spec,
    partial_spec,
)
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.entries import PartitionInfo
from headwater.server.catalog.image import Image
from headwater.server.catalog.store import CatalogStore


class Partitions:
    """Create, drop and find partitions."""

    def __init__(
        self, store: CatalogStore, image: Image, *, clock: Clock, settings: ServerSettings
    ) -> None:
        self._store = store
        self._image = image
        self._clock = clock
        self._settings = settings

    def list(
        self, path: TablePath, partial: Mapping[str, str] | None = None
    ) -> tuple[PartitionInfo, ...]:
        """Return the partitions that have the given values, sorted by name."""
        table = self._image.table(path)
        wanted = set(partial_spec(partial or {}, table.descriptor.partition_keys))
        held = self._image.partitions[table.table_id]
        return tuple(held[name] for name in sorted(held) if wanted.issubset(held[name].spec))

    def by_name(self, path: TablePath, name: str) -> PartitionInfo:
        """Return a partition by its name, or say that it is missing."""
        return self._image.partition(self._image.table(path), name)

    def by_id(self, partition_id: int) -> PartitionInfo:
        """Return a partition by its id, or say that it is missing."""
        return self._image.partition_by_id(partition_id)

    def create(
        self, path: TablePath, spec: Mapping[str, str], *, ignore_if_exists: bool = False
    ) -> PartitionInfo:
        """Create a partition and return it."""
        table = self._image.table(path)
        ordered = check_spec_values(complete_spec(spec, table.descriptor.partition_keys))
        name = name_of_spec(ordered)
        held = self._image.partitions[table.table_id]
        if name in held:
            if ignore_if_exists:
                return held[name]
            raise PartitionExistsError(f"There is a partition '{name}' of {path} already.")
        self._check_new(table, ordered)
        return self._insert(table, name=name, spec=ordered)

    def drop(
        self, path: TablePath, spec: Mapping[str, str], *, ignore_if_missing: bool = False
    ) -> PartitionInfo | None:
        """Drop a partition and return what it was."""
        table = self._image.table(path)
        name = name_of_spec(complete_spec(spec, table.descriptor.partition_keys))
        if ignore_if_missing and name not in self._image.partitions[table.table_id]:
            return None
        info = self._image.partition(table, name)
        with self._store.transaction():
            self._store.delete_partition(info.partition_id)
        self._image.remove_partition(info)
        return info

    def _check_new(self, table: TableInfo, spec: PartitionSpec) -> None:
        rules = TableOptions.of(table.descriptor.properties).auto_partition
        check_partition_time(rules, spec=spec, now_ms=self._clock.now_ms())
        count_max = self._settings.partition_count_max
        if len(self._image.partitions[table.table_id]) >= count_max:
            raise PartitionLimitError(
                f"The table {table.path} has {count_max} partitions, which is the limit.",
                hint="Drop some, or raise partition_count_max.",
            )

    def _insert(self, table: TableInfo, *, name: str, spec: PartitionSpec) -> PartitionInfo:
        with self._store.transaction():
            partition_id = self._store.insert_partition(table.table_id, name)
        info = PartitionInfo(
            partition_id=partition_id, table_id=table.table_id, name=name, spec=spec
        )
        self._image.put_partition(info)
        return info
