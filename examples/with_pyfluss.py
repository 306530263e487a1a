"""The official client of Apache Fluss on our server: `python with_pyfluss.py HOST:PORT`."""

import asyncio
import sys

import fluss
import pyarrow as pa

READINGS = fluss.TablePath("fluss", "pyfluss_readings")
STATIONS = fluss.TablePath("fluss", "pyfluss_stations")
READINGS_SCHEMA = pa.schema([("station", pa.string()), ("celsius", pa.float64())])
STATIONS_SCHEMA = pa.schema([("station", pa.string()), ("height", pa.int32())])
EXIT_PAUSE_S = 0.5


async def append_and_scan(connection: fluss.FlussConnection) -> None:
    descriptor = fluss.TableDescriptor(fluss.Schema(READINGS_SCHEMA))
    await connection.get_admin().create_table(READINGS, descriptor, ignore_if_exists=True)
    table = await connection.get_table(READINGS)
    writer = table.new_append().create_writer()
    writer.write_arrow_batch(pa.record_batch([["Oslo"] * 3, [4.5, 5.0, 5.5]], READINGS_SCHEMA))
    await writer.flush()

    scanner = await table.new_scan().project_by_name(["celsius"]).create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    print(f"{(await scanner.to_arrow()).num_rows} readings")


async def upsert_and_look_up(connection: fluss.FlussConnection) -> None:
    schema = fluss.Schema(STATIONS_SCHEMA, primary_keys=["station"])
    descriptor = fluss.TableDescriptor(schema, bucket_count=1)
    await connection.get_admin().create_table(STATIONS, descriptor, ignore_if_exists=True)
    table = await connection.get_table(STATIONS)
    # flush() does not raise when a row is refused; waiting for the single row does.
    await table.new_upsert().create_writer().upsert({"station": "Oslo", "height": 94}).wait()
    print(await table.new_lookup().create_lookuper().lookup({"station": "Oslo"}))


async def main(address: str) -> None:
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": address}))
    await append_and_scan(connection)
    await upsert_and_look_up(connection)
    await connection.close()
    # pyfluss 1.0 sometimes aborts when Python exits right after this; a pause was seen to help.
    await asyncio.sleep(EXIT_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9123"))
