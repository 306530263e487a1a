"""Follow a table while another task writes it: `python follow.py HOST:PORT`."""

import asyncio
import sys

import fluss
import pyarrow as pa

PATH = fluss.TablePath("fluss", "ticks")
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
TICKS = 5
EXIT_PAUSE_S = 0.5


async def write(table: fluss.FlussTable) -> None:
    writer = table.new_append().create_writer()
    for number in range(TICKS):
        writer.append([number, f"tick {number}"])
        await writer.flush()
        await asyncio.sleep(0.1)


async def follow(table: fluss.FlussTable, offset: int) -> None:
    """Print rows as they come; `poll` waits for more and returns early when there are some."""
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, offset)
    seen = 0
    while seen < TICKS:
        for record in await scanner.poll(1_000):
            print(f"offset {record.offset}: {record.row['text']}", flush=True)
            seen += 1


async def main(address: str) -> None:
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": address}))
    admin = connection.get_admin()
    descriptor = fluss.TableDescriptor(fluss.Schema(SCHEMA))
    await admin.create_table(PATH, descriptor, ignore_if_exists=True)
    table = await connection.get_table(PATH)
    latest = await admin.list_offsets(PATH, [0], fluss.OffsetSpec.latest())
    await asyncio.gather(follow(table, latest[0]), write(table))
    await connection.close()
    # pyfluss 1.0 sometimes aborts when Python exits right after this; a pause was seen to help.
    await asyncio.sleep(EXIT_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9123"))
