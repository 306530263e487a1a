"""What must hold after every story: histories, tiers, union reads and the audit."""

import asyncio
from collections import Counter

from headwater.aio import connect
from headwater.rows.log_batch import ChangeType
from headwater.testing.history import LogHistory, OperationOutcome
from headwater.testing.key_checker import check_keys
from headwater.testing.key_history import KeyHistory, Verb
from headwater.testing.log_checker import check_log
from tests import figures
from tests.torture.processes import run_command
from tests.torture.worker import KEYED, LOG
from tests.torture.world import World

FINAL = "final"


def prove(world: World, *, tiers: bool = True) -> None:
    """Prove that nothing acked is lost and nothing is there twice, in log, state and lake.

    1. what clients saw fits what is there  2. all goes to the lake, and lake and log give the
    same as the log alone  3. the audit finds nothing
    """
    log, keyed = histories(world)
    figures.note("proof", acked=acked_of(log, keyed))
    rows, folded = asyncio.run(_read_all(world.address, log))
    asyncio.run(_read_keys(world.address, keyed))
    assert [str(each) for each in check_log(log, final_reader=FINAL)] == []
    assert [str(each) for each in check_keys(keyed)] == []
    asyncio.run(_compare(world.address, rows, folded))
    if tiers:
        run_command("tier", "--here", "--once", "--at", world.address)
        asyncio.run(_compare(world.address, rows, folded))
    audit(world.address)
    events = world.server.events()
    assert "Traceback" not in events, events[-4000:]


def audit(address: str) -> None:
    """Have the product judge itself."""
    run_command("audit", "--deep", "--at", address)


def histories(world: World) -> tuple[LogHistory, KeyHistory]:
    """Return what all clients saw, those that were killed included."""
    files = world.files()
    keyed = [file for file in files if file.name.startswith("upsert")]
    return (
        LogHistory.load(*(file for file in files if file not in keyed)),
        KeyHistory.load(*keyed),
    )


def acked_of(log: LogHistory, keyed: KeyHistory) -> int:
    """Return how many writes were answered."""
    rows = sum(log.outcomes[number] is OperationOutcome.DONE for number in range(len(log.outcomes)))
    changes = sum(
        each.outcome is OperationOutcome.DONE and each.verb is not Verb.GET
        for each in keyed.operations()
    )
    return rows + changes


async def _read_all(address: str, history: LogHistory) -> tuple[Counter, dict[str, str]]:
    """Read every row of both logs; note those of the first, fold those of the second."""
    rows, folded = Counter(), {}
    async with await connect(address) as client:
        log, keyed = await client.table(LOG), await client.table(KEYED)
        starts, ends = await log.offsets("earliest"), await log.offsets("latest")
        for place, end in ends.items():
            history.end(bucket=place.bucket, start=starts[place], end=end)
        for batch in await _batches(log):
            values = batch.rows["value"].to_pylist()
            rows.update(values)
            for offset, value in zip(batch.offsets.tolist(), values, strict=True):
                history.read(FINAL, bucket=batch.bucket.bucket, offset=offset, value=value)
        for batch in await _batches(keyed):
            _fold(folded, batch)
    return rows, folded


async def _batches(table) -> list:
    """Return all batches of a log, from its first row to where it ends now."""
    ends, found = await table.offsets("latest"), []
    async with await table.tail("earliest") as tail:
        await tail.start()
        while any(tail.position.get(place, 0) < end for place, end in ends.items()):
            found += await tail.poll(1.0)
    return found


def _fold(state: dict[str, str], batch) -> None:
    ids, values = (batch.rows[name].to_pylist() for name in ("id", "value"))
    for kind, key, value in zip(batch.changes.tolist(), ids, values, strict=True):
        if kind in (ChangeType.INSERT, ChangeType.UPDATE_AFTER):
            state[key] = value
        else:
            state.pop(key, None)


async def _read_keys(address: str, history: KeyHistory) -> None:
    """Look every key up once more, now that all is quiet."""
    keys = sorted({each.key for each in history.operations()})
    async with await connect(address) as client:
        table = await client.table(KEYED)
        for key in keys:
            operation = history.get(FINAL, key)
            found = await table.get({"id": key})
            history.done(operation, None if found is None else found["value"])


async def _compare(address: str, rows: Counter, folded: dict[str, str]) -> None:
    """Check that union reads and scans give what the logs give."""
    async with await connect(address) as client:
        log = await (await client.table(LOG)).scan(columns=["value"]).to_arrow()
        keyed = await (await client.table(KEYED)).scan().to_arrow()
    assert Counter(log["value"].to_pylist()) == rows
    pairs = list(zip(keyed["id"].to_pylist(), keyed["value"].to_pylist(), strict=True))
    assert len(pairs) == len(folded)
    assert dict(pairs) == folded
