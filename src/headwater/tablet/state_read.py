"""Read the rows of a bucket: by key or prefix, or all of them as they were at one log offset.

All lookups that wait in the same turn of the loop are answered by one probe, and nobody is
shown a row that is not durable yet.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from headwater.errors import BucketMissingError, RecordTooLargeError
from headwater.kv.heap import ABSENT, LENGTH_BYTES, SCHEMA_ID_BYTES, HeapView, Locations, values_of
from headwater.kv.state import FoundKeys, KvState
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.tasks import in_turns
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import ACKS_DURABLE, LogTablet

# Which rows of a state are not durable yet, so that nobody is shown what may vanish.

DURABLE = 0
_PLACE_MASK = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class _Written:
    end_offset: int
    start: int
    end: int
    removes: bool


class Unsynced:
    """Remember what was applied since the last sync."""

    def __init__(self) -> None:
        self._written: deque[_Written] = deque()

    def note(self, end_offset: int, *, location: int, size: int, removes: bool) -> None:
        """Remember records that the log up to an offset makes durable."""
        start = location & _PLACE_MASK
        self._written.append(_Written(end_offset, start, start + size, removes))

    def forget(self, synced_offset: int) -> None:
        """Count everything before an offset as durable."""
        while self._written and self._written[0].end_offset <= synced_offset:
            self._written.popleft()

    def offset_for(self, locations: Locations) -> int:
        """Return the offset that has to be durable before these rows may be shown."""
        if not self._written:
            return DURABLE
        places, is_absent = locations & _PLACE_MASK, bool((locations < 0).any())
        for written in reversed(self._written):
            is_within = (places >= written.start) & (places < written.end) & (locations >= 0)
            if (written.removes and is_absent) or bool(np.any(is_within)):
                return written.end_offset
        return DURABLE

    def shows(self, location: int, *, synced_offset: int) -> bool:
        """Tell whether one row, or its absence, may be shown once the log is durable so far."""
        place = location & _PLACE_MASK
        for written in reversed(self._written):
            if written.end_offset <= synced_offset:
                return True
            if written.removes if location < 0 else written.start <= place < written.end:
                return False
        return True

    @property
    def end_offset(self) -> int:
        """Return the offset that makes everything durable."""
        return self._written[-1].end_offset if self._written else DURABLE


# Lookups by key: all that wait in the same turn of the loop are answered by one probe.

# Fewer keys are found sooner one by one.
SCALAR_KEYS_MAX = 128
# More keys are looked up in a thread, so that nobody else has to wait for them.
LOOP_KEYS_MAX = 16_384
# Lookups whose rows take more together are answered one after the other.
LOOP_BYTES_MAX = 16 << 20
PREFIXES_PER_TURN = 16
_MISSING: tuple[int, bytes | None] = (ABSENT, None)


@dataclass(frozen=True, slots=True, eq=False)
class HeldValues:
    """Hold the values of many keys in one buffer; that of a missing key is empty.

    There are free bytes before each value and at the start of the buffer.
    """

    values: RowBytes
    is_held: npt.NDArray[np.bool_]


Values = list[bytes | None] | HeldValues


@dataclass(slots=True)
class Room:
    """Say how many bytes of rows an answer may take, in all its buckets together."""

    bytes_max: int
    taken_bytes: int = 0

    @property
    def left_bytes(self) -> int:
        """Return how many bytes are left."""
        return self.bytes_max - self.taken_bytes

    def take(self, size: int) -> None:
        """Use up room, or refuse rows for which there is none."""
        if size > self.left_bytes:
            raise RecordTooLargeError(
                f"The rows take more than {self.bytes_max} bytes.",
                hint="Ask for fewer keys at a time.",
            )
        self.taken_bytes += size


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    keys: Sequence[bytes]
    room: Room
    answer: "asyncio.Future[tuple[Values, int]]"


class Lookups:
    """Gather lookups and answer them together, without waiting for more to come."""

    def __init__(
        self, state: KvState, unsynced: Unsynced, *, table: KeyedTable, log: LogTablet
    ) -> None:
        self._state = state
        self._table = table
        self._unsynced = unsynced
        self._log = log
        self._waiting: list[_Waiting] = []

    def values_now(self, keys: Sequence[bytes], *, bytes_max: int) -> list[bytes | None] | None:
        """Return the value of each key if all are durable and take no more bytes than allowed."""
        synced_offset, values = self._log.high_watermark, list[bytes | None]()
        for key in keys:
            location, value = self._state.find_one(key) or _MISSING
            if not self._unsynced.shows(location, synced_offset=synced_offset):
                return None
            if value is not None:
                bytes_max -= len(value)
            values.append(value)
        return values if bytes_max >= 0 else None

    async def lookup(self, keys: Sequence[bytes], room: Room) -> Values:
        """Return the value of each key, once it is durable."""
        if len(keys) > LOOP_KEYS_MAX:
            return await self._lookup_aside(keys, room)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._answer)
        waiting = _Waiting(keys, room, loop.create_future())
        self._waiting.append(waiting)
        values, offset = await waiting.answer
        await self._durable(offset)
        return values

    async def _lookup_aside(self, keys: Sequence[bytes], room: Room) -> Values:
        """Look many keys up in a thread, during which nothing may change."""
        async with self._log.turn:
            self._refuse_if_released()
            found = await self._log.alone(lambda: self._found(keys, room))
        await self._durable(self._unsynced.offset_for(found.locations))
        return HeldValues(_spread(values_of(found.records), found.locations), found.is_held)

    def _found(self, keys: Sequence[bytes], room: Room) -> FoundKeys:
        found = self._state.find(RowBytes.of(keys), bytes_max=room.left_bytes)
        room.take(int(found.records.lengths.sum()))
        return found

    async def prefix_lookup(self, prefixes: Sequence[bytes], room: Room) -> list[list[bytes]]:
        """Return for each prefix the values of the keys that begin with it, in key order."""
        found = []
        async for prefix in in_turns(prefixes, per_turn=PREFIXES_PER_TURN):
            self._refuse_if_released()
            is_indexed = self._table.is_indexed(prefix)
            look = partial(
                self._state.find_prefix, prefix, is_indexed=is_indexed, bytes_max=room.left_bytes
            )
            if is_indexed:
                found.append(look())
            else:
                # All rows have to be looked at, which takes long.
                async with self._log.turn:
                    self._refuse_if_released()
                    found.append(await self._log.alone(look))
            room.take(int(found[-1].records.lengths.sum()))
        # A key that is gone leaves no trace here, so removals count for all.
        absent = np.array([ABSENT], np.int64)
        locations = np.concatenate([absent, *(each.locations for each in found)])
        values = [values_of(each.records).to_list() for each in found]
        await self._durable(self._unsynced.offset_for(locations))
        return values

    async def _durable(self, offset: int) -> None:
        if offset != DURABLE:
            await self._log.acknowledge(offset, acks=ACKS_DURABLE)

    def _answer(self) -> None:
        waiting, self._waiting = self._next_waiting()
        if self._waiting:  # They have been waiting for their turn, as others have for theirs.
            asyncio.get_running_loop().call_soon(self._answer)
        try:
            self._answer_all([each for each in waiting if not each.answer.done()])
        except Exception as cause:  # noqa: BLE001 - handed to everybody who waits
            for each in waiting:
                if not each.answer.done():
                    each.answer.set_exception(cause)

    def _next_waiting(self) -> tuple[list[_Waiting], list[_Waiting]]:
        """Split those who wait into whom to answer now and whom in the next turn."""
        key_count = 0
        for count, each in enumerate(self._waiting):
            key_count += len(each.keys)
            if key_count > LOOP_KEYS_MAX:
                return self._waiting[:count], self._waiting[count:]
        return self._waiting, []

    def _refuse_if_released(self) -> None:
        if self._state.is_released:
            raise BucketMissingError("The bucket was dropped meanwhile.")

    def _answer_all(self, waiting: list[_Waiting]) -> None:
        self._refuse_if_released()
        if sum(len(each.keys) for each in waiting) <= SCALAR_KEYS_MAX:
            for each in waiting:
                self._answer_few(each)
            return
        try:
            self._answer_together(waiting)
        except RecordTooLargeError:
            for each in waiting:
                self._answer_alone(each)

    def _answer_alone(self, waiting: _Waiting) -> None:
        try:
            found = self._found(waiting.keys, waiting.room)
        except RecordTooLargeError as fault:
            waiting.answer.set_exception(fault)
            return
        values = _spread(values_of(found.records), found.locations)
        offset = self._unsynced.offset_for(found.locations)
        waiting.answer.set_result((HeldValues(values, found.is_held), offset))

    def _answer_together(self, waiting: list[_Waiting]) -> None:
        keys = RowBytes.of([key for each in waiting for key in each.keys])
        bytes_max = min([LOOP_BYTES_MAX, *(each.room.left_bytes for each in waiting)])
        found = self._state.find(keys, bytes_max=bytes_max)
        values = _spread(values_of(found.records), found.locations)
        start = 0
        for each in waiting:
            end = start + len(each.keys)
            offset = self._unsynced.offset_for(found.locations[start:end])
            part = RowBytes(values.data, values.starts[start:end], values.ends[start:end])
            held = HeldValues(part, found.is_held[start:end])
            each.room.take(int(part.lengths.sum()))
            each.answer.set_result((held, offset))
            start = end

    def _answer_few(self, waiting: _Waiting) -> None:
        try:
            waiting.answer.set_result(self._one_by_one(waiting.keys, waiting.room))
        except RecordTooLargeError as fault:
            waiting.answer.set_exception(fault)

    def _one_by_one(self, keys: Sequence[bytes], room: Room) -> tuple[Values, int]:
        found: list[tuple[int, bytes] | None] = []
        for key in keys:
            one = self._state.find_one(key)
            if one is not None:
                room.take(len(one[1]))
            found.append(one)
        values: Values = [each and each[1] for each in found]
        if self._unsynced.end_offset == DURABLE:
            return values, DURABLE
        locations = np.array([each[0] if each else ABSENT for each in found], np.int64)
        return values, self._unsynced.offset_for(locations)


def _spread(values: RowBytes, locations: Locations) -> RowBytes:
    """Put an empty value where there is none."""
    held = locations >= 0
    if held.all():
        return values
    starts, ends = np.zeros(len(held), np.int64), np.zeros(len(held), np.int64)
    starts[held], ends[held] = values.starts, values.ends
    return RowBytes(values.data, starts, ends)


# All rows of a bucket as they were at one log offset, a piece at a time.

ROWS_MAX = 10_000


class StateScan:
    """Read rows in the order in which they lie; later changes are not seen."""

    def __init__(self, view: HeapView, locations: Locations, offset: int) -> None:
        self.offset = offset
        self._view = view
        self._locations = locations
        self._position = 0

    def __len__(self) -> int:
        return len(self._locations)

    @property
    def is_done(self) -> bool:
        """Tell whether all rows were read."""
        return self._position >= len(self._locations)

    def read(self, bytes_max: int) -> RowBytes:
        """Return the next values, as many as fit but at least one."""
        ahead = self._locations[self._position : self._position + ROWS_MAX]
        # Lengths include keys, so that a little less than allowed is returned.
        sizes = self._view.lengths(ahead) + LENGTH_BYTES + SCHEMA_ID_BYTES
        count = max(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), 1)
        self._position += min(count, len(ahead))
        return values_of(self._view.read(ahead[:count]))
