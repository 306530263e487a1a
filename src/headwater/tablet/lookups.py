"""Lookups by key: all that wait in the same turn of the loop are answered by one probe."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from headwater.kv.location import ABSENT, Locations
from headwater.kv.state import KvState
from headwater.kv.values import values_of
from headwater.rows.row_bytes import RowBytes
from headwater.tablet.keyed_table import KeyedTable
from headwater.tablet.log_tablet import ACKS_DURABLE, LogTablet
from headwater.tablet.unsynced import DURABLE, Unsynced

# Fewer keys are found sooner one by one.
SCALAR_KEYS_MAX = 128
# More keys are looked up in a thread, so that nobody else has to wait for them.
LOOP_KEYS_MAX = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class HeldValues:
    """Hold the values of many keys in one buffer; that of a missing key is empty.

    There are free bytes before each value and at the start of the buffer.
    """

    values: RowBytes
    is_held: npt.NDArray[np.bool_]


Values = list[bytes | None] | HeldValues


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    keys: Sequence[bytes]
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

    async def lookup(self, keys: Sequence[bytes]) -> Values:
        """Return the value of each key, once it is durable."""
        if len(keys) > LOOP_KEYS_MAX:
            return await self._lookup_aside(keys)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._answer)
        waiting = _Waiting(keys, loop.create_future())
        self._waiting.append(waiting)
        values, offset = await waiting.answer
        await self._durable(offset)
        return values

    async def _lookup_aside(self, keys: Sequence[bytes]) -> Values:
        """Look many keys up in a thread, during which nothing may change."""
        async with self._log.turn:
            found = await self._log.alone(lambda: self._state.find(RowBytes.of(keys)))
        await self._durable(self._unsynced.offset_for(found.locations))
        return HeldValues(_spread(values_of(found.records), found.locations), found.is_held)

    async def prefix_lookup(self, prefixes: Sequence[bytes]) -> list[list[bytes]]:
        """Return for each prefix the values of the keys that begin with it, in key order."""
        found = []
        for prefix in prefixes:
            if self._table.is_indexed(prefix):
                found.append(self._state.find_prefix(prefix, is_indexed=True))
                continue
            # All rows have to be looked at, which takes long.
            async with self._log.turn:
                look = partial(self._state.find_prefix, prefix, is_indexed=False)
                found.append(await self._log.alone(look))
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
        waiting, self._waiting = self._waiting, []
        try:
            self._answer_all([each for each in waiting if not each.answer.done()])
        except Exception as cause:  # noqa: BLE001 - handed to everybody who waits
            for each in waiting:
                if not each.answer.done():
                    each.answer.set_exception(cause)

    def _answer_all(self, waiting: list[_Waiting]) -> None:
        if sum(len(each.keys) for each in waiting) <= SCALAR_KEYS_MAX:
            for each in waiting:
                each.answer.set_result(self._one_by_one(each.keys))
            return
        keys = RowBytes.of([key for each in waiting for key in each.keys])
        found = self._state.find(keys)
        values = _spread(values_of(found.records), found.locations)
        start = 0
        for each in waiting:
            end = start + len(each.keys)
            offset = self._unsynced.offset_for(found.locations[start:end])
            part = RowBytes(values.data, values.starts[start:end], values.ends[start:end])
            held = HeldValues(part, found.is_held[start:end])
            each.answer.set_result((held, offset))
            start = end

    def _one_by_one(self, keys: Sequence[bytes]) -> tuple[Values, int]:
        found = [self._state.find_one(key) for key in keys]
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
