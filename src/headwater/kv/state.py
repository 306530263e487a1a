"""The current rows of one bucket by key: an index in memory over records in a heap."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from headwater.kv.hashes import KeyGroups, begin_with, equal_keys, group_keys, hash_key, hash_keys
from headwater.kv.heap import (
    ABSENT,
    LENGTH_BYTES,
    READ_BYTES_MAX,
    Heap,
    HeapView,
    Locations,
    Records,
)
from headwater.kv.index import NOWHERE, Hashes, HashIndex, PrefixIndex, Slots
from headwater.rows.row_bytes import RowBytes

# A key whose hash belongs to another key; such keys are kept in a dictionary.
COLLIDED = -2
SCAN_ROWS = 16_384

IndexRoom = Callable[[int], None]
"""Is called with the bytes that an index is about to take; raises if there is no memory for them.
"""


def any_room(_: int) -> None:
    """Allow whatever an index takes."""


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """Hold what the state has for some distinct keys; records are those of the present ones."""

    keys: RowBytes
    hashes: Hashes
    slots: Slots
    locations: Locations
    records: Records

    @property
    def is_held(self) -> npt.NDArray[np.bool_]:
        """Tell which keys have a row."""
        return self.locations >= 0


@dataclass(frozen=True, slots=True)
class HeldOne:
    """Hold what the state has for one key: its hash, where its row lies, and schema id and row."""

    hashed: int
    location: int
    value: bytes


@dataclass(slots=True)
class KvState:
    """Keep rows by key; one thread at a time may change it.

    Whoever changes where rows are found holds `lock` meanwhile, so that other threads may look up
    a few keys under it. The thread that makes all changes reads without it.
    """

    seed: int
    heap: Heap
    index: HashIndex = field(default_factory=HashIndex)
    collided: dict[bytes, int] = field(default_factory=dict)
    # Only for tables whose bucket key is a true prefix of the primary key.
    prefixes: PrefixIndex | None = None
    is_released: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def release(self) -> None:
        """Let go of all rows, and so of their files; who holds a view of them reads on."""
        self.is_released = True
        self.heap = Heap(self.heap.segment_bytes_max)
        self.index, self.prefixes = HashIndex(), None
        self.collided.clear()

    @property
    def row_count(self) -> int:
        """Return how many keys have a row."""
        return self.index.live_count + len(self.collided)

    @property
    def index_bytes(self) -> int:
        """Return the memory that stays taken, whatever the rows take."""
        prefixes = self.prefixes.size_bytes if self.prefixes else 0
        return self.index.size_bytes + prefixes

    def hash(self, keys: RowBytes) -> Hashes:
        """Return the hashes of keys or prefixes."""
        return hash_keys(keys, seed=self.seed)

    def group(self, keys: RowBytes) -> KeyGroups:
        """Number the distinct keys of a batch."""
        return group_keys(keys, hash_keys(keys, seed=self.seed))

    def find(self, keys: RowBytes, *, bytes_max: int = READ_BYTES_MAX) -> FoundKeys:
        """Return what is held for keys, unless that is too much."""
        return self._find(keys, hash_keys(keys, seed=self.seed), bytes_max=bytes_max)

    def find_groups(self, groups: KeyGroups) -> FoundKeys:
        """Return what is held for the distinct keys of a batch that may change them."""
        return self._find(groups.keys, groups.hashes, share_hashes=groups.share_hashes)

    def _find(
        self,
        keys: RowBytes,
        hashes: Hashes,
        *,
        share_hashes: bool = False,
        bytes_max: int = READ_BYTES_MAX,
    ) -> FoundKeys:
        slots, locations = self.index.find(hashes)
        present = np.flatnonzero(locations >= 0)
        records = self.heap.view().read(locations[present], bytes_max=bytes_max)
        same = equal_keys(keys.take(present), records.keys)
        if self.collided or share_hashes or not same.all():
            slots[present[~same]], locations[present[~same]] = COLLIDED, ABSENT
            return self._find_among_collided(keys, hashes, slots, locations)
        return FoundKeys(keys, hashes, slots, locations, records)

    def find_one(self, key: bytes) -> tuple[int, bytes] | None:
        """Return location and value of one key without the cost of arrays."""
        location = self.index.find_one(hash_key(key, seed=self.seed))
        if location != ABSENT:
            held, value = self.heap.read_one(location)
            if held == key:
                return location, value
        if key in self.collided:
            return self.collided[key], self.heap.read_one(self.collided[key])[1]
        return None

    def find_prefix(
        self, prefix: bytes, *, is_indexed: bool, bytes_max: int = READ_BYTES_MAX
    ) -> FoundKeys:
        """Return the keys that begin with a prefix, in the order of their bytes.

        Prefixes of the length that is indexed are found at once, others by looking at all keys.
        """
        locations = self._candidates(prefix) if is_indexed else self._scanned(prefix)
        records = self.heap.view().read(locations, bytes_max=bytes_max)
        begins = np.flatnonzero(begin_with(records.keys, prefix))
        keys = records.keys.take(begins).to_list()
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return _picked(locations, records, begins[np.array(order, np.int64)])

    def _candidates(self, prefix: bytes) -> Locations:
        assert self.prefixes is not None
        hashes = self.prefixes.candidates(hash_key(prefix, seed=self.seed))
        collided = np.array(list(self.collided.values()), np.int64)
        locations = np.concatenate([self.index.find(hashes)[1], collided])
        return locations[locations >= 0]

    def _scanned(self, prefix: bytes) -> Locations:
        view, locations = self.heap.view(), np.sort(self.entries()[1])
        found = [np.empty(0, np.int64)]
        for start in range(0, len(locations), SCAN_ROWS):
            part = locations[start : start + SCAN_ROWS]
            found.append(part[begin_with(view.read(part).keys, prefix)])
        return np.concatenate(found)

    def reserve(self, found: FoundKeys, *, room: IndexRoom = any_room) -> FoundKeys:
        """Make room for all keys that are new, and return where the others are now."""
        count = int((found.slots == NOWHERE).sum())
        if growth := self.index.growth_bytes(count):
            room(growth)
        if not self.index.reserve(count):
            return found
        slots, _ = self.index.find(found.hashes)
        slots[found.slots == COLLIDED] = COLLIDED
        return replace(found, slots=slots)

    def apply(
        self,
        found: FoundKeys,
        locations: Locations,
        *,
        sizes: npt.NDArray[np.int64],
        prefix_hashes: Hashes | None = None,
    ) -> None:
        """Point keys to their new records of these sizes; ABSENT removes a key.

        1. count what dies and what lives  2. change what was there  3. add what is new
        """
        held = found.locations >= 0
        changed = found.locations != locations
        dying, born = held & changed, changed & (locations >= 0)
        old_sizes = found.records.lengths[dying[held]] + LENGTH_BYTES
        self.heap.account(found.locations[dying], old_sizes, sign=-1)
        self.heap.account(locations[born], sizes[born], sign=1)
        known = np.flatnonzero(changed & (found.slots >= 0))
        self.index.replace(found.slots[known], locations[known])
        self._apply_collided(found, locations, np.flatnonzero(changed & (found.slots == COLLIDED)))
        new = np.flatnonzero(born & (found.slots == NOWHERE))
        self.index.insert(found.hashes[new], locations[new])
        if self.prefixes is not None and prefix_hashes is not None:
            arrived = np.flatnonzero(~held & born)
            self.prefixes.add(prefix_hashes[arrived], found.hashes[arrived])

    def hold_one(self, key: bytes) -> "HeldOne | None":
        """Return what is held for one key.

        None where its hash alone does not tell it, or where the index has to grow for it first.
        """
        if self.collided:
            return None
        hashed = hash_key(key, seed=self.seed)
        location = self.index.find_one(hashed)
        if location == ABSENT:
            is_full = self.index.used >= self.index.used_max
            return None if is_full else HeldOne(hashed, ABSENT, b"")
        held, value = self.heap.read_one(location)
        return HeldOne(hashed, location, value) if held == key else None

    def apply_one(self, held: "HeldOne", location: int, *, size: int) -> None:
        """Point one key to its new record of this size; ABSENT removes the key."""
        if held.location != ABSENT:
            self.heap.account_one(held.location, -self.heap.record_bytes(held.location))
        if location != ABSENT:
            self.heap.account_one(location, size)
        self.index.put_one(held.hashed, location)

    def move(self, hashes: Hashes, *, before: Locations, after: Locations) -> npt.NDArray[np.bool_]:
        """Point rows that are still where they were to their copies, and tell which."""
        moved = self.index.move(hashes, before=before, after=after)
        if self.collided:
            targets = dict(zip(before.tolist(), after.tolist(), strict=True))
            for key, location in self.collided.items():
                if location in targets:
                    self.collided[key] = targets[location]
            moved |= np.isin(after, np.array(list(self.collided.values()), np.int64))
        return moved

    def entries(self) -> tuple[Hashes, Locations]:
        """Return hashes and locations of all rows; those that collided come last."""
        hashes, locations = self.index.entries()
        if not self.collided:
            return hashes, locations
        keys = RowBytes.of(list(self.collided))
        return (
            np.concatenate([hashes, hash_keys(keys, seed=self.seed)]),
            np.concatenate([locations, np.array(list(self.collided.values()), np.int64)]),
        )

    def view(self, *, limit: int | None = None) -> tuple[HeapView, Locations]:
        """Return all rows of this moment, or any few, in the order in which they lie."""
        locations = self.entries()[1] if limit is None else self._some(limit)
        return self.heap.frozen(), np.sort(locations)

    def _some(self, limit: int) -> Locations:
        collided = np.array(list(self.collided.values()), np.int64)
        return np.concatenate([self.index.some(limit), collided])[:limit]

    def _apply_collided(
        self, found: FoundKeys, locations: Locations, rows: npt.NDArray[np.int64]
    ) -> None:
        for key, location in zip(found.keys.take(rows).to_list(), locations[rows], strict=True):
            if location >= 0:
                self.collided[key] = int(location)
            else:
                self.collided.pop(key, None)

    def _find_among_collided(
        self, keys: RowBytes, hashes: Hashes, slots: Slots, locations: Locations
    ) -> FoundKeys:
        """Find keys where hashes do not tell them apart: rare, so key by key."""
        taken: set[int] = set()
        for row, key in enumerate(keys.to_list()):
            is_second = locations[row] == ABSENT and int(hashes[row]) in taken
            taken.add(int(hashes[row]))
            if is_second or key in self.collided:
                slots[row] = COLLIDED
            if slots[row] == COLLIDED:
                locations[row] = self.collided.get(key, ABSENT)
        records = self.heap.view().read(locations[locations >= 0])
        return FoundKeys(keys, hashes, slots, locations, records)


def _picked(locations: Locations, records: Records, rows: npt.NDArray[np.int64]) -> FoundKeys:
    picked = Records(
        records.keys.take(rows),
        records.rows.take(rows),
        records.lengths[rows],
        records.schema_ids[rows],
    )
    nowhere = np.full(len(rows), NOWHERE, np.int64)
    return FoundKeys(picked.keys, nowhere.view(np.uint64), nowhere, locations[rows], picked)
