"""What has happened to an epoch in one lane so far: as the ledger says, and as the log shows."""

from headwater.client.cluster import Cluster
from headwater.client.epochs.lane_batches import LaneBatches
from headwater.client.epochs.lane_sender import Found
from headwater.client.epochs.lanes import LaneKey
from headwater.client.epochs.ledger import Ledger
from headwater.client.epochs.ledger_rows import Standing
from headwater.client.epochs.stored_log import StoredLog
from headwater.client.epochs.trail import Trail
from headwater.client.epochs.verifying import LogVerifier, check_sent
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import list_offsets
from headwater.errors import LogDivergedError, OffsetOutOfRangeError
from headwater.model.bucket import OffsetRange
from headwater.model.table import TableInfo


class LanePast:
    """Look at what attempts have done, this one among them; without a ledger, at the log only."""

    def __init__(
        self,
        cluster: Cluster,
        table: TableInfo,
        key: LaneKey,
        *,
        standing: Standing,
        epoch: int,
        ledger: Ledger | None,
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._key = key
        self._standing = standing
        self._epoch = epoch
        self._ledger = ledger
        # Where epochs are missing in between, what lies in the log may be of one of those, which a
        # storage that was restored does not know to be finished.
        self._doubts = table.is_keyed and epoch > standing.epoch + 1
        with_rows = not table.is_keyed or self._doubts
        self._log = StoredLog(cluster, table, key.bucket, with_rows=with_rows)

    async def look(self, batches: LaneBatches) -> Found:
        """Return what has landed of these batches; refuse other rows than have landed.

        1. Whoever noted the epoch as finished has written all. 2. Otherwise the log tells.
        3. If that has more than there are, they may be of an epoch that began meanwhile.
        """
        finished = await self._finished(batches)
        if finished is not None:
            return finished
        trail = await self._follow(batches)
        found = Found(trail.count, trail.next, trail.end, self._log.seen)
        if trail.count <= len(batches):
            return found
        return await self._finished(batches) or found

    async def _finished(self, batches: LaneBatches) -> Found | None:
        if self._ledger is None:
            return None
        standing = (await self._ledger.look_up([self._key])).get(self._key)
        if standing is None or standing.epoch < self._epoch:
            return None
        return Found(len(batches), standing.position, standing.end, is_noted=True)

    async def _follow(self, batches: LaneBatches) -> Trail:
        trail = Trail(self._key, self._standing.position.with_room)
        verifier = None
        if not self._table.is_keyed:
            verifier = LogVerifier(self._cluster, self._table, self._key.bucket)
        wanted = await self._range()
        try:
            async for stored in self._log.batches(wanted):
                number = trail.count
                if not trail.step(stored.header) or number >= len(batches):
                    continue
                if verifier is not None:
                    await verifier.check(stored, batches, number)
                elif self._doubts:
                    await check_sent(stored, batches, number, bucket=self._key.bucket)
        except OffsetOutOfRangeError as fault:
            raise OffsetOutOfRangeError(
                f"Whether rows of epoch {self._epoch} of sink '{self._key.sink}' are written"
                f" cannot be told: the log of {self._key.bucket} no longer has offset"
                f" {wanted.start}.",
                hint="If none of them is in the table, write under another sink.",
            ) from fault
        return trail

    async def _range(self) -> OffsetRange:
        """Return where batches of this epoch may lie."""
        start = self._standing.known_end
        if self._ledger is not None:
            start = max(start, await self._ledger.floor(self._key, self._epoch))
        place = Place(None, self._key.bucket.bucket)
        buckets = {place: self._key.bucket}
        found = await list_offsets(self._cluster, self._table, "latest", buckets=buckets)
        if found[place] < start:
            raise LogDivergedError(
                f"The log of {self._key.bucket} ends at {found[place]}, where {start} was known to"
                " be written: the storage was restored from a copy meanwhile.",
                hint="Try the epoch again.",
            )
        return OffsetRange(start, found[place])
