"""What a storage goes through before it crashes: every kind of table, and every chore."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from headwater.client.client import AsyncClient
from headwater.errors import HeadwaterError
from headwater.write.receipts import Receipt
from tests.crashes.storage import Storage

HOUR_MS = 3_600_000
EVENTS, DAYS, USERS = "events", "days", "users"
EVENTS_AT, USERS_AT = "1/0", "3/0"
FIRST_DAY, SECOND_DAY = "2/p1/0", "2/p2/0"
TTL = {"table.log.ttl": "1 h"}
WIDE = "x" * 120
STEP_S_MAX = 20

Rows = Mapping[int, str]
Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Put:
    """Hold what was asked of a primary-key table, and where the log ended after it, if known."""

    changed: Mapping[int, str | None]
    end_offset: int | None


@dataclass(slots=True)
class Promise:
    """Hold what was said of one bucket: where rows were put, and up to where they are durable."""

    written: dict[int, str] = field(default_factory=dict)
    """Values of a log table by offset."""
    states: dict[int, Rows] = field(default_factory=lambda: {0: {}})
    """Rows of a primary-key table by the end offset of the write that led to them."""
    sent: set[str] = field(default_factory=set)
    """Values of a log table that may be there, acked or not."""
    puts: list[Put] = field(default_factory=list)
    """What may have happened to a primary-key table, in order."""
    failures: list[Exception] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Values of a log table that were read."""
    acked_end: int = 0
    start_offsets: set[int] = field(default_factory=lambda: {0})
    is_dropped: bool = False


class Workload:
    """Drive a storage step by step, and note what it promises."""

    def __init__(
        self, storage: Storage, *, acked: Callable[[str], None], first_number: int = 0
    ) -> None:
        self.storage = storage
        self.expires = True
        self.promises = {at: Promise() for at in (EVENTS_AT, FIRST_DAY, SECOND_DAY, USERS_AT)}
        self._acked = acked
        self._number = first_number

    async def create(self) -> None:
        """Create the tables, in the order of their ids."""
        client = self.storage.client
        columns = {"id": "INT", "text": "STRING"}
        await client.create_table(EVENTS, columns, buckets=1, options=TTL)
        days = {**columns, "day": "STRING"}
        await client.create_table(DAYS, days, buckets=1, partition_by="day")
        await client.create_table(USERS, columns, buckets=1, primary_key="id", options=TTL)

    def steps(self) -> tuple[Step, ...]:
        """Return what is done, in order; each step may fail for itself."""
        return (
            self.append,
            self.upsert,
            self.look,
            lambda: self.append(waits=False),
            lambda: self.upsert(waits=False),
            lambda: self.append(waits=False, rows=3),
            self.delete,
            self.append,
            self.append_first_day,
            lambda: self.upsert(waits=False, text=WIDE),
            lambda: self.upsert(waits=False),
            lambda: self.upsert(text=WIDE),
            self.tend,
            self.save,
            self.look,
            self.append_second_day,
            lambda: self.append(rows=4, text=WIDE),
            lambda: self.append(waits=False, text=WIDE),
            lambda: self.upsert(text=WIDE),
            self.tend,
            lambda: self.upsert(waits=False),
            lambda: self.append(rows=4, text=WIDE),
            self.drop_first_day,
            self.save,
            lambda: self.upsert(waits=False, text=WIDE),
            self.expire,
            lambda: self.append(waits=False),
            self.append_second_day,
            self.upsert,
            self.append,
            self.tend,
            self.save,
            self.look,
            lambda: self.upsert(waits=False),
            lambda: self.append(waits=False),
        )

    async def run(self, seed: int | None = None) -> AsyncIterator[int]:
        """Take all steps, whatever becomes of each; none may take for ever."""
        for number, step in enumerate(self._ordered(seed)):
            async with asyncio.timeout(STEP_S_MAX):
                await step()
            yield number

    def _ordered(self, seed: int | None) -> list[Step]:
        """Return the steps in an order of chance, if wanted; partitions get their ids in turn."""
        steps = list(self.steps())
        if seed is None:
            return steps
        fixed = (self.append_first_day, self.append_second_day, self.drop_first_day)
        movable = [at for at, step in enumerate(steps) if step not in fixed]
        shuffled = Random(seed).sample(movable, len(movable))
        for at, step in zip(movable, [steps[each] for each in shuffled], strict=True):
            steps[at] = step
        return steps

    @property
    def failures(self) -> list[Exception]:
        """Return what failed, wherever that was."""
        return [failure for each in self.promises.values() for failure in each.failures]

    # ---- writing

    async def append(self, *, waits: bool = True, rows: int = 2, text: str = "") -> None:
        """Append rows to the log table."""
        values = [self._next(text) for _ in range(rows)]
        self.promises[EVENTS_AT].sent |= {*values}
        with self._noting(EVENTS_AT):
            table = await self._client(waits).table(EVENTS)
            receipt = await table.append([{"id": 0, "text": value} for value in values])
            self._note(EVENTS_AT, values, receipt, waits=waits)

    async def append_first_day(self) -> None:
        await self.append_day("one", FIRST_DAY)

    async def append_second_day(self) -> None:
        await self.append_day("two", SECOND_DAY)

    async def append_day(self, day: str, at: str) -> None:
        """Append rows to a partition, which is created first where it is missing."""
        values = [self._next(day) for _ in range(2)]
        self.promises[at].sent |= {*values}
        with self._noting(at):
            table = await self.storage.client.table(DAYS)
            await table.create_partition({"day": day}, exists_ok=True)
            receipt = await table.append([{"id": 0, "text": each, "day": day} for each in values])
            self._note(at, values, receipt, waits=True)

    async def upsert(self, *, waits: bool = True, text: str = "") -> None:
        """Put rows of some keys, new and old."""
        value = self._next(text)
        changed = {self._number % 5: value, self._number % 3 + 4: value}
        rows = [{"id": key, "text": each} for key, each in changed.items()]
        with self._putting(changed):
            table = await self._client(waits).table(USERS)
            self._put(changed, await table.upsert(rows), waits=waits)

    async def delete(self) -> None:
        """Delete a row."""
        key = min(self._rows(), default=0)
        with self._putting({key: None}):
            table = await self.storage.client.table(USERS)
            self._put({key: None}, await table.delete([{"id": key}]), waits=True)

    # ---- reading

    async def look(self) -> None:
        """Read all there is; what was read can never vanish."""
        with self._noting(EVENTS_AT):
            table = await self.storage.client.table(EVENTS)
            found = [str(row["text"]) for row in await table.scan().to_pylist()]
            assert len({*found}) == len(found)
            self.promises[EVENTS_AT].seen |= {*found}
        with self._noting(USERS_AT):
            users = await self.storage.client.table(USERS)
            scanned = {row["id"]: row["text"] for row in await users.scan().to_pylist()}
            keys = [{"id": key} for key in range(10)]
            looked_up = {row["id"]: row["text"] for row in (await users.lookup(keys)).to_pylist()}
            assert scanned == looked_up

    # ---- chores

    async def tend(self) -> None:
        """Spill, compact and expire."""
        await self.storage.server.upkeep.tend_states()

    async def save(self) -> None:
        """Take snapshots."""
        await self.storage.server.upkeep.save_states()

    async def expire(self) -> None:
        """Let old segments go."""
        if not self.expires:
            return
        self.storage.clock.milliseconds += 2 * HOUR_MS
        for bucket, tablet in self.storage.server.tablets.all_open():
            if at := {1: EVENTS_AT, 3: USERS_AT}.get(bucket.table_id):
                # Wherever a segment begins that is sealed, or is sealed now.
                spans = tablet.log.spans
                starts = {each.base_offset for each in spans} | {spans[-1].end_offset}
                self.promises[at].start_offsets |= starts
        await self.storage.server.upkeep.expire_rows()

    async def drop_first_day(self) -> None:
        self.promises[FIRST_DAY].is_dropped = True
        with self._noting(FIRST_DAY):
            table = await self.storage.client.table(DAYS)
            await table.drop_partition({"day": "one"}, missing_ok=True)

    # ---- what was promised

    @contextmanager
    def _noting(self, at: str) -> Iterator[None]:
        """Note what fails, and go on."""
        try:
            yield
        except (HeadwaterError, OSError) as failure:
            self.promises[at].failures.append(failure)

    @contextmanager
    def _putting(self, changed: Mapping[int, str | None]) -> Iterator[None]:
        with self._noting(USERS_AT):
            try:
                yield
            except BaseException:
                self.promises[USERS_AT].puts.append(Put(changed, None))
                raise

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
        promise = self.promises[USERS_AT]
        promise.states[bucket.end_offset] = rows
        promise.puts.append(Put(changed, bucket.end_offset))
        self._promise(USERS_AT, bucket.end_offset, waits=waits)

    def _promise(self, at: str, end: int, *, waits: bool) -> None:
        if waits:
            # What was written before it lies before it, and is durable with it.
            self.promises[at].acked_end = max(self.promises[at].acked_end, end)
            self._acked(at)
