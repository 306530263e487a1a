"""What a row costs as tables grow: in buckets, and in rows."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.peers.own_client import OwnClient
from benchmarks.peers.peer import Server
from benchmarks.peers.work import BUCKETS, KEY, batches
from benchmarks.rows import NARROW

BUCKET_COUNTS = (1, 10, 100)
ROW_COUNTS = (1_000_000, 10_000_000, 100_000_000)
KEYS_MAX = 10_000_000
LOOKED_UP = 100
LOOKUPS = 200
ROWS_PER_TURN = 1_000_000
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Say what a row took at one size: in all, and of the server's processor."""

    what: str
    size: int
    wall_us: float
    server_us: float
    client_us: float


class Growth:
    """Fill one server with ever more, through our own client."""

    def __init__(self, server: Server, tell: Callable[[str], None]) -> None:
        self._server = server
        self._client = OwnClient(server)
        self._tell = tell
        self.costs: list[Cost] = []

    async def run(self, *, rows_max: int) -> None:
        """Measure all sizes up to so many rows."""
        await self._client.open()
        for number in range(ROUNDS):
            for buckets in BUCKET_COUNTS:
                await self._with_buckets(buckets, number)
        await self._with_rows([count for count in ROW_COUNTS if count <= rows_max])
        await self._with_keys([count for count in ROW_COUNTS if count <= min(rows_max, KEYS_MAX)])
        await self._client.close()

    async def _with_buckets(self, buckets: int, number: int) -> None:
        name = f"buckets_{buckets}_{number}"
        await self._client.new_log(name, buckets=buckets)
        if number == 0:  # the first time all is warmed up
            await self._client.append(name, ROWS_PER_TURN)
            return
        clock = _Clock(self._server)
        await self._client.append(name, ROWS_PER_TURN)
        self.costs.append(clock.cost("append, by buckets", buckets, ROWS_PER_TURN))
        clock = _Clock(self._server)
        await self._client.scan(name, ROWS_PER_TURN)
        self.costs.append(clock.cost("scan, by buckets", buckets, ROWS_PER_TURN))

    async def _with_rows(self, counts: Sequence[int]) -> None:
        await self._client.new_log("rows", buckets=BUCKETS)
        held = 0
        for count in counts:
            while held < count - ROWS_PER_TURN:
                await self._client.append("rows", ROWS_PER_TURN)
                held += ROWS_PER_TURN
            clock = _Clock(self._server)
            await self._client.append("rows", ROWS_PER_TURN)
            held += ROWS_PER_TURN
            self.costs.append(clock.cost("append of the last million", held, ROWS_PER_TURN))
            await self._read_all(held)
            self._tell(f"{held // 1_000_000} million rows")

    async def _with_keys(self, counts: Sequence[int]) -> None:
        await self._client.new_keyed("keys", buckets=BUCKETS)
        held = 0
        for count in counts:
            while held < count:
                clock = _Clock(self._server)
                await self._upsert(held)
                held += ROWS_PER_TURN
            self.costs.append(clock.cost("upsert of the last million keys", held, ROWS_PER_TURN))
            await self._look_up(held)
            self._tell(f"{held // 1_000_000} million keys")

    async def _upsert(self, first: int) -> None:
        """Upsert the next million keys, in an order by chance."""
        keys = np.random.default_rng(first).permutation(ROWS_PER_TURN) + first
        place = NARROW.get_field_index(KEY)
        async with self._client.table("keys").writer() as writer:
            for number, batch in enumerate(batches(ROWS_PER_TURN)):
                some = keys[number * batch.num_rows : (number + 1) * batch.num_rows]
                await writer.write(batch.set_column(place, NARROW.field(KEY), pa.array(some)))

    async def _look_up(self, held: int) -> None:
        chosen = np.random.default_rng(held).integers(0, held, (LOOKUPS, LOOKED_UP))
        clock = _Clock(self._server)
        for keys in chosen:
            asked = pa.table({KEY: pa.array(keys)})
            assert (await self._client.table("keys").lookup(asked)).num_rows == LOOKED_UP
        cost = clock.cost(f"lookup of {LOOKED_UP} keys", held, LOOKUPS * LOOKED_UP)
        self.costs.append(cost)

    async def _read_all(self, held: int) -> None:
        clock, seen = _Clock(self._server), 0
        async for batch in self._client.table("rows").scan():
            seen += batch.num_rows
        assert seen == held, f"{seen} of {held} rows"
        self.costs.append(clock.cost("scan of all rows", held, held))


class _Clock:
    """Note when something began."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu_s, self._client_s = server.cpu_s, time.process_time()
        self._began = time.perf_counter()

    def cost(self, what: str, size: int, rows: int) -> Cost:
        """Return what each row took since then."""
        wall = time.perf_counter() - self._began
        return Cost(
            what,
            size,
            wall / rows * 1e6,
            (self._server.cpu_s - self._cpu_s) / rows * 1e6,
            (time.process_time() - self._client_s) / rows * 1e6,
        )


def rows_of(costs: Iterable[Cost]) -> list[tuple[str, int, float, float, float]]:
    """Return the best of each size: others on the machine only ever make it slower."""
    best: dict[tuple[str, int], Cost] = {}
    for each in costs:
        known = best.get((each.what, each.size))
        if known is None or each.wall_us < known.wall_us:
            best[each.what, each.size] = each
    return [
        (each.what, each.size, each.wall_us, each.server_us, each.client_us)
        for each in best.values()
    ]
