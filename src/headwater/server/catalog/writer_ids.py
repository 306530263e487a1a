"""Ids of writers, handed out in blocks: each block is for one user, and for one start only.

A block is drawn at random and noted before the first id of it is handed out. So an id is handed
out once, whatever copies of the directory are started, and it is known whose it is; most ids cost
no write to disk.
"""

from headwater.errors import UnknownWriterError
from headwater.model.writer_id import (
    BLOCK_END,
    BLOCK_MIN,
    NUMBER_BITS,
    block_of,
    is_computed,
)
from headwater.rows.log_batch import NO_WRITER
from headwater.runtime.ids import random_bytes
from headwater.server.catalog.store import CatalogStore

BLOCKS_MAX = 10_000
"""Blocks that are remembered; whoever has an id of an older one begins anew."""
ANYBODY = ""
_BYTES = 8


class WriterIds:
    """Hand out each id once, and know to whom."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._owners = store.writer_blocks()
        # The id to be handed out next, by user; blocks of earlier starts are not gone on with.
        self._next: dict[str, int] = {}

    def next(self, owner: str) -> int:
        """Return an id that was never returned before."""
        writer_id = self._next.get(owner)
        if writer_id is None or writer_id % (1 << NUMBER_BITS) == 0:
            writer_id = self._draw(owner) << NUMBER_BITS
        self._next[owner] = writer_id + 1
        return writer_id

    def check(self, writer_id: int, owner: str) -> None:
        """Refuse an id that was handed out to somebody else, or by another storage."""
        if writer_id == NO_WRITER or is_computed(writer_id) or 0 <= block_of(writer_id) < BLOCK_MIN:
            return
        held = self._owners.get(block_of(writer_id))
        if held is None:
            raise UnknownWriterError(
                f"Writer {writer_id} got its id from another storage, or after the copy was made"
                " from which this one was restored."
            )
        if owner not in (ANYBODY, held):
            raise UnknownWriterError(f"Writer {writer_id} belongs to another user.")

    def _draw(self, owner: str) -> int:
        block = 0
        while block < BLOCK_MIN or block in self._owners:
            block = int.from_bytes(random_bytes(_BYTES), "little") % BLOCK_END
        with self._store.transaction():
            self._store.add_writer_block(block, owner, kept_max=BLOCKS_MAX)
        self._owners[block] = owner
        return block
