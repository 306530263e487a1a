"""What must be true at the end of a run, when all is healed and quiet."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

from headwater.client.client import AsyncClient
from headwater.client.table import AsyncTable
from headwater.config.client import ClientSettings
from headwater.lake.lakes import lake_spec
from headwater.read.log_scan import LogScan
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType
from headwater.testing.key_checker import check_keys
from headwater.testing.log_checker import check_log
from tests.lake.plain_table import PlainTable
from tests.simulation.actors.auditor import audit_once
from tests.simulation.actors.readers import (
    GONE,
    acknowledged,
    check_rows,
    note_reads,
    scan_keys_once,
)
from tests.simulation.commits import faults_of
from tests.simulation.world import ACCOUNTS, EVENTS, World

FINAL = "final"
# Of some two hundred rows a round takes ten, with threads that are slow; and a table that could not
# be tiered again and again rests for ten minutes.
TIERED_WITHIN_S = 1800.0
T = TypeVar("T")


async def check(world: World) -> None:
    """Check everything with a client of its own, which has patience."""
    client = await world.connect(ClientSettings())
    events, accounts = await client.table(EVENTS), await client.table(ACCOUNTS)
    await check_events(world, events)
    await check_accounts(world, accounts)
    if world.plan.has_lake:
        for table in (events, accounts):
            await check_lake(world, client, table)
    await audit_once(world, client, FINAL, deep=True, is_calm=True)
    world.violations += map(str, check_log(world.log, final_reader=FINAL))
    world.violations += map(str, check_keys(world.keys))


async def until_tiered(world: World) -> None:
    """Wait until the lake holds all that the logs hold, which must be soon."""
    client = await world.connect(ClientSettings())
    until_s = world.loop.time() + TIERED_WITHIN_S
    for name in (EVENTS, ACCOUNTS):
        table = await client.table(name)
        ends = {place.bucket: end for place, end in (await table.offsets("latest")).items() if end}
        # Whatever went wrong before may also be why nothing is tiered.
        while not world.violations and (held := _lake_ends(world, table)) != ends:
            if world.loop.time() > until_s:
                world.violated(f"{name} is not tiered: the lake ends at {held}, the logs at {ends}")
                break
            await world.clock.sleep(1.0)
    world.note("both tables are tiered")
    await client.close()


# ---- the log


async def check_events(world: World, table: AsyncTable) -> None:
    """Read the log and the union of lake and log to their ends."""
    ends = await table.offsets("latest")
    read = await _log(world, table)
    for batch in read:
        note_reads(world, FINAL, batch)
    for place, end in ends.items():
        offsets = [batch.offsets[0] for batch in read if batch.bucket.bucket == place.bucket]
        world.log.end(bucket=place.bucket, start=int(min(offsets, default=end)), end=end)
    rows = await _steadily(world, lambda: table.scan().to_arrow())
    check_rows(world, rows, acknowledged(world), who="the end")
    if rows.num_rows != sum(ends.values()):
        world.violated(f"{rows.num_rows} rows stand for offsets up to {sorted(ends.values())}")
    count = await _steadily(world, table.count)
    if count != rows.num_rows:
        world.violated(f"{count} rows are counted, not {rows.num_rows}")


async def _log(world: World, table: AsyncTable) -> list[LogBatch]:
    """Read the log as far as it is kept."""

    async def read() -> list[LogBatch]:
        async with aclosing(LogScan(table.cluster, table.info).batches()) as batches:
            return [batch async for batch in batches]

    return await _steadily(world, read)


async def _steadily(world: World, read: Callable[[], Awaitable[T]]) -> T:
    """Read; and again, if the log was cut or a snapshot dropped in the middle of it."""
    while True:
        try:
            return await read()
        except GONE as fault:
            world.note(f"cut meanwhile: {fault}")


# ---- the rows by key


async def check_accounts(world: World, table: AsyncTable) -> None:
    """Compare the fold of the log with the state, with lookups and with the union."""
    await scan_keys_once(world, table, FINAL, mode="union")
    await scan_keys_once(world, table, FINAL, mode="log")
    state = _by_key(await table.scan(mode="log").to_pylist())
    union = _by_key(await _steadily(world, lambda: table.scan().to_pylist()))
    keys = [{"id": key} for key in range(world.plan.keys)]
    looked_up = _by_key((await table.lookup(keys)).to_pylist())
    if not state == union == looked_up:
        world.violated(f"keys differ: {state=}, {union=}, {looked_up=}")
    log = await _log(world, table)
    starts = await table.offsets("earliest")
    if not any(starts.values()):
        folded = _folded(log)
        if folded != state:
            world.violated(f"the fold of the log is {folded}, the state {state}")


def _by_key(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["id"]: row["value"] for row in rows}


def _folded(batches: list[LogBatch]) -> dict[int, str]:
    held: dict[int, str] = {}
    for batch in batches:
        for row, change in zip(batch.rows.to_pylist(), batch.changes, strict=True):
            if change == ChangeType.DELETE:
                held.pop(row["id"], None)
            elif change != ChangeType.UPDATE_BEFORE:
                held[row["id"]] = row["value"]
    return held


# ---- the lake


async def check_lake(world: World, client: AsyncClient, table: AsyncTable) -> None:
    """Look at the history of a lake table: ends only grow, no gap to the log, no file missing."""
    commits = (each for each in world.lake.commits if each.table == table.path)
    world.violations += [f"{table.name}: {fault}" for fault in faults_of(commits)]
    ends, logs = _lake_ends(world, table), await table.offsets("latest")
    for place, start in (await table.offsets("earliest")).items():
        held = ends.get(place.bucket, 0)
        if not start <= held <= logs[place]:
            where = f"{table.name}: the lake ends at {held}"
            world.violated(f"{where}, the log covers {start} to {logs[place]}")
    _check_files(world, table)


def _lake_ends(world: World, table: AsyncTable) -> dict[int, int]:
    """Return how far the lake holds each bucket, by its newest snapshot."""
    lake = world.lake.lakes.of(table.info)
    if not lake.catalog().exists(table.path):
        return {}
    *_, newest = (None, *lake.source(lake_spec(table.info)).snapshots())
    held = newest and newest.boundary
    return {each.bucket: held.end(each) for each in held.ranges} if held else {}


def _check_files(world: World, table: AsyncTable) -> None:
    plain = PlainTable(str(world.lake.directory), table.path)
    for number in plain.snapshot_ids():
        stored = plain.stored(number)
        paths = [file.path for file in stored.files]
        if len(set(paths)) < len(paths):
            world.violated(f"{table.name}: snapshot {number} names a file twice")
        if missing := {Path(each).name for each in paths} - _present(plain):
            world.violated(f"{table.name}: snapshot {number} names {len(missing)} missing files")


def _present(plain: PlainTable) -> set[str]:
    return {file.name for file in plain.data.glob("*")} if plain.data.exists() else set()
