"""A member of a group that goes on when others have taken what it read: told line by line.

python -m tests.torture.cursor_member ADDRESS TABLE LEASE_S
"""

import asyncio
import json
import sys

from headwater.aio import connect
from headwater.errors import CursorLostError, RetryLaterError

NAME = "paused"


def tell(**what: object) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


async def read(address: str, table_name: str, lease_s: float) -> None:
    async with await connect(address) as client:
        table = await client.table(table_name)
        async with table.cursor(NAME, auto_commit=False, lease_s=lease_s) as cursor:
            while True:
                try:
                    await _step(cursor)
                except CursorLostError:
                    tell(lost=True)
                except RetryLaterError as fault:
                    tell(fault=str(fault))


async def _step(cursor) -> None:
    batches = await cursor.poll(0.3)
    tell(assigned=sorted(place.bucket for place in cursor.assigned))
    for batch in batches:
        tell(given=batch.rows["id"].to_pylist())
    if batches:
        await cursor.commit()
        tell(committed={place.bucket: at for place, at in cursor.positions.items()})


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1], sys.argv[2], float(sys.argv[3])))
