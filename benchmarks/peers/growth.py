"""What a row costs as tables grow: in buckets, and in rows."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.peers.own_client import OwnClient
from benchmarks.peers.peer import Server
from benchmarks.peers.work import BUCKETS

BUCKET_COUNTS = (1, 10, 100)
ROW_COUNTS = (1_000_000, 10_000_000, 100_000_000)
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
