"""Short ways to do with pyfluss what tests of primary-key tables need."""

import fluss
import pyarrow as pa

from tests.conformance.client import poll_records


async def create_keyed(connection, path, schema: pa.Schema, *, key, numbered=None, **options):
    """Create a primary-key table with one bucket, unless told otherwise, and open it."""
    given = fluss.Schema(schema, primary_keys=list(key), auto_increment_column=numbered)
    options = {"bucket_count": 1} | options
    await connection.get_admin().create_table(path, fluss.TableDescriptor(given, **options))
    return await connection.get_table(path)


async def upsert(table, *rows, columns=None):
    """Write rows one after the other, each in a batch of its own."""
    builder = table.new_upsert()
    if columns is not None:
        builder = builder.partial_update_by_name(columns)
    writer = builder.create_writer()
    for row in rows:
        await writer.upsert(row).wait()


async def upsert_together(table, rows):
    """Write rows in as few batches as the client makes of them."""
    writer = table.new_upsert().create_writer()
    for row in rows:
        writer.upsert(row)
    await writer.flush()


async def delete(table, *keys, columns=None):
    builder = table.new_upsert()
    if columns is not None:
        builder = builder.partial_update_by_name(columns)
    writer = builder.create_writer()
    for key in keys:
        await writer.delete(key).wait()


async def lookup(table, *keys):
    lookuper = table.new_lookup().create_lookuper()
    return [await lookuper.lookup(key) for key in keys]


async def changelog(table, expected: int, *, offset=0, scan=None, bucket=0) -> list:
    """Read so many records of the changelog, and make sure that they are in order."""
    scanner = await (scan or table.new_scan()).create_log_scanner()
    scanner.subscribe(bucket, offset)
    records = await poll_records(scanner, expected)
    offsets = [record.offset for record in records]
    assert offsets == sorted(offsets)
    return records


def shown(records) -> list[tuple[str, dict]]:
    """Return change type and row of records."""
    return [(record.change_type.short_string(), record.row) for record in records]


async def limited(table, limit: int, *, bucket=0, partition=None, columns=None) -> pa.Table:
    """Read some rows of a bucket."""
    table_id = table.get_table_info().table_id
    at = fluss.TableBucket(table_id, bucket)
    if partition is not None:
        at = fluss.TableBucket.with_partition(table_id, partition, bucket)
    scan = table.new_scan().limit(limit)
    if columns is not None:
        scan = scan.project_by_name(columns)
    return await scan.create_bucket_batch_scanner(at).to_arrow()
