"""Those who write: rows of a log that are told apart, and values of a few keys."""

import random

from headwater.client.table import AsyncTable
from headwater.errors import HeadwaterError, SequenceError
from tests.simulation.world import ACCOUNTS, EVENTS, World

ROWS_MAX = 5


async def append_rows(world: World, name: str) -> None:
    """Append rows to the log, some one call at a time and some through a writer."""
    chance = world.chance(name)
    table = await world.table(await world.connect(), EVENTS)
    numbers = iter(range(10_000))
    for _ in range(world.plan.rounds):
        parts = [
            [f"{name}/{next(numbers)}" for _ in range(chance.randint(1, ROWS_MAX))]
            for _ in range(chance.choice((1, 1, 3)))
        ]
        await _append(world, table, name, parts)
        await world.pause(chance, world.plan.pace_s)


async def _append(world: World, table: AsyncTable, name: str, parts: list[list[str]]) -> None:
    operations = [world.log.send(name, value) for part in parts for value in part]
    rows = [[{"id": _id_of(value), "value": value} for value in part] for part in parts]
    try:
        if len(parts) == 1:
            await table.append(rows[0])
        else:
            async with table.writer() as writer:
                for part in rows:
                    await writer.write(part)
    except HeadwaterError as fault:
        world.refused(f"lost {parts}", fault, expected=(SequenceError,))
        for operation in operations:
            world.log.lose(operation)
    else:
        world.note(f"appended {parts}")
        for operation in operations:
            world.log.ack(operation)


def _id_of(value: str) -> int:
    return int(value.rpartition("/")[2])


async def change_keys(world: World, name: str) -> None:
    """Put and delete rows by key, each after the one before is answered."""
    chance = world.chance(name)
    table = await world.table(await world.connect(), ACCOUNTS)
    for number in range(world.plan.rounds * 2):
        await _change(world, table, name, chance, number=number)
        await world.pause(chance, world.plan.pace_s / 2)


async def _change(
    world: World, table: AsyncTable, name: str, chance: random.Random, *, number: int
) -> None:
    count = chance.choice((1, 1, 2, world.plan.keys))
    keys = chance.sample(range(world.plan.keys), min(count, world.plan.keys))
    values = {key: f"{name}/{number}/{key}" for key in keys}
    is_delete = chance.random() < 0.3
    what = f"{'delete' if is_delete else 'put'} {number} of {keys}"
    if is_delete:
        operations = [world.keys.delete(name, str(key)) for key in keys]
        work = table.delete([{"id": key} for key in keys])
    else:
        operations = [world.keys.put(name, str(key), value) for key, value in values.items()]
        work = table.upsert([{"id": key, "value": value} for key, value in values.items()])
    try:
        await work
    except HeadwaterError as fault:
        world.refused(f"lost {what}", fault, expected=(SequenceError,))
        for operation in operations:
            world.keys.lose(operation)
    else:
        world.note(f"done: {what}")
        for operation in operations:
            world.keys.done(operation)
