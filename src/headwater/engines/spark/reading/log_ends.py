"""The buckets of a followed table and where their logs end, as they change."""

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.places import Buckets
from headwater.engines.spark.reading.log_rows import gone
from headwater.engines.spark.reading.losses import lost_offsets
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.selection import selected_still
from headwater.engines.spark.reading.stream_offset import StreamOffset
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import PartitionMissingError


class LogEnds:
    """Keep track of buckets, and ask for the ends of their logs."""

    def __init__(self, cluster: Cluster, reading: Reading, options: SourceOptions) -> None:
        self._cluster = cluster
        self._reading = reading
        self._options = options
        self._found_at: float | None = None
        self._checked_at: float | None = None
        self.buckets: Buckets = {}

    async def list(self) -> dict[Place, int]:
        """Return where the logs end now, those of new partitions too once they are found."""
        if self._is_due(self._found_at) and (self._found_at is None or self._can_change):
            await self._find()
        try:
            return await self._listed(self.buckets)
        except PartitionMissingError:
            await self._find()
            return await self._listed(self.buckets)

    async def earliest(self, buckets: Buckets) -> dict[Place, int]:
        """Return where logs begin."""
        return await list_offsets(self._cluster, self._reading.table, "earliest", buckets=buckets)

    async def check_kept(self, start: StreamOffset) -> None:
        """Say when rows that come next are gone; asked for now and then, as it is rare."""
        if not self._reading.fails_on_loss or not self._is_due(self._checked_at):
            return
        self._checked_at = self._cluster.clock.monotonic()
        if not self.buckets:
            await self._find()
        try:
            await self._check(start)
        except PartitionMissingError:
            await self._find()
            await self._check(start)

    async def _check(self, start: StreamOffset) -> None:
        positions = {
            place: at
            for place, at in start.positions.items()
            if at is not None and place in self.buckets and start.knows(place, self.buckets[place])
        }
        earliest = await self.earliest({place: self.buckets[place] for place in positions})
        if gone(positions, earliest):
            raise lost_offsets(self._reading.table, positions, earliest)

    @property
    def _can_change(self) -> bool:
        return self._reading.table.is_partitioned

    def _is_due(self, last: float | None) -> bool:
        now = self._cluster.clock.monotonic()
        return last is None or now - last >= self._options.discovery_s

    async def _find(self) -> None:
        self.buckets = await selected_still(self._cluster, self._reading, self._options)
        self._found_at = self._cluster.clock.monotonic()

    async def _listed(self, buckets: Buckets) -> dict[Place, int]:
        return await list_offsets(self._cluster, self._reading.table, "latest", buckets=buckets)
