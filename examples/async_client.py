"""Write and follow in one event loop: `python async_client.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
"""

import asyncio
import sys
import tempfile

from headwater import aio

READINGS = 100


async def write(table: aio.AsyncTable) -> None:
    async with table.writer() as writer:
        for number in range(READINGS):
            await writer.write({"sensor": number % 4, "value": number / 10})


async def add_up(table: aio.AsyncTable) -> float:
    """Follow the table until all readings are there."""
    total, seen = 0.0, 0
    tail = await table.tail("latest")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write(table))
        while seen < READINGS:
            for batch in await tail.poll():
                total += sum(batch.rows["value"].to_pylist())
                seen += batch.rows.num_rows
    await tail.close()
    return total


async def run(hw: aio.AsyncClient) -> None:
    table = await hw.create_table("sensors", {"sensor": "INT", "value": "DOUBLE"}, exists_ok=True)
    print(f"the readings add up to {await add_up(table):.1f}")
    async for batch in table.scan(columns=["value"], where=[("sensor", "==", 3)], limit=3):
        print(f"the first of sensor 3: {batch['value'].to_pylist()}")


async def main() -> None:
    if len(sys.argv) > 1:
        async with await aio.connect(sys.argv[1]) as hw:
            await run(hw)
        return
    with tempfile.TemporaryDirectory() as directory:
        async with await aio.open(directory) as hw:
            await run(hw)


if __name__ == "__main__":
    asyncio.run(main())
