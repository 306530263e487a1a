"""What becomes of a row that is written again depends on the merge engine of its table."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.keyed import changelog, create_keyed, delete, lookup, shown, upsert
from tests.conformance.keyed import upsert_together as together

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("n", pa.int64())])
DELETION_DISABLED = 57


def row(name, n):
    return {"id": 1, "name": name, "n": n}


async def table_of(connection, path, engine=None, *, schema=SCHEMA, functions=None, **more):
    properties = {f"table.{name.replace('_', '-')}": value for name, value in more.items()}
    if engine is not None:
        properties["table.merge-engine"] = engine
    custom = {f"fields.{name}.agg": value for name, value in (functions or {}).items()}
    options = {"properties": properties, "custom_properties": custom}
    return await create_keyed(connection, path, schema, key=["id"], **options)


async def versioned(connection, path):
    properties = {
        "table.merge-engine": "versioned",
        "table.merge-engine.versioned.ver-column": "n",
    }
    return await create_keyed(connection, path, SCHEMA, key=["id"], properties=properties)


async def test_the_first_row_stays(connection, path):
    table = await table_of(connection, path, "first_row")

    await upsert(table, row("first", 1), row("second", 2))
    await together(table, [row("third", 3), {"id": 2, "name": "other", "n": 0}])
    await delete(table, {"id": 1})

    other = {"id": 2, "name": "other", "n": 0}
    assert await lookup(table, [1], [2]) == [row("first", 1), other]
    assert shown(await changelog(table, 2)) == [("+I", row("first", 1)), ("+I", other)]


async def test_a_row_with_a_smaller_version_is_passed_over(connection, path):
    table = await versioned(connection, path)

    await upsert(table, row("a", 5), row("late", 4), row("same", 5), row("b", 9))
    await delete(table, {"id": 1})

    assert await lookup(table, [1]) == [row("b", 9)]
    assert shown(await changelog(table, 5)) == [
        ("+I", row("a", 5)),
        ("-U", row("a", 5)),
        ("+U", row("same", 5)),
        ("-U", row("same", 5)),
        ("+U", row("b", 9)),
    ]


async def test_the_newest_version_of_one_batch_stays(connection, path):
    table = await versioned(connection, path)

    await together(table, [row("x", 1), row("newest", 9), row("y", 3), row("none", None)])

    assert await lookup(table, [1]) == [row("newest", 9)]


FOLDS = [
    ("sum", pa.int64(), [1, None, 5], 6),
    ("sum", pa.float64(), [0.5, 0.25], 0.75),
    ("product", pa.int32(), [2, 3, None, 7], 42),
    ("max", pa.string(), ["b", "a", None], "b"),
    ("min", pa.int16(), [3, -2, 9], -2),
    ("last_value", pa.string(), ["a", None], None),
    ("last_value_ignore_nulls", pa.string(), ["a", None], "a"),
    ("first_value", pa.string(), [None, "a", "b"], "a"),
    ("first_value_ignore_nulls", pa.string(), [None, "a", "b"], "a"),
    ("listagg", pa.string(), ["a", None, "b"], "a,b"),
    ("string_agg", pa.string(), ["a", "b"], "a,b"),
    ("bool_and", pa.bool_(), [True, None, False], False),
    ("bool_or", pa.bool_(), [False, None, True], True),
]


@pytest.mark.parametrize(("function", "kind", "values", "expected"), FOLDS)
async def test_columns_fold_row_by_row(connection, path, function, kind, values, expected):
    schema = pa.schema([("id", pa.int32()), ("v", kind)])
    table = await table_of(
        connection, path, "aggregation", schema=schema, functions={"v": function}
    )

    await upsert(table, *({"id": 1, "v": value} for value in values))
    await together(table, [{"id": 2, "v": value} for value in values])

    assert await lookup(table, [1], [2]) == [{"id": n, "v": expected} for n in (1, 2)]


async def test_the_changelog_shows_the_rows_that_folding_made(connection, path):
    table = await table_of(connection, path, "aggregation", functions={"n": "sum"})

    await upsert(table, row("a", 1), row(None, 2))

    assert shown(await changelog(table, 3)) == [
        ("+I", row("a", 1)),
        ("-U", row("a", 1)),
        ("+U", row("a", 3)),
    ]


async def test_a_partial_update_folds_its_columns_only(connection, path):
    table = await table_of(connection, path, "aggregation", functions={"n": "sum"})
    await upsert(table, row("a", 1))

    await upsert(table, {"id": 1, "n": 5}, {"id": 2, "n": 5}, columns=["id", "n"])

    assert await lookup(table, [1], [2]) == [row("a", 6), {"id": 2, "name": None, "n": 5}]


async def test_deletes_are_ignored_under_aggregation_unless_they_are_allowed(connection, path):
    table = await table_of(
        connection, path, "aggregation", functions={"n": "sum"}, **{"delete.behavior": "allow"}
    )
    other = fluss.TablePath("fluss", f"{path.table_name}_ignoring")
    ignoring = await table_of(connection, other, "aggregation", functions={"n": "sum"})

    for each in (table, ignoring):
        await upsert(each, row("a", 1))
        await delete(each, {"id": 1})
        await upsert(each, row("b", 2))

    assert await lookup(table, [1]) == [row("b", 2)]
    assert await lookup(ignoring, [1]) == [row("b", 3)]


async def test_deletes_can_be_ignored(connection, path):
    table = await table_of(connection, path, **{"delete.behavior": "ignore"})
    await upsert(table, row("a", 1))

    await delete(table, {"id": 1})

    assert await lookup(table, [1]) == [row("a", 1)]


async def test_deletes_can_be_refused(connection, path):
    table = await table_of(connection, path, **{"delete.behavior": "disable"})
    await upsert(table, row("a", 1))

    with pytest.raises(fluss.FlussError) as error:
        await delete(table, {"id": 1})

    assert error.value.error_code == DELETION_DISABLED
    assert await lookup(table, [1]) == [row("a", 1)]


async def test_partial_updates_need_an_engine_that_can_merge_them(connection, path):
    table = await table_of(connection, path, "first_row")

    with pytest.raises(fluss.FlussError):
        await upsert(table, {"id": 1, "n": 5}, columns=["id", "n"])

    assert await lookup(table, [1]) == [None]
