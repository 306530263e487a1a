"""A hash table from 64-bit hashes to locations that works on whole arrays.

Open addressing with linear probing. The home of a hash is given by its top bits, so sorting
hashes sorts their homes, and a table is built by a sort and a running maximum, without probing.
There is no wrapping around: the table ends in spare slots, the last of which stays empty.
"""

import numpy as np
import numpy.typing as npt

from headwater.kv.location import ABSENT, Locations

Hashes = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int64]

NOWHERE = -1
SLOTS_MIN = 1 << 10
SLOTS_MAX = 1 << 32
LOAD_MAX = 0.7
LOAD_BUILT = 0.47  # a table that grew by half
SPARE_SLOTS = 1 << 10
SLOTS_PER_LOOK = 1 << 16
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
        self._used = 0
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
        """Return the memory that the table takes."""
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
        if self._used + count <= self._table.capacity * LOAD_MAX:
            return False
        hashes, locations = self.entries()
        self._build(hashes, locations, slots_min=int((len(hashes) + count) / LOAD_BUILT))
        return True

    def insert(self, hashes: Hashes, locations: Locations) -> None:
        """Add hashes that are distinct and not in the table."""
        self.reserve(len(hashes))
        table = self._table
        pending = np.flatnonzero(locations >= 0)
        self.live_count += len(pending)
        self._used += len(pending)
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
        self._used = self.live_count = len(hashes)
        self._table = table
