"""Ship a storage to its remote storage, commit by commit.

Of each moment: objects with bytes of files first, then the commit that names them. The commit has
the next number and is created only if there is none with that number, so of two servers only one
goes on. Runs in one thread; what cannot be reached is tried again until it can.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeVar

import google_crc32c

from headwater import errors
from headwater.remote.history import read_commit
from headwater.remote.objects import Objects, Pause, pauses
from headwater.remote.plan import RemoteCut, Shipment, plan_shipping
from headwater.remote.tree import (
    NEWEST,
    FileChange,
    FolderChange,
    FolderEnds,
    ObjectPiece,
    RemoteCommit,
    Tree,
    base_key,
    commit_key,
    data_key,
    decode_commit,
    encode_base,
    encode_commit,
)
from headwater.rows.row_bytes import crc32c, crc32c_of_parts
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events, Sparing

SMALL_BYTES = 1 << 20
PACK_BYTES_MAX = 4 << 20
READ_BYTES = 4 << 20
COMMIT_BYTES_MAX = 256 << 20
UPLOADS = 4
BASE_EVERY = 256
DELETES_AT_ONCE = 1000
NONCE_BYTES = 8
_events = Events("remote")
T = TypeVar("T")


class MovedOnError(Exception):
    """A file is no longer what it was at the moment that is being shipped: take another one."""


class Readable(Protocol):
    """A file whose bytes up to the moment's length never change."""

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position."""


Source = Callable[[str, str], Readable]
"""Opens a file of the moment by folder and name, or raises MovedOnError."""


@dataclass(slots=True)
class RemoteTally:
    """Count what is shipped."""

    requests: int = 0
    size_bytes: int = 0
    errors: int = 0
    commits: int = 0
    failure: str = ""
    """Why the last request failed; empty once one succeeded."""


@dataclass(slots=True)
class _Parcel:
    """What the next commit says: changes of files, some with pieces that are still to be put."""

    changes: list[tuple[Shipment, ObjectPiece]] = field(default_factory=list)
    pack: list[bytes] = field(default_factory=list)
    pack_bytes: int = 0
    size_bytes: int = 0


class Shipper:
    """Own a remote storage and bring it from moment to moment."""

    def __init__(
        self, objects: Objects, tree: Tree, *, clock: Clock, pause: Pause, history_ms: int
    ) -> None:
        """Go on from the newest tree; `claim` comes before anything else."""
        self.tree = tree
        self.tally = RemoteTally()
        self._objects = objects
        self._clock = clock
        self._pause = pause
        self._history_ms = history_ms
        self._sparing = Sparing(clock, lines_max=1, period_s=60.0)
        self._grown: dict[tuple[str, str], object] = {}
        self._index = 0

    @property
    def address(self) -> str:
        """Return where the remote storage is."""
        return self._objects.address

    def claim(self, owner: str, *, storage_id: str) -> None:
        """Become the owner: every commit of the owner before fails from now on."""
        commit = self._next(is_whole=self.tree.is_whole, serial=self.tree.serial)
        epoch = self.tree.epoch + 1
        self._commit(replace(commit, owner=owner, epoch=epoch, storage_id=storage_id), b"")

    def check(self) -> None:
        """Raise if another server has become the owner."""
        found = self._persist(partial(read_commit, self._objects, self.tree.number + 1))
        if found is not None:
            raise self._taken(found)

    def ship(self, cut: RemoteCut, source: Source, *, is_last: bool = False) -> None:
        """Bring the remote storage to a moment.

        1. plan  2. put what is large, commit what is there from time to time
        3. commit the moment, with what is small in it  4. write a base and sweep, if due
        """
        plan = plan_shipping(cut, self.tree)
        parcel, attempt = _Parcel(), random_bytes(NONCE_BYTES).hex()
        shipments = [self._checked(each, source) for each in plan.shipments]
        large = [each for each in shipments if each.size >= SMALL_BYTES]
        for some in _groups(large):
            with ThreadPoolExecutor(UPLOADS, thread_name_prefix="headwater-remote") as threads:
                pieces = list(threads.map(partial(self._put, source, attempt), some))
            parcel.changes += zip(some, pieces, strict=True)
            parcel.size_bytes += sum(each.size for each in some)
            if parcel.size_bytes >= COMMIT_BYTES_MAX:
                self._commit_parcel(parcel, replace(cut, folders={}, dropped=()), is_whole=False)
                parcel = _Parcel()
        for each in (each for each in shipments if each.size < SMALL_BYTES):
            self._pack(parcel, each, source, attempt)
        self._commit_parcel(parcel, cut, is_whole=True, gone=plan.gone, is_last=is_last)
        self._tidy()

    def _checked(self, shipment: Shipment, source: Source) -> Shipment:
        """Ship a file whole if the remote one is not the beginning of it."""
        place = (shipment.folder, shipment.name)
        is_known = shipment.identity is not None and self._grown.get(place) is shipment.identity
        self._grown[place] = shipment.identity
        if is_known or not shipment.keeps:
            return shipment
        last = self.tree.folders[shipment.folder].files[shipment.name].pieces[shipment.keeps - 1]
        parts = _parts(source(*place), shipment.start - last.size, shipment.start)
        if crc32c_of_parts(parts) == last.crc:
            return shipment
        return replace(shipment, keeps=0, start=0)

    def _put(self, source: Source, attempt: str, shipment: Shipment) -> ObjectPiece:
        """Put bytes of a file as an object of their own."""
        key = self._data_key(attempt)
        crc = 0

        def parts() -> Iterator[bytes]:
            nonlocal crc
            crc = 0
            file = source(shipment.folder, shipment.name)
            for part in _parts(file, shipment.start, shipment.end):
                crc = google_crc32c.extend(crc, part)
                yield part

        self._persist(lambda: self._objects.put(key, parts()))
        self.tally.size_bytes += shipment.size
        return ObjectPiece(key, 0, shipment.size, crc)

    def _pack(self, parcel: _Parcel, shipment: Shipment, source: Source, attempt: str) -> None:
        """Put bytes of a file beside those of others."""
        if parcel.pack_bytes + shipment.size > PACK_BYTES_MAX:
            self._put_pack(parcel, attempt)
        file = source(shipment.folder, shipment.name)
        content = b"".join(_parts(file, shipment.start, shipment.end))
        piece = ObjectPiece("", parcel.pack_bytes, shipment.size, crc32c(content))
        parcel.changes.append((shipment, piece))
        parcel.pack.append(content)
        parcel.pack_bytes += shipment.size

    def _put_pack(self, parcel: _Parcel, attempt: str) -> None:
        key, content = self._data_key(attempt), b"".join(parcel.pack)
        self._persist(lambda: self._objects.put(key, (content,)))
        self.tally.size_bytes += len(content)
        parcel.changes = [
            (each, piece if piece.key else replace(piece, key=key))
            for each, piece in parcel.changes
        ]
        parcel.pack, parcel.pack_bytes = [], 0

    def _commit_parcel(
        self,
        parcel: _Parcel,
        cut: RemoteCut,
        *,
        is_whole: bool,
        gone: Mapping[str, tuple[str, ...]] | None = None,
        is_last: bool = False,
    ) -> None:
        files: dict[str, dict[str, FileChange]] = {name: {} for name in cut.folders}
        for each, piece in parcel.changes:
            change = FileChange(each.mark, each.keeps, (piece,) if piece.size else ())
            files.setdefault(each.folder, {})[each.name] = change
        folders = {
            name: FolderChange(self._ends(name, cut), changed, (gone or {}).get(name, ()))
            for name, changed in files.items()
        }
        commit = self._next(is_whole=is_whole, serial=cut.serial, at_ms=cut.at_ms)
        commit = replace(commit, folders=folders, dropped=cut.dropped, is_last=is_last)
        self._commit(commit, b"".join(parcel.pack))

    def _ends(self, folder: str, cut: RemoteCut) -> FolderEnds:
        """Return the offsets of a bucket: as of the moment, or as before if that is not there."""
        if (local := cut.folders.get(folder)) is not None:
            return local.ends
        held = self.tree.folders.get(folder)
        return FolderEnds() if held is None else held.ends

    def _next(self, *, is_whole: bool, serial: int, at_ms: int | None = None) -> RemoteCommit:
        tree = self.tree
        return RemoteCommit(
            number=tree.number + 1,
            epoch=tree.epoch,
            at_ms=max(self._clock.now_ms() if at_ms is None else at_ms, tree.at_ms),
            nonce=random_bytes(NONCE_BYTES).hex(),
            storage_id=tree.storage_id,
            is_whole=is_whole,
            serial=serial,
        )

    def _commit(self, commit: RemoteCommit, body: bytes) -> None:
        """Create the next commit, or find that somebody else has."""
        content = encode_commit(commit, body)
        key = commit_key(commit.number)
        while not self._persist(lambda: self._objects.create(key, content)):
            found = self._persist(partial(read_commit, self._objects, commit.number))
            if found is not None and found.nonce == commit.nonce:
                break  # It was there: only the answer was lost.
            if found is not None:
                raise self._taken(found)
        self.tally.size_bytes += len(content)
        self.tally.commits += 1
        self.tree.apply(decode_commit(content[: len(content) - len(body)]))

    def _taken(self, found: RemoteCommit) -> errors.RemoteTakenError:
        since = datetime.fromtimestamp(found.at_ms / 1000, UTC).isoformat(" ", "seconds")
        return errors.RemoteTakenError(
            f"Another server took over the remote storage {self.address} at {since} (owner"
            f" {found.epoch}; this one was {self.tree.epoch})."
        )

    def _data_key(self, attempt: str) -> str:
        self._index += 1
        tree = self.tree
        return data_key(epoch=tree.epoch, number=tree.number + 1, nonce=attempt, index=self._index)

    # ---- bases, and objects that nobody needs

    def _tidy(self) -> None:
        """Write the whole tree once in a while, and delete what no moment of the history needs."""
        tree = self.tree
        newest = max((number for number, _ in tree.bases), default=0)
        if tree.number - newest < BASE_EVERY:
            return
        cutoff_ms = self._clock.now_ms() - self._history_ms
        floor = max((n for n, at_ms in tree.bases if at_ms <= cutoff_ms), default=0)
        unneeded = [base_key(number) for number, _ in tree.bases if number < floor]
        unneeded += self._swept(floor, cutoff_ms)
        tree.bases = [(n, at_ms) for n, at_ms in tree.bases if n >= floor]
        tree.bases.append((tree.number, tree.at_ms))
        tree.swept = max(tree.swept, floor)
        content = encode_base(tree)
        self._persist(lambda: self._objects.put(base_key(tree.number), (content,)))
        self._persist(lambda: self._objects.put(NEWEST, (str(tree.number).encode(),)))
        self.tally.size_bytes += len(content)
        for start in range(0, len(unneeded), DELETES_AT_ONCE):
            some = unneeded[start : start + DELETES_AT_ONCE]
            self._persist(partial(self._objects.delete, some))

    def _swept(self, floor: int, cutoff_ms: int) -> list[str]:
        """Forget what can be deleted: it is dead for long, and no commit behind the floor."""
        tree = self.tree
        needed = {commit_key(n) for n in range(floor + 1, tree.number + 1)}
        dead = [key for key, at_ms in tree.dead.items() if at_ms <= cutoff_ms and key not in needed]
        commits = [commit_key(number) for number in range(tree.swept + 1, floor + 1)]
        dead += [key for key in commits if not tree.uses(key) and key not in tree.dead]
        for key in dead:
            tree.dead.pop(key, None)
        return dead

    def _persist(self, call: Callable[[], T]) -> T:
        """Make a request until it succeeds, or until the server stops."""
        for pause_s in pauses():
            self.tally.requests += 1
            try:
                result = call()
            except (errors.RetryLaterError, errors.AccessError) as fault:
                self._tell(fault)
                if not self._pause(pause_s):
                    raise errors.StoppingError("The remote copy was stopped.") from fault
            else:
                self.tally.failure = ""
                return result
        raise AssertionError

    def _tell(self, fault: errors.HeadwaterError) -> None:
        self.tally.errors += 1
        self.tally.failure = fault.message
        if (left_out := self._sparing.turn()) is not None:
            _events.warning("remote storage not written", reason=fault.message, **left_out)


def _parts(file: Readable, start: int, end: int) -> Iterator[bytes]:
    """Read a range of a file, a little at a time."""
    for position in range(start, end, READ_BYTES):
        length = min(READ_BYTES, end - position)
        part = file.read(position, length)
        if len(part) != length:
            raise MovedOnError
        yield part


def _groups(shipments: Sequence[Shipment]) -> Iterator[list[Shipment]]:
    """Divide large shipments so that a commit can follow each group."""
    group, size = list[Shipment](), 0
    for each in shipments:
        group.append(each)
        size += each.size
        if size >= COMMIT_BYTES_MAX:
            yield group
            group, size = [], 0
    if group:
        yield group
