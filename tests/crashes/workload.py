"""What a storage goes through before it crashes: every kind of table, and every chore."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from headwater.client.client import AsyncClient
from headwater.client.writing.receipts import Receipt
from headwater.errors import HeadwaterError
from tests.crashes.storage import Storage

HOUR_MS = 3_600_000
EVENTS, DAYS, USERS = "events", "days", "users"
EVENTS_AT, USERS_AT = "1/0", "3/0"
FIRST_DAY, SECOND_DAY = "2/p1/0", "2/p2/0"
TTL = {"table.log.ttl": "1 h"}
WIDE = "x" * 120

Rows = Mapping[int, str]


@dataclass(slots=True)
class Promise:
    """Hold what was said of one bucket: where rows were put, and up to where they are durable."""

    written: dict[int, str] = field(default_factory=dict)
    """Values of a log table by offset."""
    states: dict[int, Rows] = field(default_factory=lambda: {0: {}})
    """Rows of a primary-key table by the end offset of the write that led to them."""
    acked_end: int = 0
    start_offsets: set[int] = field(default_factory=lambda: {0})
    is_dropped: bool = False


class Workload:
    """Drive a storage step by step, and note what it promises."""

    def __init__(self, storage: Storage, *, acked: Callable[[str], None]) -> None:
        self.storage = storage
        self.promises = {at: Promise() for at in (EVENTS_AT, FIRST_DAY, SECOND_DAY, USERS_AT)}
        self.failures: list[Exception] = []
        self._acked = acked
        self._number = 0

    async def create(self) -> None:
        """Create the tables, in the order of their ids."""
        client = self.storage.client
        columns = {"id": "INT", "text": "STRING"}
        await client.create_table(EVENTS, columns, buckets=1, options=TTL)
        days = {**columns, "day": "STRING"}
        await client.create_table(DAYS, days, buckets=1, partition_by="day")
        await client.create_table(USERS, columns, buckets=1, primary_key="id", options=TTL)

    def steps(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Return what is done, in order; each step may fail for itself."""
        return (
            self.append,
            self.upsert,
            lambda: self.append(waits=False),
            lambda: self.upsert(waits=False),
            lambda: self.append(waits=False, rows=3),
            self.delete,
            self.append,
            lambda: self.append_day("one", FIRST_DAY),
            lambda: self.upsert(waits=False, text=WIDE),
            lambda: self.upsert(waits=False),
            lambda: self.upsert(text=WIDE),
            self.tend,
            self.save,
            lambda: self.append_day("two", SECOND_DAY),
            lambda: self.append(rows=4, text=WIDE),
            lambda: self.append(waits=False, text=WIDE),
            lambda: self.upsert(text=WIDE),
            self.tend,
            lambda: self.upsert(waits=False),
            lambda: self.append(rows=4, text=WIDE),
            lambda: self.drop_day("one", FIRST_DAY),
            self.save,
            lambda: self.upsert(waits=False, text=WIDE),
            self.expire,
            lambda: self.append(waits=False),
            lambda: self.append_day("two", SECOND_DAY),
            self.upsert,
            self.append,
            self.tend,
            self.save,
            lambda: self.upsert(waits=False),
            lambda: self.append(waits=False),
        )

    async def run(self) -> AsyncIterator[int]:
        """Take all steps, whatever becomes of each, and stop after each for a look."""
        for number, step in enumerate(self.steps()):
            try:
                await step()
            except (HeadwaterError, OSError) as failure:
                self.failures.append(failure)
            yield number

    # ---- writing

    async def append(self, *, waits: bool = True, rows: int = 2, text: str = "") -> None:
        """Append rows to the log table."""
        table = await self._client(waits).table(EVENTS)
        values = [self._next(text) for _ in range(rows)]
        receipt = await table.append([{"id": 0, "text": value} for value in values])
        self._note(EVENTS_AT, values, receipt, waits=waits)

    async def append_day(self, day: str, at: str) -> None:
        """Append rows to a partition, which is created first where it is missing."""
        table = await self.storage.client.table(DAYS)
        await table.create_partition({"day": day}, exists_ok=True)
        values = [self._next(day) for _ in range(2)]
        receipt = await table.append([{"id": 0, "text": each, "day": day} for each in values])
        self._note(at, values, receipt, waits=True)

    async def upsert(self, *, waits: bool = True, text: str = "") -> None:
        """Put rows of some keys, new and old."""
        table = await self._client(waits).table(USERS)
        value = self._next(text)
        changed = {self._number % 5: value, self._number % 3 + 4: value}
        rows = [{"id": key, "text": each} for key, each in changed.items()]
        self._put(changed, await table.upsert(rows), waits=waits)

    async def delete(self) -> None:
        """Delete a row."""
        table = await self.storage.client.table(USERS)
        held = self._rows()
        key = min(held, default=0)
        receipt = await table.delete([{"id": key}])
        self._put({key: None}, receipt, waits=True)

    # ---- chores

    async def tend(self) -> None:
        await self.storage.server.upkeep.tend_states()

    async def save(self) -> None:
        await self.storage.server.upkeep.save_states()

    async def expire(self) -> None:
        """Let old segments go."""
        self.storage.clock.milliseconds += 2 * HOUR_MS
        for bucket, tablet in self.storage.server.tablets.all_open():
            if at := {1: EVENTS_AT, 3: USERS_AT}.get(bucket.table_id):
                # Wherever a segment begins that is sealed, or is sealed now.
                spans = tablet.log.spans
                starts = {each.base_offset for each in spans} | {spans[-1].end_offset}
                self.promises[at].start_offsets |= starts
        await self.storage.server.upkeep.expire_rows()

    async def drop_day(self, day: str, at: str) -> None:
        self.promises[at].is_dropped = True
        table = await self.storage.client.table(DAYS)
        await table.drop_partition({"day": day})

    # ---- what was promised

    def _client(self, waits: bool) -> AsyncClient:
        return self.storage.client if waits else self.storage.hurried

    def _next(self, text: str) -> str:
        self._number += 1
        return f"{self._number}/{text}"

    def _rows(self) -> Rows:
        states = self.promises[USERS_AT].states
        return states[max(states)]

    def _note(self, at: str, values: list[str], receipt: Receipt, *, waits: bool) -> None:
        (bucket,) = receipt.buckets
        base = bucket.end_offset - bucket.rows
        promise = self.promises[at]
        promise.written |= {base + number: value for number, value in enumerate(values)}
        self._promise(at, bucket.end_offset, waits=waits)

    def _put(self, changed: Mapping[int, str | None], receipt: Receipt, *, waits: bool) -> None:
        (bucket,) = receipt.buckets
        rows = {key: value for key, value in {**self._rows(), **changed}.items() if value}
        self.promises[USERS_AT].states[bucket.end_offset] = rows
        self._promise(USERS_AT, bucket.end_offset, waits=waits)

    def _promise(self, at: str, end: int, *, waits: bool) -> None:
        if waits:
            # What was written before it lies before it, and is durable with it.
            self.promises[at].acked_end = max(self.promises[at].acked_end, end)
            self._acked(at)
