"""Every change of a row is in the changelog, in order and with its kind."""

import pyarrow as pa
import pytest

from tests.conformance.keyed import changelog, create_keyed, delete, lookup, shown, upsert
from tests.conformance.keyed import upsert_together as together

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])
ANN, ANNA = {"id": 1, "name": "ann", "score": 10}, {"id": 1, "name": "anna", "score": 10}
BOB = {"id": 2, "name": "bob", "score": None}
WAL = {"table.changelog.image": "WAL"}
ALL_CHANGES = [("+I", ANN), ("+I", BOB), ("-U", ANN), ("+U", ANNA), ("-D", BOB)]


async def changed(connection, path, **options):
    table = await create_keyed(connection, path, SCHEMA, key=["id"], **options)
    await upsert(table, ANN, BOB, ANNA)
    await delete(table, {"id": 2})
    return table


async def test_inserts_updates_and_deletes_show_the_rows_before_and_after(connection, path):
    table = await changed(connection, path)

    records = await changelog(table, 5)

    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert shown(records) == ALL_CHANGES
    assert all(record.timestamp > 0 for record in records)


@pytest.mark.parametrize("offset", range(5))
async def test_a_changelog_is_read_from_any_offset(connection, path, offset):
    table = await changed(connection, path)

    records = await changelog(table, 5 - offset, offset=offset)

    assert shown(records) == ALL_CHANGES[offset:]


async def test_changes_of_one_batch_follow_the_order_of_its_records(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])

    writer = table.new_upsert().create_writer()
    for row in (ANN, BOB, ANNA):
        writer.upsert(row)
    writer.delete({"id": 2})
    await writer.flush()

    assert shown(await changelog(table, 5)) == ALL_CHANGES


async def test_a_wal_image_leaves_out_the_rows_before_updates(connection, path):
    table = await changed(connection, path, properties=WAL)

    records = await changelog(table, 4)

    # An insert shows as an update here, because the row before is not looked at.
    assert shown(records) == [("+U", ANN), ("+U", BOB), ("+U", ANNA), ("-D", BOB)]
    assert await lookup(table, [1], [2]) == [ANNA, None]


@pytest.mark.parametrize("columns", [["name"], ["score", "id"], ["score", "name", "id"]])
async def test_a_changelog_is_read_with_a_projection(connection, path, columns):
    table = await changed(connection, path)

    records = await changelog(table, 5, scan=table.new_scan().project_by_name(columns))

    expected = [(kind, {name: row[name] for name in columns}) for kind, row in ALL_CHANGES]
    assert shown(records) == expected


async def test_a_batch_that_changes_nothing_takes_one_offset_and_the_scan_goes_on(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])
    await upsert(table, ANN)
    await delete(table, {"id": 7}, {"id": 8})
    await upsert(table, BOB)

    records = await changelog(table, 2)

    assert [record.offset for record in records] == [0, 3]
    assert shown(records) == [("+I", ANN), ("+I", BOB)]


async def test_a_scan_that_starts_at_a_batch_without_changes_goes_on_behind_it(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])
    await delete(table, {"id": 7}, {"id": 8}, {"id": 9})
    await upsert(table, BOB)

    records = await changelog(table, 1, offset=1)

    assert [(record.offset, record.row) for record in records] == [(3, BOB)]


async def test_a_changelog_is_followed_while_rows_change(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, 0)
    seen = []

    for number in range(20):
        await upsert(table, {"id": 1, "name": "x", "score": number})
        while not seen or seen[-1].row["score"] < number:
            seen += list(await scanner.poll(5_000))

    assert [kind for kind, _ in shown(seen)] == ["+I", *["-U", "+U"] * 19]
    assert [record.offset for record in seen] == list(range(39))


async def test_a_long_changelog_folds_to_what_lookups_see(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])
    for turn in range(4):
        rows = [{"id": n, "name": f"{turn}", "score": n * turn} for n in range(0, 500, turn + 1)]
        await together(table, rows)

    records = await changelog(table, 500 + 2 * (250 + 167 + 125))

    folded = {}
    for kind, row in shown(records):
        if kind == "-U":
            assert folded[row["id"]] == row
        folded[row["id"]] = row
    assert await lookup(table, *([n] for n in range(0, 500, 13))) == [
        folded[n] for n in range(0, 500, 13)
    ]
