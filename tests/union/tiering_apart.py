"""A process that tiers a table until it is killed: `python -m … host:port table format turn`."""

import sys
from pathlib import Path

import headwater
from headwater.lake.lakes import Lakes
from tests.tiering.world import World


def main() -> None:
    address, path, lake_format, turn = sys.argv[1:]
    with headwater.connect(address) as client:
        storage_id, number = client.lake.heartbeat().storage_id, int(turn)

        async def tier(awaiting):
            world = World(awaiting, Lakes(), lake_format, Path())
            return await world.tier(await awaiting.table(path), number, storage=storage_id)

        while True:
            report = client.run(tier)
            number += 1
            sys.stdout.write(f"{report.row_count}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
