"""Hash tables that work on whole arrays: hashes of keys to locations, and prefixes to keys."""

import numpy as np
import numpy.typing as npt

from headwater.kv.heap import ABSENT, Locations

# A hash table from 64-bit hashes to locations that works on whole arrays.
#
# Open addressing with linear probing. The home of a hash is given by its top bits, so sorting
# hashes sorts their homes, and a table is built by a sort and a running maximum, without probing.
# There is no wrapping around: the table ends in spare slots, the last of which stays empty.

Hashes = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int64]

NOWHERE = -1
SLOTS_MIN = 1 << 10
SLOTS_MAX = 1 << 32
LOAD_MAX = 0.7
LOAD_BUILT = 0.47  # a table that grew by half
SPARE_SLOTS = 1 << 10
SLOTS_PER_LOOK = 1 << 16
SLOT_BYTES = 16
BUILD_BYTES = 6 * 8  # of each hash, in arrays that a build needs for a moment
_EMPTY_NUMBER = -1
_EMPTY = np.int64(_EMPTY_NUMBER)
_EMPTY_WORD = _EMPTY.view(np.uint64)
_REMOVED = np.int64(-2)  # keeps later hashes of the same run reachable


class _Table:
    """Hold the slots; a reader that took a table goes on with it when another one replaces it."""

    __slots__ = ("capacity", "entries", "hashes", "locations")

    def __init__(self, capacity: int) -> None:
        assert capacity < SLOTS_MAX
        self.capacity = capacity
        self.entries = np.empty((capacity + SPARE_SLOTS, 2), np.uint64)
        self.hashes = self.entries[:, 0]
        self.locations = self.entries[:, 1].view(np.int64)
        self.locations[:] = _EMPTY

    def homes(self, hashes: Hashes) -> Slots:
        scaled = (hashes >> np.uint64(32)) * np.uint64(self.capacity)
        return (scaled >> np.uint64(32)).view(np.int64)


class HashIndex:
    """Map hashes to locations; a hash occurs once."""

    def __init__(self) -> None:
        self.used = 0
        self.used_max = int(SLOTS_MIN * LOAD_MAX)
        self.live_count = 0
        self._table = _Table(SLOTS_MIN)

    @classmethod
    def of(cls, hashes: Hashes, locations: Locations) -> "HashIndex":
        """Build an index of distinct hashes at once."""
        index = cls()
        index._build(hashes, locations)
        return index

    @property
    def size_bytes(self) -> int:
        """Memory of the table, with its empty slots."""
        return self._table.entries.nbytes

    def find(self, hashes: Hashes) -> tuple[Slots, Locations]:
        """Return slot and location of every hash; NOWHERE for one that never was here.

        Both come from the same table, even if another thread puts a larger one in its place.
        """
        table = self._table
        slots = table.homes(hashes)
        found = np.full(len(hashes), NOWHERE, np.int64)
        rows: npt.NDArray[np.int64] | None = None
        while len(slots):
            entries = table.entries.take(slots, axis=0)
            used = entries[:, 1] != _EMPTY_WORD
            hit = entries[:, 0] == hashes
            hit &= used
            found[hit if rows is None else rows[hit]] = slots[hit]
            left = np.flatnonzero(used > hit)
            rows = left if rows is None else rows[left]
            slots, hashes = slots[left] + 1, hashes[left]
        locations = np.maximum(table.locations[found], ABSENT)
        locations[found < 0] = ABSENT
        return found, locations

    def find_one(self, hashed: int) -> int:
        """Return the location of one hash without the cost of arrays."""
        table = self._table
        slot = (hashed >> 32) * table.capacity >> 32
        location = table.locations.item(slot)
        while location != _EMPTY_NUMBER:
            if table.hashes.item(slot) == hashed:
                return max(int(location), ABSENT)
            slot += 1
            location = table.locations.item(slot)
        return ABSENT

    def replace(self, slots: Slots, locations: Locations) -> None:
        """Put other locations into slots; ABSENT removes the hash."""
        before = self._table.locations[slots] >= 0
        after = locations >= 0
        self._table.locations[slots] = np.where(after, locations, _REMOVED)
        self.live_count += int(after.sum()) - int(before.sum())

    def reserve(self, count: int) -> bool:
        """Make room for more hashes, so that inserting them is quick; tell if slots changed."""
        if self.used + count <= self.used_max:
            return False
        hashes, locations = self.entries()
        self._build(hashes, locations, slots_min=int((len(hashes) + count) / LOAD_BUILT))
        return True

    def growth_bytes(self, count: int) -> int:
        """Return how much memory `reserve` needs; 0 if there is room for that many hashes."""
        if self.used + count <= self.used_max:
            return 0
        slots = max(int((self.live_count + count) / LOAD_BUILT), SLOTS_MIN) + SPARE_SLOTS
        return slots * SLOT_BYTES + self.live_count * BUILD_BYTES

    def insert(self, hashes: Hashes, locations: Locations) -> None:
        """Add hashes that are distinct and not in the table."""
        self.reserve(len(hashes))
        table = self._table
        pending = np.flatnonzero(locations >= 0)
        self.live_count += len(pending)
        self.used += len(pending)
        slots = table.homes(hashes[pending])
        while len(pending):
            if int(slots.max()) >= len(table.locations) - 1:
                self._extend(hashes[pending], locations[pending])
                return
            free = np.flatnonzero(table.locations[slots] == _EMPTY)
            # Of several that want one slot the last to write wins; the others go on.
            table.locations[slots[free]] = locations[pending[free]]
            won = np.zeros(len(pending), np.bool_)
            won[free] = table.locations[slots[free]] == locations[pending[free]]
            table.hashes[slots[won]] = hashes[pending[won]]
            left = ~won
            pending, slots = pending[left], slots[left] + 1

    def put_one(self, hashed: int, location: int) -> None:
        """Point one hash to a location without the cost of arrays; ABSENT removes the hash."""
        self.reserve(1)
        table = self._table
        slot = (hashed >> 32) * table.capacity >> 32
        held = table.locations.item(slot)
        while held != _EMPTY_NUMBER and table.hashes.item(slot) != hashed:
            slot += 1
            held = table.locations.item(slot)
        if held == _EMPTY_NUMBER:
            if slot >= len(table.locations) - 1:
                self._extend(np.array([hashed], np.uint64), np.array([location], np.int64))
                return
            assert location >= 0
            table.hashes[slot] = hashed
            self.used += 1
        table.locations[slot] = location if location >= 0 else _REMOVED
        self.live_count += (location >= 0) - (held >= 0)

    def entries(self) -> tuple[Hashes, Locations]:
        """Return copies of all hashes with a location."""
        table = self._table
        live = np.flatnonzero(table.locations >= 0)
        return table.hashes[live], table.locations[live]

    def some(self, limit: int) -> Locations:
        """Return any locations, as many as asked for if there are."""
        table, found, start = self._table, np.empty(0, np.int64), 0
        while len(found) < limit and start < len(table.locations):
            part = table.locations[start : start + SLOTS_PER_LOOK]
            found = np.concatenate([found, part[part >= 0]])
            start += SLOTS_PER_LOOK
        return found[:limit]

    def move(self, hashes: Hashes, *, before: Locations, after: Locations) -> npt.NDArray[np.bool_]:
        """Change locations that are still what they were, and tell which."""
        slots, locations = self.find(hashes)
        same = (slots >= 0) & (locations == before)
        self._table.locations[slots[same]] = after[same]
        return same

    def _extend(self, hashes: Hashes, locations: Locations) -> None:
        """Rebuild with more room, because a run of slots reached the end of the table."""
        held_hashes, held_locations = self.entries()
        self._build(
            np.concatenate([held_hashes, hashes]),
            np.concatenate([held_locations, locations]),
            slots_min=self._table.capacity * 2,
        )

    def _build(self, hashes: Hashes, locations: Locations, *, slots_min: int = SLOTS_MIN) -> None:
        capacity = max(slots_min, SLOTS_MIN, int(len(hashes) / LOAD_BUILT))
        order = np.argsort(hashes)
        hashes = hashes[order]
        ranks = np.arange(len(hashes), dtype=np.int64)
        while True:
            table = _Table(capacity)
            # Each goes to its home, or right behind the one before it if that is further.
            slots = ranks + np.maximum.accumulate(table.homes(hashes) - ranks)
            if not len(slots) or int(slots[-1]) < len(table.locations) - 1:
                break
            capacity *= 2
        table.hashes[slots] = hashes
        table.locations[slots] = locations[order]
        self.used = self.live_count = len(hashes)
        self.used_max = int(capacity * LOAD_MAX)
        self._table = table


# Which keys begin with a prefix: hashes of prefixes beside the hashes of their keys.
#
# A key never changes its prefix, so only new keys are noted here. A key that was removed stays
# until the next rebuild; whoever reads a candidate sees that it is gone.

TAIL_COUNT_MAX = 4096
_Parts = tuple[Hashes, Hashes, list[tuple[Hashes, Hashes]]]


class PrefixIndex:
    """Map the hash of a prefix to the hashes of keys: a sorted part and an unsorted tail."""

    def __init__(self, prefixes: Hashes | None = None, keys: Hashes | None = None) -> None:
        nothing = np.empty(0, np.uint64)
        # Put in place together, since they are merged in a thread while others read.
        self._parts: _Parts = (nothing, nothing, [])
        self._tail_count = 0
        if prefixes is not None and keys is not None:
            self.add(prefixes, keys)
            self._merge()

    @property
    def size_bytes(self) -> int:
        """Memory of both columns, those not merged yet included."""
        return 2 * 8 * (len(self._parts[0]) + self._tail_count)

    def add(self, prefixes: Hashes, keys: Hashes) -> None:
        """Note keys that were not there."""
        _, merged, tail = self._parts
        tail.append((prefixes, keys))
        self._tail_count += len(keys)
        if self._tail_count > max(TAIL_COUNT_MAX, len(merged) // 8):
            self._merge()

    def candidates(self, prefix: int) -> Hashes:
        """Return the distinct hashes of keys that may begin with a prefix."""
        hashed = np.uint64(prefix)
        merged, merged_keys, tail = self._parts
        start = int(np.searchsorted(merged, hashed))
        end = int(np.searchsorted(merged, hashed, side="right"))
        found = [merged_keys[start:end]]
        found += [keys[prefixes == hashed] for prefixes, keys in tail]
        return np.unique(np.concatenate(found))

    def arrays(self) -> tuple[Hashes, Hashes]:
        """Return the hashes of prefixes and of their keys, as sorted arrays."""
        self._merge()
        prefixes, keys, _ = self._parts
        return prefixes, keys

    def _merge(self) -> None:
        merged, merged_keys, tail = self._parts
        prefixes = np.concatenate([merged, *(prefixes for prefixes, _ in tail)])
        keys = np.concatenate([merged_keys, *(keys for _, keys in tail)])
        order = np.lexsort((keys, prefixes))
        prefixes, keys = prefixes[order], keys[order]
        # A key that went and came back was noted twice.
        is_new = np.ones(len(keys), np.bool_)
        is_new[1:] = (prefixes[1:] != prefixes[:-1]) | (keys[1:] != keys[:-1])
        self._parts = (prefixes[is_new], keys[is_new], [])
        self._tail_count = 0
