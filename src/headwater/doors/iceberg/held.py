"""What a door holds of one table: the files of its tail, and the positions it told somebody of.

Loads of one table come one after the other. One that began before a position was taken, or no more
than the freshness bound after that, shares what was made for it; the others extend it.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from headwater.client.sync.scan import View
from headwater.client.sync.table import Table
from headwater.doors.iceberg.origins import OriginPlaces, TableOrigin
from headwater.doors.iceberg.snapshots import ServedSnapshot, SnapshotWriter
from headwater.doors.iceberg.tails import Pieces, TailTally, TailWriter, check_length
from headwater.lake.iceberg.catalog import reached
from headwater.lake.iceberg.served import LEASE_S, DoorFolder, remove_leftovers
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

IDLE_LEASES = 4
"""How many times its lease the newest position of a table stays if nobody asks for it."""
ORIGIN_S_MAX = 60.0
"""Seconds for which the metadata of a lake table is used again while its snapshot is the same."""
ANSWERS_MAX = 8
"""Answers of one table that are kept for those who ask for the same position again."""
EARLIER_MAX = 16
"""Positions told of before that stand in the metadata of the newest."""
_events = Events("doors.iceberg")


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    """How fresh a load is, how long its tail may be, and how long its files stay."""

    fresh_within_s: float = 1.0
    rows_max: int = 20_000_000
    lease_s: float = LEASE_S
    directory: Path | None = None
    """Where rows go of tables that no Iceberg lake holds anything of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPosition:
    """The position that a load asks for; the newest if it names none."""

    token: str | None = None
    as_of: datetime | int | None = None
    mode: str = "union"

    @property
    def is_newest(self) -> bool:
        """Tell whether the newest rows are asked for, of lake and log."""
        return self.token is None and self.as_of is None and self.mode == "union"


NEWEST = LoadPosition()


@dataclass(frozen=True, slots=True)
class HotTable:
    """A table as it was loaded: the answer, and what tells it from others."""

    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class LoadCost:
    """What a load took; nothing if it shared what was there."""

    snapshot_id: int
    written: TailTally
    is_shared: bool = False


# The folders of a door.


class DoorFolders:
    """The folder of this door in each place; may be used by any number of threads."""

    def __init__(self, clock: Clock, *, lease_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._folders: dict[str, DoorFolder] = {}
        self._lock = Lock()

    def of(self, origin: TableOrigin) -> DoorFolder:
        """Return the folder for a table; another one than before if that was taken away."""
        now_ms = self._clock.now_ms()
        with self._lock, reached(f"Writing to {origin.root}"):
            found = self._folders.get(origin.root)
            if found is not None and found.is_whole(lease_s=self._lease_s, now_ms=now_ms):
                return found
            io = origin.io()
            if found is None:
                self.clean(io, origin.root)
            begun = DoorFolder.begun(io, origin.root, lease_s=self._lease_s, now_ms=now_ms)
            self._folders[origin.root] = begun
            return begun

    def renew(self) -> None:
        """Say that the door still runs."""
        with self._lock:
            folders = list(self._folders.values())
        for folder in folders:
            try:
                folder.renew(lease_s=self._lease_s, now_ms=self._clock.now_ms())
            except OSError as fault:
                # The next load finds that, and begins another one.
                _events.warning("folder not renewed", folder=folder.location, fault=str(fault))

    def close(self, *, used: set[str]) -> None:
        """Remove the folders in which nothing is lent any more; `used` are those that stay."""
        with self._lock:
            folders, self._folders = list(self._folders.values()), {}
        for folder in folders:
            if folder.location not in used:
                folder.remove_all()

    def clean(self, io: FileIO, root: str) -> None:
        """Remove what doors left in a place that were killed."""
        cleaned = remove_leftovers(io, root, now_ms=self._clock.now_ms())
        if cleaned.data_files or cleaned.metadata_files:
            _events.info(
                "left-over tails removed",
                place=root,
                files=cleaned.data_files + cleaned.metadata_files,
                bytes=cleaned.byte_count,
            )


# One table.


@dataclass(slots=True)
class _Told:
    """A position that somebody was told of, and when that was last."""

    files: frozenset[str]
    snapshot: Snapshot
    source: str
    answer: HotTable | None
    at: float


@dataclass(frozen=True, slots=True)
class _Left:
    """Files in a folder that is not written any more, and until when they are lent."""

    folder: DoorFolder
    files: set[str]
    until: float


class HeldTable:
    """Loads one table. Whoever loads it has the lock."""

    def __init__(
        self, limits: TailLimits, clock: Clock, places: OriginPlaces, folders: DoorFolders
    ) -> None:
        self._limits, self._clock = limits, clock
        self._places, self._folders = places, folders
        self._lock = Lock()
        self._folder: DoorFolder | None = None
        self._pieces: Pieces = {}
        self._pieces_schema: object = None
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._newest: str | None = None
        self._taken_at = 0.0
        self._origin: tuple[object, float, TableOrigin] | None = None
        self._files: set[str] = set()
        self._left: list[_Left] = []

    @property
    def locations(self) -> set[str]:
        """The folders in which files of the table are."""
        left = {each.folder.location for each in self._left}
        own = {self._folder.location} if self._folder is not None and self._files else set()
        return left | own

    @property
    def file_count(self) -> int:
        """How many files are held of the table."""
        return len(self._files) + sum(len(each.files) for each in self._left)

    def load(self, table: Table, at: LoadPosition, *, began: float) -> tuple[HotTable, LoadCost]:
        """Load the table at a position, and tell what that took.

        1. Share what was made for a position that is fresh enough. 2. Take a position, and share
        what was made for the same one. 3. Write what is new of the tail, and the metadata.
        """
        with self._lock:
            if at.is_newest and (found := self._fresh(began)) is not None:
                return self._again(found)
            taken_at = self._clock.monotonic()
            view = table.view(token=at.token, as_of=at.as_of, mode=at.mode)
            origin, token = self._origin_of(view), view.token()
            self._begin(origin)
            known = self._told.get(token)
            if known is None or known.answer is None or known.source != origin.source:
                check_length(
                    view, has_lake=origin.snapshot is not None, rows_max=self._limits.rows_max
                )
                cost = self._write(view, origin, keeps=at.is_newest)
                answer = self._told[token].answer
                assert answer is not None, "just written"
            else:
                answer, cost = self._again(token)
            if at.is_newest:
                self._newest, self._taken_at = token, taken_at
            return answer, cost

    def expire(self) -> None:
        """Remove the files of which nobody was told within the lease."""
        with self._lock:
            now, lease_s = self._clock.monotonic(), self._limits.lease_s
            for token, told in list(self._told.items()):
                is_newest = token == self._newest
                if told.at + lease_s * (IDLE_LEASES if is_newest else 1) < now:
                    del self._told[token]
                    self._newest = None if is_newest else self._newest
            if not self._told:
                self._pieces = {}
            self._sweep()
            for left in [each for each in self._left if each.until < now]:
                left.folder.remove(sorted(left.files))
                self._left.remove(left)

    # ---- sharing

    def _fresh(self, began: float) -> str | None:
        """Return the newest position if it was taken late enough."""
        told = None if self._newest is None else self._told.get(self._newest)
        if told is None or told.answer is None or self._origin is None:
            return None
        if self._taken_at < began - self._limits.fresh_within_s:
            return None
        return self._newest if self._folders.of(self._origin[2]) is self._folder else None

    def _again(self, token: str) -> tuple[HotTable, LoadCost]:
        told = self._told[token]
        assert told.answer is not None, "looked at before"
        told.at = self._clock.monotonic()
        self._told.move_to_end(token)
        return told.answer, LoadCost(told.snapshot.snapshot_id, TailTally(), is_shared=True)

    def _origin_of(self, view: View) -> TableOrigin:
        """Return what the view is built on, which is asked again from time to time only."""
        value, now = view.value, self._clock.monotonic()
        number = None if value.snapshot is None else value.snapshot.snapshot_id
        key = (value.table.schema_id, value.table.descriptor, number)
        if self._origin is not None:
            known, since, origin = self._origin
            if known == key and now - since < ORIGIN_S_MAX:
                return origin
        origin = self._places.origin_of(value)
        self._origin = (key, now, origin)
        return origin

    def _begin(self, origin: TableOrigin) -> None:
        """Begin anew if the folder is another one than before, or the columns are."""
        folder = self._folders.of(origin)
        if folder is not self._folder:
            if self._folder is not None and self._files:
                # Tiering made the lake table, so that files go there now.
                until = self._clock.monotonic() + self._limits.lease_s
                self._left.append(_Left(self._folder, self._files, until))
            self._folder, self._told, self._newest = folder, OrderedDict(), None
            self._files, self._pieces = set(), {}
        ids = origin.place(folder.location).ids
        schema = (tuple(origin.metadata.schema().fields), origin.metadata.spec(), ids)
        if schema != self._pieces_schema:
            self._pieces, self._pieces_schema = {}, schema

    # ---- writing

    def _write(self, view: View, origin: TableOrigin, *, keeps: bool) -> LoadCost:
        assert self._folder is not None
        location = f"{self._folder.location}/{view.value.table.table_id}"
        tail = TailWriter(
            view=view, origin=origin, location=location, rows_max=self._limits.rows_max
        )
        pieces = tail.pieces(self._pieces)
        files = [file for each in pieces.values() for piece in each for file in piece.files]
        self._files.update(file.file_path for file in files)
        if keeps:
            self._pieces = pieces
        token = view.token()
        earlier = [told.snapshot for told in self._told.values()][-EARLIER_MAX:] if keeps else []
        writer = SnapshotWriter(
            origin=origin,
            location=location,
            token=token,
            now_ms=self._clock.now_ms(),
            earlier=earlier,
        )
        served = writer.write(files)
        self._files |= served.files
        tail.written.byte_count += served.byte_count
        self._told[token] = _Told(
            files=served.files,
            snapshot=served.snapshot,
            source=origin.source,
            answer=_answer(served),
            at=self._clock.monotonic(),
        )
        for old in list(self._told.values())[:-ANSWERS_MAX]:
            old.answer = None
        return LoadCost(served.snapshot.snapshot_id, tail.written)

    def _sweep(self) -> None:
        """Remove the files that nobody was told of and no later load builds on."""
        kept = {
            file.file_path
            for pieces in self._pieces.values()
            for piece in pieces
            for file in piece.files
        }
        kept = kept.union(*(told.files for told in self._told.values()))
        gone = self._files - kept
        if gone and self._folder is not None:
            self._folder.remove(sorted(gone))
            self._files &= kept


def _answer(served: ServedSnapshot) -> HotTable:
    """Return the answer in the specification's form; equal ones have equal tags."""
    # Put together as text, since the metadata may be long.
    body = (
        f'{{"metadata-location":"{served.location}","metadata":{served.metadata},'
        '"config":{},"storage-credentials":[]}'
    ).encode()
    digest = hashlib.sha256(body).hexdigest()[:32]
    return HotTable(f'"{digest}"', body)
