"""Bad batches for primary-key tables get the right error, and change nothing."""

import struct

import numpy as np
import pytest
import pytest_asyncio

from headwater.rows.kv_batch import build_kv_batch
from headwater.rows.row_bytes import RowBytes, crc32c
from tests.flows.upserting import Rows, keyed_json

TOO_LARGE, CORRUPT, SCHEMA_NOT_EXIST, INVALID_TARGET, DELETION_DISABLED = 13, 14, 9, 35, 57
INVALID_VALUE = 15
UNSUPPORTED = 2
ANN, BOB = (1, "ann", 10), (2, "bob", 20)


@pytest_asyncio.fixture
async def rows(connection):
    table = await Rows.create(connection)
    await table.put(ANN)
    return table


async def check_unchanged(rows):
    """Check that there is what there was, and that good rows are still taken."""
    assert await rows.row_count() == 1
    assert await rows.changes() == [(0, "+I", ANN)]
    assert await rows.get(1, 2) == [ANN, None]
    assert await rows.put(BOB) == 2
    assert await rows.get(1, 2) == [ANN, BOB]


def signed(batch: bytes) -> bytes:
    """Make the checksum and the length of a batch fit its bytes."""
    length = struct.pack("<i", len(batch) - 4)
    return length + batch[4:5] + struct.pack("<I", crc32c(batch[9:])) + batch[9:]


def with_count(batch: bytes, count: int) -> bytes:
    return signed(batch[:24] + struct.pack("<i", count) + batch[28:])


def made_of(keys, values, *, schema_id=1):
    return build_kv_batch(RowBytes.of(keys), RowBytes.of(values), schema_id=schema_id)


BROKEN = {
    "bad checksum": lambda rows, good: good[:-1] + bytes([good[-1] ^ 1]),
    "cut short": lambda rows, good: good[:-1],
    "half a header": lambda rows, good: good[:20],
    "nothing": lambda rows, good: b"",
    "bytes behind": lambda rows, good: good + b"x",
    "two batches": lambda rows, good: good + good,
    "a good batch and half a one": lambda rows, good: good + good[:40],
    "unknown version": lambda rows, good: good[:4] + b"\x07" + good[5:],
    "too many records": lambda rows, good: with_count(good, 3),
    "too few records": lambda rows, good: with_count(good, 1),
    "no records, but bytes": lambda rows, good: with_count(good, 0),
    "a negative count": lambda rows, good: with_count(good, -1),
    "a count beyond all": lambda rows, good: with_count(good, 2**31 - 1),
    "a record longer than the batch": lambda rows, good: signed(
        good[:28] + struct.pack("<i", 1 << 20) + good[32:]
    ),
    "a record of negative length": lambda rows, good: signed(
        good[:28] + struct.pack("<i", -9) + good[32:]
    ),
    "a key longer than its record": lambda rows, good: signed(good[:32] + b"\x7f" + good[33:]),
}
BROKEN_RECORDS = {
    "another key than the row says": lambda rows, key, row: (rows.keys([3])[0], row),
    "a key that ends early": lambda rows, key, row: (b"\x82", row),
    "a key with bytes behind it": lambda rows, key, row: (key + b"\x00", row),
    "an empty key": lambda rows, key, row: (b"", row),
    "a row that ends early": lambda rows, key, row: (key, row[:-1]),
    "a row with bytes behind it": lambda rows, key, row: (key, row + b"\x00"),
    "a row of noise": lambda rows, key, row: (key, b"\x00" + b"\xff" * 9),
    "text that is no UTF-8": lambda rows, key, row: (key, row.replace(b"bob", b"\xffob")),
}


def broken_record(rows, name):
    (key,), (row,) = rows.keys([BOB[0]]), rows.rows([BOB])
    return BROKEN_RECORDS[name](rows, key, row)


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_batch_is_refused_and_changes_nothing(rows, name):
    good = rows.batch([BOB, (3, "cat", 30)])

    answer = await rows.send(BROKEN[name](rows, good))

    assert answer.error_code == CORRUPT, answer
    assert answer.error_message
    await check_unchanged(rows)


@pytest.mark.parametrize("name", BROKEN_RECORDS)
async def test_a_broken_record_is_refused_and_changes_nothing(rows, name):
    key, row = broken_record(rows, name)

    answer = await rows.send(made_of([key], [row]))

    assert answer.error_code == CORRUPT, answer
    assert answer.error_message
    await check_unchanged(rows)


@pytest.mark.parametrize("image", ["FULL", "WAL"])
@pytest.mark.parametrize("name", BROKEN_RECORDS)
async def test_a_broken_record_spoils_the_good_ones_around_it(connection, name, image):
    rows = await Rows.create(connection, keyed_json(changelog_image=image))
    key, row = broken_record(rows, name)
    (good_key,), (good_row,) = rows.keys([1]), rows.rows([ANN])

    answer = await rows.send(made_of([good_key, key, good_key], [good_row, row, good_row]))

    assert answer.error_code == CORRUPT
    assert await rows.row_count() == 0
    assert await rows.changes() == []
    assert await rows.put(BOB) == 1


@pytest.mark.parametrize("name", BROKEN_RECORDS)
async def test_a_broken_record_is_refused_though_a_later_one_replaces_it(rows, name):
    key, row = broken_record(rows, name)
    (good_key,), (good_row,) = rows.keys([2]), rows.rows([BOB])

    answer = await rows.send(made_of([key, good_key], [row, good_row]))

    assert answer.error_code == CORRUPT
    await check_unchanged(rows)


async def test_a_null_in_a_key_is_refused_for_good(rows):
    (key,), (row,) = rows.keys([BOB[0]]), rows.rows([BOB])

    answer = await rows.send(made_of([key], [b"\x01" + row[2:]]))

    # Clients send a batch again that they take for damaged on its way, but not this one.
    assert answer.error_code == INVALID_VALUE
    assert "NOT NULL" in answer.error_message
    await check_unchanged(rows)


@pytest.mark.parametrize("schema_id", [-1, 0, 2, 32767])
async def test_an_unknown_schema_is_refused(rows, schema_id):
    batch = made_of(rows.keys([2]), rows.rows([BOB]), schema_id=schema_id)

    answer = await rows.send(batch)

    assert answer.error_code == SCHEMA_NOT_EXIST
    await check_unchanged(rows)


@pytest.mark.parametrize("columns", [[0, 3], [-1, 0], [1], [1, 2], [2**31 - 1]])
async def test_target_columns_that_do_not_exist_or_lack_the_key_are_refused(rows, columns):
    answer = await rows.send(rows.batch([BOB]), target_columns=columns)

    assert answer.error_code == INVALID_TARGET
    await check_unchanged(rows)


async def test_deletes_are_refused_where_they_are_disabled_together_with_all_of_their_batch(
    connection,
):
    rows = await Rows.create(connection, keyed_json(delete_behavior="disable"))
    await rows.put(ANN)

    answer = await rows.send(rows.batch([BOB, (1,)]))

    assert answer.error_code == DELETION_DISABLED
    await check_unchanged(rows)


async def test_a_batch_above_the_largest_size_is_refused(rows):
    row = (2, "x" * (33 << 20), 0)

    answer = await rows.send(rows.batch([row]))

    assert answer.error_code == TOO_LARGE
    assert "33554432" in answer.error_message
    await check_unchanged(rows)


async def test_an_unknown_way_to_merge_is_refused(rows):
    request = rows.send(rows.batch([BOB]), agg_mode=9)

    with pytest.raises(Exception, match="mode 9") as error:
        await request

    assert error.value.code == UNSUPPORTED
    await check_unchanged(rows)


async def test_keys_that_come_twice_in_a_batch_apply_in_order(connection):
    rows = await Rows.create(connection)

    end = await rows.put(ANN, BOB, (1, "anna", 11), (2,), (1,), (1, "again", 12))

    kinds = [kind for _, kind, _ in await rows.changes()]
    assert (end, kinds) == (7, ["+I", "+I", "-U", "+U", "-D", "-D", "+I"])
    assert await rows.get(1, 2) == [(1, "again", 12), None]


async def test_lookups_of_bytes_that_are_no_key_find_nothing(rows):
    noise = [b"", b"\x00", b"\xff" * 300, bytes(4), rows.keys([1])[0] + b"\x00"]

    few = await rows.looked_up(noise)
    many = await rows.looked_up(noise * 10)

    assert not few.error_code
    assert [value.HasField("values") for value in few.values] == [False] * 5
    assert [value.HasField("values") for value in many.values] == [False] * 50
    await check_unchanged(rows)


@pytest.mark.parametrize("key", [b"", b"\x81", b"\xff" * 40, b"\x01\x00"])
async def test_bytes_that_are_no_key_are_not_inserted_by_a_lookup(rows, key):
    answer = await rows.looked_up([key], insert_if_not_exists=True)

    assert answer.error_code == CORRUPT, answer
    await check_unchanged(rows)


async def test_deleting_a_key_that_cannot_be_changes_nothing(rows):
    is_delete = np.array([True])
    records = build_kv_batch(
        RowBytes.of([b"\xff" * 9]), RowBytes.of([b""]), schema_id=1, is_delete=is_delete
    )

    await rows.send(records)

    assert await rows.row_count() == 1
    assert await rows.get(1) == [ANN]
