"""Numbers for auto-increment columns, each handed out once for a table."""

from headwater.config.values import LONG_MAX
from headwater.errors import NumbersExhaustedError
from headwater.server.catalog.store import CatalogStore


class RowNumbers:
    """Reserve numbers in blocks that are on disk before anyone uses them; the first is 1."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store

    def reserve(self, table_id: int, count: int) -> int:
        """Reserve `count` numbers and return the one before the first."""
        assert count > 0
        with self._store.transaction():
            last = self._store.last_number(table_id)
            if count > LONG_MAX - last:
                raise NumbersExhaustedError(
                    f"The table {table_id} has {LONG_MAX - last} numbers left, not {count}.",
                    hint="Lower 'table.auto-increment.cache-size', or make the table anew.",
                )
            self._store.put_last_number(table_id, last + count)
        return last
