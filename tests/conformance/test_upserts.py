"""Rows of primary-key tables are written and found by their key through the Fluss client."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.keyed import changelog, create_keyed, delete, lookup, shown, upsert
from tests.conformance.keyed import upsert_together as together
from tests.conformance.test_types import NESTED, NESTED_ROWS, PLAIN, ROW

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])
ANN = {"id": 1, "name": "ann", "score": 10}
BOB = {"id": 2, "name": "bob", "score": None}


async def table_of(connection, path, **options):
    return await create_keyed(connection, path, SCHEMA, key=["id"], **options)


async def test_a_row_is_found_by_its_key_and_a_missing_one_is_not(connection, path):
    table = await table_of(connection, path)

    await upsert(table, ANN, BOB)

    assert await lookup(table, {"id": 1}, {"id": 2}, {"id": 3}) == [ANN, BOB, None]


async def test_the_last_row_of_a_key_counts(connection, path):
    table = await table_of(connection, path)

    await upsert(table, ANN, ANN | {"score": 11}, ANN | {"name": None})

    assert await lookup(table, [1]) == [ANN | {"name": None}]


async def test_rows_that_are_sent_together_apply_in_their_order(connection, path):
    table = await table_of(connection, path)

    await together(table, [ANN | {"score": number} for number in range(100)])

    assert await lookup(table, [1]) == [ANN | {"score": 99}]


async def test_a_deleted_row_is_gone_until_it_is_written_again(connection, path):
    table = await table_of(connection, path)
    await upsert(table, ANN, BOB)

    await delete(table, {"id": 1}, {"id": 7})

    assert await lookup(table, [1], [2], [7]) == [None, BOB, None]
    await upsert(table, ANN | {"score": 12})
    assert await lookup(table, [1]) == [ANN | {"score": 12}]


async def test_a_partial_update_by_name_leaves_the_other_columns(connection, path):
    table = await table_of(connection, path)
    await upsert(table, ANN)

    await upsert(table, {"id": 1, "score": 77}, {"id": 5, "score": 55}, columns=["id", "score"])

    fresh = {"id": 5, "name": None, "score": 55}
    assert await lookup(table, [1], [5]) == [ANN | {"score": 77}, fresh]


async def test_a_partial_update_by_index_leaves_the_other_columns(connection, path):
    table = await table_of(connection, path)
    await upsert(table, ANN)

    writer = table.new_upsert().partial_update_by_index([0, 1]).create_writer()
    await writer.upsert([1, "anna"]).wait()

    assert await lookup(table, [1]) == [ANN | {"name": "anna"}]


async def test_a_partial_delete_takes_the_row_once_nothing_is_left_of_it(connection, path):
    table = await table_of(connection, path)
    await upsert(table, ANN)

    await delete(table, {"id": 1}, columns=["id", "score"])
    half = await lookup(table, [1])
    await delete(table, {"id": 1}, columns=["id", "name"])

    assert half == [ANN | {"score": None}]
    assert await lookup(table, [1]) == [None]


async def test_rows_of_several_buckets_are_found_in_theirs(connection, admin, path):
    table = await table_of(connection, path, bucket_count=3)
    rows = [{"id": number, "name": f"n{number}", "score": number} for number in range(300)]

    await together(table, rows)

    ends = await admin.list_offsets(path, [0, 1, 2], fluss.OffsetSpec.latest())
    assert sum(ends.values()) == 300
    assert min(ends.values()) > 50
    assert await lookup(table, *([number] for number in range(0, 300, 7))) == rows[::7]


async def test_keys_of_several_columns_in_any_order_name_one_row(connection, path):
    schema = pa.schema(
        [("v", pa.string()), ("b", pa.string()), ("n", pa.int64()), ("a", pa.int32())]
    )
    table = await create_keyed(connection, path, schema, key=["a", "b"], bucket_count=2)
    rows = [{"v": f"{a}{b}", "b": b, "n": a, "a": a} for a in (1, 12) for b in ("2", "", "x")]

    await upsert(table, *rows)
    await delete(table, {"a": 12, "b": "2"})

    found = await lookup(table, *({"a": row["a"], "b": row["b"]} for row in rows))
    assert found == [*rows[:3], None, *rows[4:]]


async def test_large_values_and_keys_come_back_whole(connection, path):
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("raw", pa.binary())])
    table = await create_keyed(connection, path, schema, key=["key"])
    row = {"key": "k" * 20_000, "value": "ä" * 1_000_000, "raw": bytes(range(256)) * 1_000}

    await upsert(table, row, {"key": "", "value": "", "raw": b""})

    found = await lookup(table, {"key": "k" * 20_000}, {"key": ""})
    assert found == [row, {"key": "", "value": "", "raw": b""}]


async def test_every_type_survives_as_a_value_in_state_and_changelog(connection, path):
    schema = pa.schema([("id", pa.int32()), *PLAIN, *NESTED])
    table = await create_keyed(connection, path, schema, key=["id"])
    nothing = dict.fromkeys(schema.names)
    rows = [{"id": at} | ROW | nested for at, nested in enumerate(NESTED_ROWS)]
    rows.append(nothing | {"id": 3})

    await together(table, rows)

    found = await lookup(table, [0], [1], [2], [3])
    records = await changelog(table, 4)
    assert found == rows
    assert [record.row for record in records] == rows


@pytest.mark.parametrize("name", PLAIN.names)
async def test_every_plain_type_can_be_a_key(connection, path, name):
    schema = pa.schema([("value", pa.string()), (name, PLAIN.field(name).type)])
    table = await create_keyed(connection, path, schema, key=[name])
    row = {"value": "held", name: ROW[name]}

    await upsert(table, row | {"value": "old"}, row)
    found = await lookup(table, {name: ROW[name]})
    await delete(table, {name: ROW[name]})

    assert found == [row]
    assert await lookup(table, {name: ROW[name]}) == [None]
    changes = shown(await changelog(table, 4))
    assert changes[0] == ("+I", row | {"value": "old"})
    assert changes[3] == ("-D", row)


async def test_a_row_without_its_key_is_refused_by_the_client(connection, path):
    table = await table_of(connection, path)
    writer = table.new_upsert().create_writer()

    with pytest.raises((fluss.FlussError, ValueError, TypeError)):
        writer.upsert({"id": None, "name": "nobody", "score": 1})

    assert await lookup(table, [0]) == [None]


async def test_thousands_of_rows_are_updated_and_half_of_them_deleted(connection, path):
    table = await table_of(connection, path)
    numbers = range(5_000)
    await together(table, [{"id": n, "name": "old", "score": n} for n in numbers])
    writer = table.new_upsert().create_writer()

    for number in numbers:
        if number % 2:
            writer.delete({"id": number})
        else:
            writer.upsert({"id": number, "name": "new", "score": -number})
    await writer.flush()

    found = await lookup(table, *([number] for number in numbers[::99]))
    expected = [None if n % 2 else {"id": n, "name": "new", "score": -n} for n in numbers[::99]]
    assert found == expected
