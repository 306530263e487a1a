"""Copies of a storage that are put in its place while writers, sinks, readers and a tierer go on.

Rows that were written after a copy are lost with the restore, and nobody can help that. Whatever is
answered for from then on is stored, once; who saw more than the copy has is told, never misled.
"""

import asyncio
import shutil
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.aio import connect
from headwater.client.client import AsyncClient
from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.table import AsyncTable
from headwater.cluster.lake import FinishedRound
from headwater.config.client import ClientSettings
from headwater.errors import (
    HeadwaterError,
    LakeAheadError,
    LogDivergedError,
    RetryLaterError,
    TableMissingError,
)
from headwater.lake.lakes import Lakes
from headwater.tiering.plan import Limits
from headwater.tiering.progress import TieringTurn
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner
from tests import figures
from tests.clocks import loop_turns
from tests.lake.formats import config_of, opened
from tests.serving import ServerProcess
from tests.torture.chance import chance

ROUNDS_TORTURE = figures.times(30)
ROUNDS_SHORT = 1
LOG, KEYED, SUNK, SUNK_KEYED = "log", "keyed", "sunk", "sunk_keyed"
BRIEF = "brief"
BRIEF_HANDLES_MAX = 4
ROWS = {"id": "BIGINT", "who": "STRING"}
SETTINGS = ClientSettings(deadline_s=60.0, request_timeout_s=10.0)
WRITERS = 3
STEP_S = 0.05
LEASE_S = 3.0
ATTEMPTS_MAX = 8
READ_WITHIN_S = 90.0
FORMAT = "iceberg"


class Told:
    """Remember of each table which rows the storage has answered for and must hold."""

    def __init__(self) -> None:
        self.rows: dict[str, set[int]] = {name: set() for name in (LOG, KEYED, SUNK, SUNK_KEYED)}
        self.answers = self.unknown = self.diverged = 0

    def copied(self) -> dict[str, set[int]]:
        return {name: set(rows) for name, rows in self.rows.items()}

    def answered(self, table: str, rows: list[dict[str, object]]) -> None:
        self.answers += 1
        self.rows[table].update(int(str(row["id"])) for row in rows)


class Storage:
    """Serve a directory in a process of its own, at one address."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server = ServerProcess(directory)
        self._port = self.server.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def copy(self, target: Path) -> None:
        """Copy the directory at one moment, as a snapshot of its file system would be."""
        self.server.signal(signal.SIGSTOP)
        try:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self.directory, target, ignore=_ignored)
        finally:
            self.server.signal(signal.SIGCONT)

    def restore(self, copy: Path) -> None:
        shutil.rmtree(self.directory)
        shutil.copytree(copy, self.directory)
        self.server = ServerProcess(self.directory, port=self._port)


def _ignored(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".sock")]


class World:
    """Hold the storage, those who use it, and what they were told."""

    def __init__(self, storage: Storage, lakes: Lakes) -> None:
        self.storage = storage
        self.lakes = lakes
        self.told = Told()
        self.delivered: set[int] = set()
        self.is_over = False
        self.tiered_rows = 0
        self.aheads = 0
        # Whoever reads the lake waits until nobody drops tables from it.
        self.lake_turn = asyncio.Lock()
        self._clients: list[AsyncClient] = []
        self._next = 0
        self._tasks: list[asyncio.Task[None]] = []
        # Handles of tables of one name, each made after the one before was dropped.
        self._brief: dict[str, AsyncTable] = {}
        self._reading: asyncio.Task[None] | None = None
        self.all_rows: set[int] | None = None
        """What the reader has to have seen when all others are through."""

    async def client(self) -> AsyncClient:
        client = await connect(self.storage.address, settings=SETTINGS)
        client.cluster.lakes = self.lakes
        self._clients.append(client)
        return client

    async def begin(self) -> None:
        client = await self.client()
        lake = {"table.datalake.enabled": True, "table.datalake.format": FORMAT}
        for name in (LOG, SUNK):
            await client.create_table(name, ROWS, buckets=2, options=lake)
        for name in (KEYED, SUNK_KEYED):
            await client.create_table(name, ROWS, primary_key="id", buckets=2)
        table = await client.table(LOG)
        async with table.cursor("reader", start="earliest"):
            pass
        for name in (SUNK, SUNK_KEYED):
            await (await client.table(name)).write_epoch(self.rows("s", 3), sink="s", epoch=0)
        for number in range(WRITERS):
            self._start(self.write(LOG if number % 2 else KEYED, f"w{number}"))
        self._start(self.write(LOG, "old"))
        self._start(self.make_anew())
        self._start(self.write_late())
        for name in (SUNK, SUNK_KEYED):
            self._start(self.sink(name))
        self._start(self.tier())
        self._reading = asyncio.get_running_loop().create_task(self.read())

    def rows(self, who: str, count: int) -> list[dict[str, object]]:
        self._next += count
        return [{"id": number, "who": who} for number in range(self._next - count, self._next)]

    def _start(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def end(self) -> None:
        self.is_over = True
        await asyncio.gather(*self._tasks)

    async def read_to_the_end(self, rows: set[int]) -> None:
        """Let the reader go on until it has seen all rows, but not for ever."""
        assert self._reading is not None
        self.all_rows = rows
        await asyncio.wait([self._reading], timeout=READ_WITHIN_S)
        missed = sorted(rows - self.delivered)
        assert not missed, f"the cursor has missed {missed[:20]}"

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        for client in self._clients:
            await client.close()

    async def cut_off(self) -> None:
        """Hear everything that the server has said before it was killed."""
        for client in self._clients:
            while client.cluster._pool.reached:
                await loop_turns()

    # ---- who is at work

    async def write(self, name: str, who: str) -> None:
        table = await (await self.client()).table(name)
        while not self.is_over:
            rows = self.rows(who, 3)
            try:
                await (table.upsert(rows) if table.info.is_keyed else table.append(rows))
            except HeadwaterError:
                self.told.unknown += 1
            else:
                self.told.answered(name, rows)
            await loop_turns()

    async def make_anew(self) -> None:
        """Drop a table and make another of its name and columns, again and again."""
        client = await self.client()
        while not self.is_over:
            with suppress(HeadwaterError):
                await client.drop_table(BRIEF)
            with suppress(HeadwaterError):
                made = await client.create_table(BRIEF, ROWS, buckets=1)
                self._brief[f"{BRIEF}{self._next}"] = made
                self._next += 1
            for name in [*self._brief][:-BRIEF_HANDLES_MAX]:
                del self._brief[name]
            await asyncio.sleep(STEP_S)

    async def write_late(self) -> None:
        """Write to tables that may be gone, each time under the name of the handle."""
        while not self.is_over:
            for name, table in [*self._brief.items()]:
                with suppress(HeadwaterError):
                    await table.append(self.rows(name, 1))
            await loop_turns()

    async def sink(self, name: str) -> None:
        table, epoch = await (await self.client()).table(name), 1
        while not self.is_over:
            rows = self.rows("s", 5)
            await self._write_epoch(table, rows, epoch)
            self.told.answered(name, rows)
            epoch += 1

    async def _write_epoch(
        self, table: AsyncTable, rows: list[dict[str, object]], epoch: int
    ) -> None:
        """Try an epoch as an engine does: again from its beginning, but not for ever."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                await table.write_epoch(rows, sink="s", epoch=epoch)
                return
            except LogDivergedError:
                self.told.diverged += 1
            except RetryLaterError:
                self.told.unknown += 1
            await asyncio.sleep(STEP_S * attempt)
        await table.write_epoch(rows, sink="s", epoch=epoch)

    async def read(self) -> None:
        table = await (await self.client()).table(LOG)
        while True:
            try:
                async with table.cursor("reader", commit_interval_s=0.2, lease_s=LEASE_S) as cursor:
                    await self._read_on(cursor)
                return
            except LogDivergedError:
                self.told.diverged += 1
            except HeadwaterError:
                self.told.unknown += 1

    async def _read_on(self, cursor: AsyncCursor) -> None:
        while self.all_rows is None or not self.all_rows <= self.delivered:
            for batch in await cursor.poll(0.5):
                self.delivered.update(batch.rows.column("id").to_pylist())

    async def tier(self) -> None:
        client = await self.client()
        while not self.is_over:
            for name in (LOG, SUNK):
                async with self.lake_turn:
                    with suppress(HeadwaterError):
                        await self.tier_once(client, name)
            await asyncio.sleep(STEP_S)

    async def tier_once(self, client: AsyncClient, name: str) -> None:
        table, limits = await client.table(name), Limits(rows_max=10_000)
        try:
            await self._round(client, table, limits)
        except LakeAheadError:
            # What the hint says: the lake has rows that the storage lost.
            self.aheads += 1
            self.lakes.of(table.info).catalog().drop(table.path)
            await self._round(client, table, Limits(rows_max=10_000, begins_anew=True))

    async def _round(self, client: AsyncClient, table: AsyncTable, limits: Limits) -> None:
        answer = await client.lake.heartbeat(
            request=True, only_tables=[table.path], ignore_freshness=True
        )
        if answer.assigned is None:
            return
        try:
            report = await tier_round(
                TieringTurn(answer.assigned, answer.storage_id),
                client=client,
                runner=LocalRunner(client),
                lakes=self.lakes,
                limits=limits,
            )
            self.tiered_rows += report.row_count
        finally:
            with suppress(HeadwaterError):
                await client.lake.heartbeat(finished=[FinishedRound(assignment=answer.assigned)])


async def check(world: World) -> None:
    """Compare what the storage holds with what it has answered for."""
    client = await connect(world.storage.address, settings=SETTINGS)
    client.cluster.lakes = world.lakes
    for name, rows in world.told.copied().items():
        table = await client.table(name)
        for mode in ("log", "union") if name in (LOG, SUNK) else ("union",):
            found = (await table.scan(mode=mode).to_arrow()).column("id").to_pylist()
            missing = rows - set(found)
            assert not missing, f"{name} lacks {sorted(missing)[:20]} by {mode}"
            assert len(found) == len(set(found)), f"{name} has rows twice by {mode}"
    with suppress(TableMissingError):
        found = await (await client.table(BRIEF)).scan(mode="log").to_arrow()
        handles = set(found.column("who").to_pylist())
        assert len(handles) <= 1, f"{BRIEF} has rows for other tables: {sorted(handles)}"
    await client.close()


async def story(directory: Path, *, rounds: int) -> World:
    luck = chance()
    (directory / "lake").mkdir()
    config = config_of(FORMAT, directory / "lake")
    opened(FORMAT, config)
    world = World(Storage(directory / "data"), Lakes(config=config))
    try:
        await world.begin()
        for _ in range(rounds):
            await asyncio.sleep(luck.uniform(0.1, 0.8))
            world.storage.copy(directory / "copy")
            held = world.told.copied()
            await asyncio.sleep(luck.uniform(0.1, 0.8))
            world.storage.server.kill()
            await world.cut_off()
            world.told.rows = held
            world.storage.restore(directory / "copy")
            await asyncio.sleep(luck.uniform(0.1, 0.8))
            async with world.lake_turn:
                await check(world)
        await world.end()
        await check(world)
        final = await connect(world.storage.address, settings=SETTINGS)
        found = (await (await final.table(LOG)).scan(mode="log").to_arrow()).column("id")
        await final.close()
        await world.read_to_the_end(set(found.to_pylist()))
    finally:
        world.is_over = True
        await world.close()
        world.storage.server.stop()
    return world


def tell(world: World, *, rounds: int) -> None:
    told = world.told
    figures.note(
        "restores",
        rounds=rounds,
        answers=told.answers,
        unknown=told.unknown,
        diverged=told.diverged,
        tiered=world.tiered_rows,
        lakes_ahead=world.aheads,
    )


@pytest.mark.timeout(240)
def test_a_restore_under_living_clients_loses_nothing_that_came_after_it(tmp_path):
    world = asyncio.run(story(tmp_path, rounds=ROUNDS_SHORT))

    assert world.told.answers


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_restores_under_living_clients_lose_nothing_that_came_after_them(tmp_path):
    world = asyncio.run(story(tmp_path, rounds=ROUNDS_TORTURE))

    assert world.told.answers
    assert world.told.diverged
    tell(world, rounds=ROUNDS_TORTURE)
