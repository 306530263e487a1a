"""The catalog of a data directory, used from one thread."""

from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import UUID

from headwater.config.server import ServerSettings
from headwater.errors import CorruptFileError, DirectoryLostError, StorageError
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events
from headwater.runtime.jumps import DoubtingClock
from headwater.server.catalog import ids
from headwater.server.catalog.acls import AclRecords
from headwater.server.catalog.lake import LakeRecords
from headwater.server.catalog.lock import DirectoryLock
from headwater.server.catalog.partitions import CatalogPartitions
from headwater.server.catalog.producers import Producers
from headwater.server.catalog.store import CatalogStore, CheckCreated
from headwater.server.catalog.tables import Databases, Tables
from headwater.server.disk_space import give_reserve, unwritable

_events = Events("catalog")
CATALOG_NAME = "catalog.sqlite"
_STARTS = "starts"
_LOGIN_SECRET = "login_secret"  # noqa: S105 - the name of a note
_LOGIN_SECRET_BYTES = 32
_BELIEVED = "believed_ms"
_INCARNATION = "incarnation"
_COPY_NUMBER = "copy_number"
_REMOTE_OWNERS = "remote_owners"
_REMOTE_OWNERS_KEPT = 100
_INCARNATION_BYTES = 8
_INCARNATION_END = 1 << 62
# Starts are counted in seconds from 2020 on where the clock agrees, so that a copy counts on from
# where its original is.
_COUNTED_FROM_S = 1_577_836_800


class ServerCatalog:
    """Hold what exists in a data directory; reads come from memory, changes go to disk first."""

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        store: CatalogStore,
        *,
        clock: Clock,
        settings: ServerSettings,
        lock: DirectoryLock,
        time: DoubtingClock,
        held: ExitStack,
        check_created: CheckCreated | None = None,
    ) -> None:
        image = store.load()
        self._store = store
        self._held = held
        self.lock = lock
        # Tells the time by which rows are deleted.
        self.time = time
        self._writer_ids = ids.AssignedWriterIds(store)
        self.check_writer_id = self._writer_ids.check
        """Refuse a writer id that was handed out to another user, or by another storage."""
        self._row_numbers = ids.RowNumbers(store)
        self.storage_id = str(UUID(store.note("storage_id")))
        # How often the directory was opened; what was given to others before is void.
        self.start_count = int(store.note(_STARTS))
        # What tells this start from all others, also from those of copies.
        self.incarnation = _drawn() if store.read_only else int(store.note(_INCARNATION))
        self.databases = Databases(store, image, clock=clock)
        self.tables = Tables(
            store, image, clock=clock, settings=settings, check_created=check_created
        )
        self.partitions = CatalogPartitions(
            store, image, clock=clock, settings=settings, check_created=check_created
        )
        self.lake = LakeRecords(store, image)
        self.producers = Producers(store, clock=clock)
        self.acls = AclRecords(store)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        clock: Clock,
        settings: ServerSettings,
        check_created: CheckCreated | None = None,
    ) -> Self:
        """Open the catalog of a directory.

        1. Take the directory for this process.
        2. Open the file, or make it with the default database if there are no rows yet.
        3. Count that it was opened, and give no id again that has rows or that an earlier start
           may have given. Doubt a clock that is far ahead of the last time that was believed.
           Where the disk takes no writes, the storage is only read.
        4. Load it.
        """
        held = ExitStack()
        try:
            lock = DirectoryLock.take(directory)
            held.callback(lock.release)
            found = ids.ids_on_disk(directory)
            ids.require_catalog(directory / CATALOG_NAME, found)
            store, time = _opened(directory, found, lock, clock=clock, settings=settings)
            held.callback(store.close)
            return cls(
                store,
                clock=clock,
                settings=settings,
                lock=lock,
                time=time,
                held=held,
                check_created=check_created,
            )
        except BaseException:
            held.close()
            raise

    @property
    def read_only(self) -> str:
        """Return why nothing can be changed; empty if it can."""
        return self._store.read_only

    def login_secret(self) -> bytes:
        """Return a secret that only this storage knows, and always the same one."""
        found = self._store.note_if_any(_LOGIN_SECRET)
        if found is None:
            found = random_bytes(_LOGIN_SECRET_BYTES).hex()
            if not self.read_only:
                with self._store.transaction():
                    self._store.put_note(_LOGIN_SECRET, found)
        return bytes.fromhex(found)

    def next_writer_id(self, owner: str) -> int:
        """Return a writer id that was never returned before, for a user."""
        return self._writer_ids.next(owner)

    def reserve_ids(self, table_id: int, count: int) -> int:
        """Reserve `count` numbers for rows of a table and return the one before the first."""
        return self._row_numbers.reserve(self.tables.by_id(table_id).table_id, count)

    @property
    def changes(self) -> int:
        """Return how often the catalog changed since it was opened."""
        return self._store.changes

    def numbered_copy(self) -> tuple[int, bytes]:
        """Give the catalog a number that is higher than before, and return it with its bytes.

        Whoever has the bytes knows whether a directory is older than they are.
        """
        number = self.copy_number + 1
        with self._store.transaction(counts=False):
            self._store.put_note(_COPY_NUMBER, str(number))
        return number, self._store.content()

    @property
    def copy_number(self) -> int:
        """Return the number of the last copy that was made; 0 if there was none."""
        return int(self._store.note_if_any(_COPY_NUMBER) or 0)

    @property
    def remote_owners(self) -> tuple[str, ...]:
        """Return under which names this storage took, or tried to take, its remote storage."""
        return tuple(filter(None, (self._store.note_if_any(_REMOTE_OWNERS) or "").split(",")))

    def note_remote_owner(self, owner: str) -> None:
        """Note a name before the remote storage is taken under it."""
        kept = (owner, *self.remote_owners)[:_REMOTE_OWNERS_KEPT]
        with self._store.transaction():
            self._store.put_note(_REMOTE_OWNERS, ",".join(kept))

    def remember_time(self) -> None:
        """Note the time that is believed, for the next start."""
        with self._store.transaction(counts=False):
            _note_time(self._store, self.time)

    def close(self) -> None:
        """Close the file and let another process take the directory; twice does no harm."""
        self._held.close()


def _opened(
    directory: Path,
    found: ids.IdsOnDisk,
    lock: DirectoryLock,
    *,
    clock: Clock,
    settings: ServerSettings,
) -> tuple[CatalogStore, DoubtingClock]:
    """Open the file and count that, or only read it where the disk takes no writes."""
    path = directory / CATALOG_NAME
    give_reserve(directory)

    def guard() -> None:
        lock.check()
        give_reserve(directory)

    is_there = path.exists()
    try:
        store = CatalogStore.open(path, now_ms=clock.now_ms(), guard=guard)
        try:
            time = _time(store, clock, settings)
            _count_start(store, found, time)
        except BaseException:
            store.close()
            raise
    except (CorruptFileError, DirectoryLostError):
        raise
    except StorageError as fault:
        reason = unwritable(directory)
        if not reason or not is_there:
            raise
        _events.error("opened read-only", reason=reason, fault=fault.message)
        store = CatalogStore.open_read_only(path, guard=lock.check, reason=reason)
        time = _time(store, clock, settings)
    return store, time


def _time(store: CatalogStore, clock: Clock, settings: ServerSettings) -> DoubtingClock:
    believed = None if settings.trust_clock else store.note_if_any(_BELIEVED)
    return DoubtingClock(clock, believed_ms=None if believed is None else int(believed))


def _note_time(store: CatalogStore, time: DoubtingClock) -> None:
    now_ms = time.now_ms()
    if not time.doubted_ms:
        store.put_note(_BELIEVED, str(now_ms))


def _drawn() -> int:
    drawn = int.from_bytes(random_bytes(_INCARNATION_BYTES), "little") % _INCARNATION_END
    return max(drawn, 1)


def _count_start(store: CatalogStore, found: ids.IdsOnDisk, time: DoubtingClock) -> None:
    with store.transaction():
        _note_time(store, time)
        before = int(store.note(_STARTS))
        count = max(before + 1, time.now_ms() // 1000 - _COUNTED_FROM_S)
        store.put_note(_STARTS, str(count))
        store.put_note(_INCARNATION, str(_drawn()))
        skipped = [
            store.skip_ids("tables", found.table_id),
            store.skip_ids("partitions", found.partition_id),
        ]
        if before:
            store.skip_ids("tables", ids.id_before_first(count))
            store.skip_ids("partitions", ids.id_before_first(count))
    if any(skipped):
        _events.warning(
            "catalog is older than the rows",
            table_id=found.table_id,
            partition_id=found.partition_id,
        )
