"""Lookups by key: all that wait in the same turn of the loop are answered by one probe."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from headwater.errors import BucketMissingError, RecordTooLargeError
from headwater.kv.location import ABSENT, Locations
from headwater.kv.state import Found, KvState
from headwater.kv.values import values_of
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.turns import in_turns
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import ACKS_DURABLE, LogTablet
from headwater.tablet.unsynced import DURABLE, Unsynced

# Fewer keys are found sooner one by one.
SCALAR_KEYS_MAX = 128
# More keys are looked up in a thread, so that nobody else has to wait for them.
LOOP_KEYS_MAX = 16_384
# Lookups whose rows take more together are answered one after the other.
LOOP_BYTES_MAX = 16 << 20
PREFIXES_PER_TURN = 16


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

    def _found(self, keys: Sequence[bytes], room: Room) -> Found:
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
