"""Tables by key: every engine gives the last row of each key, and no deleted one."""

import math

import pytest

from tests.engines.rows.world import SCHEMA, some

PAIRS = {"shop": "STRING", "id": "BIGINT", "amount": "DOUBLE"}


def pairs(*keys, amount=0.0):
    return [{"shop": shop, "id": number, "amount": amount} for shop, number in keys]


def test_changes_since_the_lake_replace_add_and_delete_rows(world, check):
    table = world.keyed()
    table.upsert(some(*range(10)))
    world.tier(table)

    table.upsert(some(3, 4, 20, city="Bonn"))
    table.delete([{"id": 4}, {"id": 5}])

    kept = some(0, 1, 2, 6, 7, 8, 9)
    check(table.view(), kept + some(3, 20, city="Bonn"))


def test_rows_that_the_lake_itself_replaced_or_deleted_stay_away(world, check):
    table = world.keyed()
    table.upsert(some(*range(10)))
    world.tier(table)
    table.upsert(some(3, 4, 20, city="Bonn"))
    table.delete([{"id": 5}])
    world.tier(table)

    table.upsert(some(7, 20, city="Rom"))

    kept = some(0, 1, 2, 6, 8, 9) + some(3, 4, city="Bonn")
    check(table.view(), kept + some(7, 20, city="Rom"))


def test_a_row_that_came_back_is_there_once(world, check):
    table = world.keyed()
    table.upsert(some(1, 2))
    world.tier(table)

    table.delete([{"id": 1}])
    table.upsert(some(1, city="Bonn"))

    check(table.view(), some(2) + some(1, city="Bonn"))


def test_rows_are_told_apart_by_all_columns_of_the_key(world, check):
    table = world.keyed(PAIRS, primary_key=("shop", "id"), bucket_by="shop")
    table.upsert(pairs(("a", 1), ("a", 2), ("b", 1), ("b", 2)))
    world.tier(table)

    table.upsert(pairs(("a", 2), ("c", 1), amount=5.0))
    table.delete([{"shop": "b", "id": 1}])

    check(table.view(), pairs(("a", 1), ("b", 2)) + pairs(("a", 2), ("c", 1), amount=5.0))


def test_partitions_by_key_are_merged_each_on_its_own(world, check):
    table = world.keyed(PAIRS, primary_key=("shop", "id"), partition_by="shop", buckets=2)
    table.upsert(pairs(("a", 1), ("a", 2), ("b", 1), ("b", 2)))
    world.tier(table)

    table.upsert(pairs(("a", 2), ("c", 2), amount=5.0))
    table.delete([{"shop": "b", "id": 2}])

    check(table.view(), pairs(("a", 1), ("b", 1)) + pairs(("a", 2), ("c", 2), amount=5.0))


def test_keys_of_floats_are_told_apart_by_their_bits(world, check):
    if world.format == "iceberg":
        return  # which has no buckets by floats
    table = world.keyed({"at": "DOUBLE", "text": "STRING"})
    rows = [{"at": at, "text": "lake"} for at in (0.0, -0.0, math.nan, 1.5)]
    table.upsert(rows)
    world.tier(table)

    table.upsert([{"at": 0.0, "text": "log"}, {"at": math.nan, "text": "log"}])

    kept = [{"at": -0.0, "text": "lake"}, {"at": 1.5, "text": "lake"}]
    check(table.view(), [*kept, {"at": 0.0, "text": "log"}, {"at": math.nan, "text": "log"}])


def test_a_column_that_came_later_is_null_in_the_lake(world, check):
    table = world.keyed()
    table.upsert(some(1, 2, 3))
    world.tier(table)
    table.add_column("tip", "INT")

    table.upsert([{**some(2)[0], "tip": 7}])

    rows = [{**row, "tip": 7 if row["id"] == 2 else None} for row in some(1, 2, 3)]
    check(table.view(), rows)


def test_a_table_by_key_that_was_never_tiered_is_read_from_the_storage(world, check):
    table = world.keyed(SCHEMA)
    table.upsert(some(1, 2))
    table.delete([{"id": 1}])

    check(table.view(), some(2))


@pytest.mark.parametrize("key", ["ID", "x.y", 'a "b"', "Größe", "select"])
def test_names_of_keys_are_taken_letter_by_letter(world, check, key):
    table = world.keyed({key: "BIGINT", "text": "STRING"})
    table.upsert([{key: number, "text": "lake"} for number in range(4)])
    world.tier(table)
    table.add_column("later", "INT")  # so that engines have to name the others

    table.upsert([{key: 2, "text": "log", "later": 1}])

    rows = [{key: number, "text": "lake", "later": None} for number in (0, 1, 3)]
    check(table.view(), [*rows, {key: 2, "text": "log", "later": 1}])
