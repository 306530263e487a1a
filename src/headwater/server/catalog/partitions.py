"""The partitions of tables."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.config.auto_partition import check_partition_time
from headwater.config.server import ServerSettings
from headwater.config.table_options import TableOptions
from headwater.errors import HeadwaterError, PartitionExistsError, PartitionLimitError
from headwater.model.path import (
    PartitionSpec,
    TablePath,
    check_spec_values,
    complete_spec,
    name_of_spec,
    partial_spec,
)
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.store import CatalogStore, CheckCreated, Image, PartitionInfo

_Made = PartitionInfo | HeadwaterError


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request to create a partition."""

    path: TablePath
    spec: Mapping[str, str]
    ignore_if_exists: bool


class CatalogPartitions:
    """Create, drop and find partitions."""

    def __init__(
        self,
        store: CatalogStore,
        image: Image,
        *,
        clock: Clock,
        settings: ServerSettings,
        check_created: CheckCreated | None = None,
    ) -> None:
        self._check_created = check_created
        self._store = store
        self._image = image
        self._clock = clock
        self._settings = settings
        self._waiting: list[tuple[_Wish, asyncio.Future[PartitionInfo]]] = []

    def list(
        self, path: TablePath, partial: Mapping[str, str] | None = None
    ) -> tuple[PartitionInfo, ...]:
        """List the partitions that have the given values, sorted by name."""
        table = self._image.table(path)
        wanted = set(partial_spec(partial or {}, table.descriptor.partition_keys))
        held = self._image.partitions[table.table_id]
        return tuple(held[name] for name in sorted(held) if wanted.issubset(held[name].spec))

    def by_name(self, path: TablePath, name: str) -> PartitionInfo:
        """Return a partition by its name; a missing one is an error."""
        return self._image.partition(self._image.table(path), name)

    def by_id(self, partition_id: int) -> PartitionInfo:
        """Return a partition by its id; a missing one is an error."""
        return self._image.partition_by_id(partition_id)

    def create(
        self, path: TablePath, spec: Mapping[str, str], *, ignore_if_exists: bool = False
    ) -> PartitionInfo:
        """Create a partition and return it."""
        made = self._create_all([_Wish(path, spec, ignore_if_exists)])[0]
        if isinstance(made, HeadwaterError):
            raise made
        return made

    async def create_soon(
        self, path: TablePath, spec: Mapping[str, str], *, ignore_if_exists: bool = False
    ) -> PartitionInfo:
        """Create a partition together with all that are requested in this turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._create_waiting)
        made: asyncio.Future[PartitionInfo] = loop.create_future()
        self._waiting.append((_Wish(path, spec, ignore_if_exists), made))
        return await made

    def _create_waiting(self) -> None:
        waiting, self._waiting = [each for each in self._waiting if not each[1].done()], []
        try:
            made = self._create_all([wish for wish, _ in waiting])
        except Exception as cause:  # noqa: BLE001 - handed to everybody who waits
            for _, answer in waiting:
                answer.set_exception(cause)
            return
        for (_, answer), each in zip(waiting, made, strict=True):
            if isinstance(each, HeadwaterError):
                answer.set_exception(each)
            else:
                answer.set_result(each)

    def _create_all(self, wishes: Sequence[_Wish]) -> Sequence[_Made]:
        """Create partitions in one transaction; each succeeds or fails on its own."""
        new: dict[tuple[int, str], PartitionInfo] = {}
        try:
            with self._store.transaction():
                made = [self._made(wish, new) for wish in wishes]
        except HeadwaterError as fault:
            return [fault] * len(wishes)
        for info in new.values():
            self._image.put_partition(info)
        return made

    def _made(self, wish: _Wish, new: dict[tuple[int, str], PartitionInfo]) -> _Made:
        """Insert a partition, unless it exists; check that it is allowed."""
        try:
            table = self._image.table(wish.path)
            spec = check_spec_values(complete_spec(wish.spec, table.descriptor.partition_keys))
            name = name_of_spec(spec)
            held = self._image.partitions[table.table_id].get(name) or new.get(
                (table.table_id, name)
            )
            if held is not None and wish.ignore_if_exists:
                return held
            if held is not None:
                raise PartitionExistsError(f"There is already a partition '{name}' of {wish.path}.")
            self._check_new(table, spec, sum(each == table.table_id for each, _ in new))
        except HeadwaterError as fault:
            return fault
        partition_id = self._store.insert_partition(table.table_id, name)
        info = PartitionInfo(
            partition_id=partition_id, table_id=table.table_id, name=name, spec=spec
        )
        new[table.table_id, name] = info
        return info

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

    def _check_new(self, table: TableInfo, spec: PartitionSpec, new_count: int) -> None:
        rules = TableOptions.of(table.descriptor.properties).auto_partition
        check_partition_time(rules, spec=spec, now_ms=self._clock.now_ms())
        count_max = self._settings.partition_count_max
        if len(self._image.partitions[table.table_id]) + new_count >= count_max:
            raise PartitionLimitError(
                f"The table {table.path} has {count_max} partitions, which is the limit.",
                hint="Drop some, or raise partition_count_max.",
            )
        self._check_limits(table, new_count + 1)

    def _check_limits(self, table: TableInfo, new_count: int) -> None:
        """Refuse a partition if the creator of its table would have more than they may."""
        creator = self._image.creators.get(table.table_id)
        if self._check_created is None or creator is None:
            return
        held = self._image.created_by(creator)
        self._check_created(
            creator,
            replace(
                held,
                partitions=held.partitions + new_count,
                buckets=held.buckets + new_count * table.bucket_count,
            ),
        )
