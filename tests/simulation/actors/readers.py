"""Those who read: tails, scans of lake and log, lookups, and one who comes back with a token."""

import random
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from headwater.client.table import AsyncTable
from headwater.errors import (
    HeadwaterError,
    LakeSnapshotMissingError,
    OffsetOutOfRangeError,
    PositionMissingError,
    ScannerExpiredError,
    ScannerMissingError,
)
from headwater.read.offsets import LogBatch
from headwater.testing.history import OperationOutcome
from tests.simulation.world import ACCOUNTS, EVENTS, World

PAUSE_S = 2.0
# The log was cut, or the snapshot dropped, between looking and reading.
GONE = (LakeSnapshotMissingError, OffsetOutOfRangeError, PositionMissingError)
# Scans of states are forgotten when the server starts anew.
FORGOTTEN = (ScannerExpiredError, ScannerMissingError)


async def follow_log(world: World, name: str) -> None:
    """Follow the log for ever; begin anew where the log was cut in between."""
    client = await world.connect()
    table = await world.table(client, EVENTS)
    session = 0
    while True:
        session += 1
        try:
            async with await table.tail() as tail:
                while True:
                    for batch in await tail.poll():
                        note_reads(world, f"{name}.{session}", batch)
        except HeadwaterError as fault:
            world.refused("the tail ended", fault, expected=GONE)
        await world.clock.sleep(0.5)


def note_reads(world: World, reader: str, batch: LogBatch) -> None:
    """Note rows of the log with their offsets."""
    bucket = batch.bucket.bucket
    values = batch.rows["value"].to_pylist()
    world.note(f"{reader} read bucket {bucket} from {batch.offsets[0]}: {values}")
    for offset, value in zip(batch.offsets.tolist(), values, strict=True):
        world.log.read(reader, bucket=bucket, offset=offset, value=value)


async def scan_log(world: World, name: str) -> None:
    """Scan lake and log again and again: all that was acknowledged before is there, once."""
    chance = world.chance(name)
    table = await world.table(await world.connect(), EVENTS)
    while True:
        known = acknowledged(world)
        try:
            rows = await table.scan().to_arrow()
        except HeadwaterError as fault:
            world.refused("the scan failed", fault, expected=GONE)
        else:
            world.note(f"scanned {rows.num_rows} rows of {len(known)} acknowledged")
            check_rows(world, rows, known, who=name)
        await world.pause(chance, PAUSE_S)


def acknowledged(world: World) -> set[str]:
    """Return the values that were acknowledged up to now."""
    outcomes = world.log.outcomes
    return {
        sent.value
        for number, sent in enumerate(world.log.sent)
        if outcomes[number] is OperationOutcome.DONE
    }


def check_rows(world: World, rows: pa.Table, known: Iterable[str], *, who: str) -> None:
    """Compare rows with what must be there and with what may be there."""
    found = Counter(rows["value"].to_pylist())
    twice = sorted(value for value, times in found.items() if times > 1)
    missing = sorted(set(known) - set(found))
    made_up = sorted(set(found) - {sent.value for sent in world.log.sent})
    for fault, values in (("twice", twice), ("missing", missing), ("made up", made_up)):
        if values:
            world.violated(f"{who} found rows {fault}: {values}")


async def look_up_keys(world: World, name: str) -> None:
    """Look single rows up."""
    chance = world.chance(name)
    table = await world.table(await world.connect(), ACCOUNTS)
    while True:
        key = chance.randrange(world.plan.keys)
        operation = world.keys.get(name, str(key))
        try:
            row = await table.get({"id": key})
        except HeadwaterError as fault:
            world.refused(f"the lookup of {key} failed", fault)
            world.keys.fail(operation)
        else:
            value = None if row is None else str(row["value"])
            world.note(f"looked {key} up: {value}")
            world.figures["lookups"] += 1
            world.keys.done(operation, value)
        await world.pause(chance, PAUSE_S / 2)


async def scan_keys(world: World, name: str) -> None:
    """Scan all rows by key, from lake and log or from the state: each is as good as a lookup."""
    chance = world.chance(name)
    table = await world.table(await world.connect(), ACCOUNTS)
    while True:
        await scan_keys_once(world, table, name, mode=chance.choice(("union", "log")))
        await world.pause(chance, PAUSE_S)


async def scan_keys_once(world: World, table: AsyncTable, name: str, *, mode: str) -> None:
    """Scan the rows by key, and note what was under each key."""
    operations = {key: world.keys.get(name, str(key)) for key in range(world.plan.keys)}
    try:
        rows = await table.scan(mode=mode).to_pylist()
    except HeadwaterError as fault:
        world.refused(f"the scan by {mode} failed", fault, expected=(*GONE, *FORGOTTEN))
        for operation in operations.values():
            world.keys.fail(operation)
        return
    held = {int(row["id"]): str(row["value"]) for row in rows}
    world.note(f"scanned by {mode}: {sorted(held.items())}")
    if len(held) < len(rows):
        world.violated(f"{name} found keys twice by {mode}: {rows}")
    for key, operation in operations.items():
        world.keys.done(operation, held.get(key))


async def come_back(world: World, name: str) -> None:
    """Take tokens, and read again with them later: the rows are the same, or gone for good."""
    chance = world.chance(name)
    client = await world.connect()
    tables = [await world.table(client, each) for each in (EVENTS, ACCOUNTS)]
    kept: list[tuple[AsyncTable, str, list[str]]] = []
    while True:
        if not kept or chance.random() < 0.3:
            await _keep(world, chance.choice(tables), kept)
        else:
            await _read_again(world, chance, kept)
        await world.pause(chance, PAUSE_S)


async def _keep(
    world: World, table: AsyncTable, kept: list[tuple[AsyncTable, str, list[str]]]
) -> None:
    try:
        view = await table.view()
        rows = await view.scan().to_pylist()
    except HeadwaterError as fault:
        world.refused("no token was to be had", fault, expected=(*GONE, *FORGOTTEN))
        return
    world.note(f"token of {table.name} with {len(rows)} rows")
    kept.append((table, view.token(), _sorted(rows)))


async def _read_again(
    world: World, chance: random.Random, kept: list[tuple[AsyncTable, str, list[str]]]
) -> None:
    table, token, before = chance.choice(kept)
    try:
        rows = await table.scan(token=token).to_pylist()
    except HeadwaterError as fault:
        world.refused("the token was refused", fault, expected=(*GONE, *FORGOTTEN))
        return
    world.note(f"token of {table.name} read again: {len(rows)} rows")
    if _sorted(rows) != before:
        now = _sorted(rows)
        extra = sorted((Counter(now) - Counter(before)).elements())
        missing = sorted((Counter(before) - Counter(now)).elements())
        world.violated(f"a token of {table.name} gives other rows: {extra=}, {missing=}")


def _sorted(rows: list[dict[str, object]]) -> list[str]:
    return sorted(f"{row['id']}={row['value']}" for row in rows)
