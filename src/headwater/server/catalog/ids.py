"""Ids that are handed out once: of tables, partitions, writers and rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.config.values import LONG_MAX
from headwater.errors import CorruptFileError, NumbersExhaustedError, UnknownWriterError
from headwater.model.bucket import BLOCK_END, BLOCK_MIN, NUMBER_BITS, is_computed
from headwater.rows.log_batch import NO_WRITER
from headwater.runtime.clock import random_bytes
from headwater.server.catalog.store import CatalogStore

# Which tables and partitions have rows on disk, whether or not the catalog knows them.

LOGS = "log"
_PARTITION = "p"
_BYTES = 8


@dataclass(frozen=True, slots=True)
class IdsOnDisk:
    """The highest ids that were ever given to something with rows, or 0."""

    table_id: int
    partition_id: int


def ids_on_disk(directory: Path) -> IdsOnDisk:
    """Find the logs of tables and partitions below a data directory."""
    tables = dict(_numbered(directory / LOGS, ""))
    partitions = [number for table in tables.values() for number, _ in _numbered(table, _PARTITION)]
    return IdsOnDisk(max(tables, default=0), max(partitions, default=0))


def require_catalog(catalog: Path, found: IdsOnDisk) -> None:
    """Refuse to start over if there are rows but no catalog."""
    if found.table_id and not (catalog.exists() and catalog.stat().st_size):
        raise CorruptFileError(
            f"The catalog {catalog} is missing or empty, but {catalog.parent / LOGS} contains "
            "rows.",
            hint="Restore the catalog from a backup: it says which tables the rows belong to. "
            "To start over, use another directory.",
        )


def _numbered(directory: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    if not directory.is_dir():
        return
    for entry in directory.iterdir():
        number = entry.name.removeprefix(prefix)
        if entry.name.startswith(prefix) and number.isdigit() and entry.is_dir():
            yield int(number), entry


# Where each start begins to count tables and partitions.
#
# A copy of a directory does not know what its original handed out after the copy was made. So
# every start but the first leaps ahead: the upper bits are the number of the start, which grows
# with the clock, and the lower ones are drawn, for copies whose clocks do not tell them apart. Ids
# therefore only grow, on which tierers and clients rely. The first start counts from 1.

_DRAWN_BITS = 20
# Leaves room for two more bits of tables per second; ids stay below 2^53 until 2088, so that
# tools which read JSON numbers as floating point numbers keep them exact.
_START_SHIFT = 22


def id_before_first(start_count: int) -> int:
    """Return the id after which a start of a storage counts its tables and partitions."""
    drawn = int.from_bytes(random_bytes(_BYTES), "little") % (1 << _DRAWN_BITS)
    return (start_count << _START_SHIFT) + drawn


# Numbers for auto-increment columns, each used once for a table.


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
                    hint="Lower 'table.auto-increment.cache-size', or create the table again.",
                )
            self._store.put_last_number(table_id, last + count)
        return last


# Writer ids, assigned in blocks: each block is for one user and one start only. A block is drawn at
# random and recorded before its first id is assigned. So an id is assigned once, whatever copies of
# the directory are started, and its owner is known; most ids cost no write to disk.

BLOCKS_MAX = 10_000
"""Blocks that are remembered; a writer with an id of an older one has to start over."""
ANYBODY = ""


class AssignedWriterIds:
    """Assign each id once, and remember to whom."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._owners = store.writer_blocks()
        # The next id, by user; blocks of earlier starts are not continued.
        self._next: dict[str, int] = {}

    def next(self, owner: str) -> int:
        """Assign an id that was never assigned before."""
        writer_id = self._next.get(owner)
        if writer_id is None or writer_id % (1 << NUMBER_BITS) == 0:
            writer_id = self._draw(owner) << NUMBER_BITS
        self._next[owner] = writer_id + 1
        return writer_id

    def check(self, writer_id: int, owner: str) -> None:
        """Reject an id that was assigned to somebody else, or by another storage."""
        block = writer_id >> NUMBER_BITS
        held = self._owners.get(block)
        if held is None:
            if writer_id == NO_WRITER or is_computed(writer_id) or 0 <= block < BLOCK_MIN:
                return
            raise UnknownWriterError(
                f"Writer {writer_id} got its id from another storage, or after the backup was "
                "made from which this one was restored."
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
