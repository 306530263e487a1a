"""Create a table, append Arrow batches, read them back: `python append_and_scan.py HOST:PORT`."""

import asyncio
import sys

import fluss
import pyarrow as pa

PATH = fluss.TablePath("weather", "readings")
EXIT_PAUSE_S = 0.5
SCHEMA = pa.schema(
    [
        ("station", pa.string()),
        ("day", pa.int32()),
        ("celsius", pa.float64()),
        ("note", pa.string()),
    ]
)


def readings(station: str, warmth: float, days: range) -> pa.RecordBatch:
    celsius = [warmth + day % 7 / 2 for day in days]
    return pa.record_batch(
        [[station] * len(days), list(days), celsius, ["clear"] * len(days)], schema=SCHEMA
    )


async def read_all(scan: fluss.TableScan) -> pa.Table:
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    return await scanner.to_arrow()


async def main(address: str) -> None:
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": address}))
    admin = connection.get_admin()
    await admin.create_database("weather", ignore_if_exists=True)
    descriptor = fluss.TableDescriptor(fluss.Schema(SCHEMA))
    await admin.create_table(PATH, descriptor, ignore_if_exists=True)

    table = await connection.get_table(PATH)
    writer = table.new_append().create_writer()
    for station, warmth in (("Oslo", 4.5), ("Quito", 13.0)):
        writer.write_arrow_batch(readings(station, warmth, range(365)))
    await writer.flush()  # returns once every row is on disk

    everything = await read_all(table.new_scan())
    print(f"{everything.num_rows} rows of {everything.num_columns} columns")
    narrow = await read_all(table.new_scan().project_by_name(["station", "celsius"]))
    means = narrow.group_by("station").aggregate([("celsius", "mean")])
    for row in means.sort_by("station").to_pylist():
        print(f"{row['station']}: {row['celsius_mean']:.2f} °C on average")
    await connection.close()
    # pyfluss 1.0 sometimes aborts when Python exits right after this; a pause was seen to help.
    await asyncio.sleep(EXIT_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9123"))
