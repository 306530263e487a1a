"""A member of a group in a process of its own: tells what it is given and what it committed.

python -m tests.flows.cursor_reader ADDRESS TABLE CURSOR LEASE_S
"""

import asyncio
import json
import sys

from headwater.aio import connect


def tell(**what: object) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


async def read(address: str, table_name: str, cursor_name: str, lease_s: float) -> None:
    async with await connect(address) as client:
        table = await client.table(table_name)
        async with table.cursor(cursor_name, auto_commit=False, lease_s=lease_s) as cursor:
            tell(joined=cursor.member)
            while True:
                batches = await cursor.poll(0.5)
                tell(assigned=sorted(place.bucket for place in cursor.assigned))
                for batch in batches:
                    given = zip(batch.offsets.tolist(), batch.rows["id"].to_pylist(), strict=True)
                    tell(bucket=batch.bucket.bucket, given=list(given))
                if batches:
                    await cursor.commit()
                    tell(committed={p.bucket: at for p, at in cursor.positions.items()})


if __name__ == "__main__":
    _, address, table, cursor, lease_s = sys.argv
    asyncio.run(read(address, table, cursor, float(lease_s)))
