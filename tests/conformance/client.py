"""Short ways to do with pyfluss what most tests need."""

import fluss
import pyarrow as pa

EARLIEST = fluss.EARLIEST_OFFSET
POLL_MS = 5_000
QUIET_MS = 300


async def create(admin, path, schema: pa.Schema, **options):
    descriptor = fluss.TableDescriptor(fluss.Schema(schema), **options)
    await admin.create_table(path, descriptor)


async def append(table, data: pa.RecordBatch | pa.Table):
    writer = table.new_append().create_writer()
    writer.write_arrow(pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data)
    await writer.flush()


async def append_rows(table, rows):
    writer = table.new_append().create_writer()
    for row in rows:
        writer.append(row)
    await writer.flush()


async def read_all(table, *, buckets=1, scan=None, offset=EARLIEST) -> pa.Table:
    scanner = await (scan or table.new_scan()).create_record_batch_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(buckets), offset))
    return await scanner.to_arrow()


async def poll_records(scanner, expected: int) -> list:
    records = []
    while len(records) < expected:
        polled = await scanner.poll(POLL_MS)
        assert not polled.is_empty(), f"only {len(records)} of {expected} records came"
        records += list(polled)
    return records


async def read_filtered(scan) -> pa.Table:
    """Read until nothing more comes: a bounded read would wait for rows that were pruned."""
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe(0, EARLIEST)
    polled = [await scanner.poll_arrow(QUIET_MS)]
    while polled[-1].num_rows:
        polled.append(await scanner.poll_arrow(QUIET_MS))
    return pa.concat_tables(polled)
