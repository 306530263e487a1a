"""What comes and goes leaves nothing behind: clients, tables, partitions, reports of tierers."""

import gc
from collections import Counter
from pathlib import Path

from headwater import aio
from headwater.client.client import AsyncClient
from headwater.config.server import ServerSettings
from headwater.model.boundary import LakeBucket
from headwater.server.server import Server

LAKE = {"table.datalake.enabled": "true"}
WARM_ROUNDS = 3
ROUNDS = 8
# Kept for tables that were written to lately, a bounded number of them.
CACHED = {"Expectation", "LayoutReader", "MessageSample", "Shape"}


async def come_and_go(server: Server, number: int) -> None:
    """Connect, make tables, write, read, report, drop everything and leave."""
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        log = await client.create_table(
            f"log{number}", {"id": "BIGINT", "day": "STRING"}, partition_by="day", options=LAKE
        )
        await log.append([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}])
        keyed = await client.create_table(
            f"keyed{number}", {"id": "BIGINT"}, primary_key="id", options=LAKE
        )
        await keyed.upsert([{"id": each} for each in range(20)])
        await keyed.lookup([{"id": 1}])
        await report(client, keyed.info)
        await log.drop_partition({"day": "a"})
        await client.drop_table(f"log{number}")
        await client.drop_table(f"keyed{number}")


async def report(client: AsyncClient, info) -> None:
    await client.lake.heartbeat(request=True, ignore_freshness=True)
    prepared = await client.lake.prepare(info.path, info.table_id, {LakeBucket(None, 0): 5})
    await client.lake.commit(info.table_id, 1, prepared)


async def tended(server: Server) -> None:
    """Do the chores that a server does by and by."""
    await server.upkeep.expire_rows()
    await server.upkeep.tend_states()
    await server.upkeep.clear_lake_files()


def ours() -> Counter[str]:
    """Count the objects of this package by their types."""
    gc.collect()
    kinds = Counter(type(each) for each in gc.get_objects())
    return Counter(
        {
            kind.__name__: count
            for kind, count in kinds.items()
            if str(kind.__module__).startswith("headwater.")
        }
    )


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_clients_and_tables_that_come_and_go_leave_no_objects_and_no_descriptors(tmp_path):
    server = await Server.start(tmp_path, ServerSettings(port=0))
    for number in range(WARM_ROUNDS):
        await come_and_go(server, number)
    await tended(server)
    before, open_before = ours(), descriptors()

    for number in range(WARM_ROUNDS, WARM_ROUNDS + ROUNDS):
        await come_and_go(server, number)
    await tended(server)

    after, open_after = ours(), descriptors()
    await server.stop()
    grown = {name: count for name, count in (after - before).items() if count >= ROUNDS}
    assert set(grown) <= CACHED, grown
    assert open_after <= open_before + 2
