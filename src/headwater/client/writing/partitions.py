"""The partitions that rows go to, made where they are missing."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from headwater.client.cluster import Cluster
from headwater.client.paths import wire_path
from headwater.errors import (
    HeadwaterError,
    LeaderMissingError,
    PartitionExistsError,
    PartitionMissingError,
)
from headwater.model.partition import spec_of_name
from headwater.model.table import TableInfo
from headwater.wire import fluss_pb2 as pb

MADE_TOGETHER_MAX = 64


class Partitions:
    """Find the ids of a table's partitions."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        self._cluster = cluster
        self._table = table
        self._making = asyncio.Lock()

    async def find(self, name: str) -> int | None:
        """Return the id of a partition, or None if there is no such partition."""
        with suppress(PartitionMissingError):
            return await self._cluster.partition_id(self._table, name)
        return None

    async def prepare(self, names: Collection[str]) -> None:
        """Make those partitions that are missing, if the settings allow it, many at a time.

        What cannot be made is told to whoever needs it, by `ensure`.
        """
        unknown = [each for each in names if not self._cluster.knows_partition(self._table, each)]
        if not unknown or not self._cluster.settings.creates_partitions:
            return
        with suppress(HeadwaterError):
            async with self._making:
                held = await self._cluster.partitions(self._table)
                missing = [name for name in unknown if name not in held]
                for start in range(0, len(missing), MADE_TOGETHER_MAX):
                    some = missing[start : start + MADE_TOGETHER_MAX]
                    await asyncio.gather(*map(self._create, some), return_exceptions=True)
                if missing:
                    await self._cluster.partitions(self._table)

    async def ensure(self, name: str) -> int:
        """Return the id of a partition, which is created if the settings allow it."""
        try:
            return await self._cluster.partition_id(self._table, name)
        except PartitionMissingError:
            if not self._cluster.settings.creates_partitions:
                raise
        async with self._making:
            return await self._make(name)

    def forget(self, name: str) -> None:
        """Ask for a partition again: the one that was known is gone."""
        self._cluster.forget_partition(self._table, name)

    async def _make(self, name: str) -> int:
        await self._create(name)
        return await self._cluster.retries.run(
            lambda: self._appeared(name), what=f"Creating partition {name} of {self._table.path}"
        )

    async def _create(self, name: str) -> None:
        spec = spec_of_name(name, self._table.descriptor.partition_keys)
        request = pb.CreatePartitionRequest(
            table_path=wire_path(self._table.path),
            partition_spec=pb.PartitionSpec(
                partition_key_values=[pb.KeyValue(key=key, value=value) for key, value in spec]
            ),
            ignore_if_exists=True,
        )
        with suppress(PartitionExistsError):  # Another client was quicker.
            await self._cluster.ask(request, pb.CreatePartitionResponse, coordinator=True)

    async def _appeared(self, name: str) -> int:
        known = await self.find(name)
        if known is None:
            # Servers hear of a new partition one after the other.
            raise LeaderMissingError(f"{self._table.path} does not show partition {name} yet.")
        return known
