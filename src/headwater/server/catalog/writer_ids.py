"""Ids of writers, reserved in blocks so that most of them cost no write to disk."""

from headwater.server.catalog.store import CatalogStore

BLOCK_LENGTH = 1000
_NOTE = "writer_id_end"


class WriterIds:
    """Hand out each id once; a crash skips the rest of a block."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._end = int(store.note(_NOTE))
        self._next = self._end

    def next(self) -> int:
        """Return an id that was never returned before."""
        if self._next == self._end:
            self._reserve()
        writer_id, self._next = self._next, self._next + 1
        return writer_id

    def _reserve(self) -> None:
        end = self._end + BLOCK_LENGTH
        with self._store.transaction():
            self._store.put_note(_NOTE, str(end))
        self._end = end
