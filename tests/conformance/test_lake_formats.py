"""Tables in a lake format through the Fluss client.

Where its buckets differ from those of the Java client (a hash that it reads without its sign), the
table has one bucket, in which every row is found.
"""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.keyed import create_keyed, delete, lookup, upsert

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
WORDS = pa.schema([("word", pa.string()), ("count", pa.int32())])
FORMATS = ("paimon", "iceberg")


def tiered(lake: str) -> dict[str, str]:
    return {"table.datalake.enabled": "true", "table.datalake.format": lake}


@pytest.mark.parametrize("lake", FORMATS)
async def test_rows_are_upserted_found_and_deleted(connection, path, lake):
    table = await create_keyed(connection, path, SCHEMA, key=["id"], properties=tiered(lake))
    rows = [{"id": number, "name": str(number)} for number in (1, -2, 2**40)]
    await upsert(table, *rows)

    await upsert(table, {"id": -2, "name": "new"})
    await delete(table, {"id": 1})

    found = await lookup(table, {"id": 1}, {"id": -2}, {"id": 2**40})
    assert found == [None, {"id": -2, "name": "new"}, rows[2]]


@pytest.mark.parametrize("lake", FORMATS)
async def test_rows_are_found_by_words_of_any_length(connection, path, lake):
    table = await create_keyed(connection, path, WORDS, key=["word"], properties=tiered(lake))
    rows = [{"word": word, "count": len(word)} for word in ("a", "seven c", "longer than that")]

    await upsert(table, *rows)

    assert await lookup(table, *({"word": row["word"]} for row in rows)) == rows


async def test_what_was_tiered_is_told(connection, admin, path):
    await create_keyed(connection, path, SCHEMA, key=["id"], properties=tiered("paimon"))

    with pytest.raises(fluss.FlussError, match="not been tiered yet"):
        await admin.get_latest_lake_snapshot(path)
