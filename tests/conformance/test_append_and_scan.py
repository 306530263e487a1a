"""Rows, Arrow and pandas in; records, batches, Arrow and pandas out."""

import fluss
import pandas as pd
import pyarrow as pa

from tests.conformance.client import append, append_rows, create, poll_records, read_all

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.float64())])


def rows_of(start: int, end: int) -> pa.RecordBatch:
    ids = list(range(start, end))
    return pa.record_batch([ids, [f"n{i}" for i in ids], [i / 2 for i in ids]], schema=SCHEMA)


async def test_rows_come_back_in_order_with_offsets_and_timestamps(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append_rows(table, [[1, "a", 0.5], {"id": 2, "name": "b", "score": None}, (3, "c", 1.5)])

    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    records = await poll_records(scanner, 3)

    assert [record.offset for record in records] == [0, 1, 2]
    assert [record.row["name"] for record in records] == ["a", "b", "c"]
    assert records[1].row["score"] is None
    assert all(record.change_type == fluss.ChangeType.AppendOnly for record in records)
    assert all(record.timestamp > 0 for record in records)


async def test_arrow_comes_back_as_arrow(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    data = pa.Table.from_batches([rows_of(0, 700), rows_of(700, 1000)])

    await append(table, data)

    assert (await read_all(table)).equals(data)


async def test_pandas_comes_back_as_pandas(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    frame = rows_of(0, 50).to_pandas()
    frame["id"] = frame["id"].astype("int32")
    writer = table.new_append().create_writer()

    writer.write_pandas(frame)
    await writer.flush()

    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    read = await scanner.to_pandas()
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


async def test_every_row_lands_in_one_of_the_buckets(connection, admin, path):
    await create(admin, path, SCHEMA, bucket_count=4, bucket_keys=["id"])
    table = await connection.get_table(path)

    await append(table, rows_of(0, 1000))

    read = await read_all(table, buckets=4)
    assert sorted(read["id"].to_pylist()) == list(range(1000))
    latest = await admin.list_offsets(path, [0, 1, 2, 3], fluss.OffsetSpec.latest())
    assert sum(latest.values()) == 1000
    assert min(latest.values()) > 150


async def test_a_scan_starts_at_any_offset(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 100))
    await append(table, rows_of(100, 200))

    read = await read_all(table, offset=137)

    assert read["id"].to_pylist() == list(range(137, 200))


async def test_a_scan_from_latest_sees_only_what_comes_after(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 10))
    latest = await admin.list_offsets(path, [0], fluss.OffsetSpec.latest())
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, latest[0])

    await append(table, rows_of(10, 15))

    records = await poll_records(scanner, 5)
    assert [record.row["id"] for record in records] == [10, 11, 12, 13, 14]


async def test_a_timestamp_finds_the_first_row_written_at_or_after_it(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 10))
    await append(table, rows_of(10, 20))
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    written = (await poll_records(scanner, 20))[10].timestamp

    found = await admin.list_offsets(path, [0], fluss.OffsetSpec.timestamp(written))
    first = await admin.list_offsets(path, [0], fluss.OffsetSpec.timestamp(0))

    assert found[0] in (0, 10)
    assert first[0] == 0


async def test_a_columns_subset_comes_in_the_order_asked_for(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 100))

    by_name = await read_all(table, scan=table.new_scan().project_by_name(["score", "id"]))
    by_index = await read_all(table, scan=table.new_scan().project([1]))

    assert by_name.column_names == ["score", "id"]
    assert by_name["id"].to_pylist() == list(range(100))
    assert by_name["score"].to_pylist() == [i / 2 for i in range(100)]
    assert by_index["name"].to_pylist() == [f"n{i}" for i in range(100)]


async def test_record_batches_tell_their_bucket_and_offsets(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 30))
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(0, 0)

    batches = await scanner.poll_record_batch(5_000)

    assert batches[0].base_offset == 0
    assert batches[-1].last_offset == 29
    assert sum(batch.batch.num_rows for batch in batches) == 30
    assert batches[0].bucket.bucket_id == 0


async def test_a_lazy_reader_yields_batches_up_to_the_latest_offset(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 300))
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)

    read = scanner.to_arrow_batch_reader().read_all()

    assert read["id"].to_pylist() == list(range(300))


async def test_a_limit_scan_returns_the_last_rows(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 60))
    await append(table, rows_of(60, 100))
    bucket = fluss.TableBucket(table.get_table_info().table_id, 0)

    scanner = table.new_scan().limit(50).create_bucket_batch_scanner(bucket)

    assert (await scanner.to_arrow())["id"].to_pylist() == list(range(50, 100))


async def test_a_scanner_waits_for_rows_that_come_later(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    assert (await scanner.poll(50)).is_empty()

    await append(table, rows_of(0, 3))

    assert len(await poll_records(scanner, 3)) == 3


async def test_an_unsubscribed_bucket_sends_nothing_more(connection, admin, path):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, rows_of(0, 3))
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    await poll_records(scanner, 3)

    scanner.unsubscribe(0)
    await append(table, rows_of(3, 6))

    assert (await scanner.poll(200)).is_empty()
