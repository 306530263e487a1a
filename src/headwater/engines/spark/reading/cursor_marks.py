"""The progress of a stream, noted in the cursor that it began with."""

from collections.abc import Iterable, Mapping

from headwater.client.client import AsyncClient
from headwater.client.cursors.ledger import Ledger, Mark
from headwater.client.cursors.opening import member_name
from headwater.client.cursors.rows import GroupKey
from headwater.client.cursors.store import TableStore, ensure_cursors
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.runtime.events import Events

_events = Events("spark")


class CursorMarks:
    """Move a cursor along with a stream.

    Each bucket is claimed once and given free with every position, so that whoever uses the
    cursor next goes on from there. A bucket that another reader takes is left to it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._generations: dict[TableBucket, int] = {}
        self._lost: set[TableBucket] = set()

    @classmethod
    async def of(cls, client: AsyncClient, name: str, table: TablePath) -> "CursorMarks":
        """Return the marks of a cursor over a table."""
        info = await ensure_cursors(client.cluster)
        store = TableStore(await client.table(info.path), GroupKey(name, str(table)))
        return cls(Ledger(store, f"spark-{member_name()}", client.cluster.clock))

    async def commit(self, positions: Mapping[TableBucket, int]) -> None:
        """Note the offset that is read next in each bucket."""
        new = [b for b in positions if b not in self._generations and b not in self._lost]
        if new:
            await self._claim(new)
        marks = {
            bucket: Mark(generation, positions[bucket])
            for bucket, generation in self._generations.items()
            if bucket in positions
        }
        if marks:
            self._lose(await self._ledger.commit(marks, releases=True))

    async def _claim(self, buckets: list[TableBucket]) -> None:
        view = await self._ledger.read()
        claims = {bucket: view.slot(bucket).generation + 1 for bucket in buckets}
        view = await self._ledger.claim(claims)
        for bucket, generation in claims.items():
            if view.slot(bucket).is_held_by(self._ledger.member, generation):
                self._generations[bucket] = generation
        self._lose(bucket for bucket in buckets if bucket not in self._generations)
        await self._ledger.forget({bucket: view.slot(bucket).outdated for bucket in buckets})

    def _lose(self, buckets: Iterable[TableBucket]) -> None:
        for bucket in buckets:
            self._lost.add(bucket)
            self._generations.pop(bucket, None)
            _events.warning("bucket of a cursor is read by others", bucket=str(bucket))
