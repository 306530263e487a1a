"""Lake and log as one table: what lies in which of them is never seen."""

from decimal import Decimal

import pytest

import headwater.duckdb
from tests.engines.duckdb.world import some


@pytest.mark.parametrize("buckets", [1, 7])
def test_rows_of_many_buckets_come_once(world, buckets):
    table = world.table(buckets=buckets)
    table.append(some(*range(50)))
    world.tier(table)
    table.append(some(*range(50, 90)))

    assert world.check(table) == 90


def test_a_table_without_a_snapshot_is_read_from_the_log(world):
    log, keyed = world.table(), world.keyed()
    log.append(some(1, 2))
    keyed.upsert(some(1, 2))
    keyed.upsert(some(2, city="Bonn"))

    assert world.check(log) == 2
    assert world.check(keyed) == 2


def test_an_empty_table_has_columns_and_no_rows(world):
    for table in (world.table(), world.keyed()):
        assert world.check(table) == 0
        assert len(world.rows(f"DESCRIBE SELECT * FROM {world.read(table)}")) == 3


def test_an_empty_tail_leaves_the_files_alone(world):
    log, keyed = world.table(), world.keyed()
    log.append(some(*range(5)))
    keyed.upsert(some(*range(5)))
    for table in (log, keyed):
        world.tier(table)

    assert [world.check(log), world.check(keyed)] == [5, 5]


def test_a_round_between_plan_and_scan_changes_nothing(world):
    table = world.keyed()
    table.upsert(some(*range(10)))
    world.tier(table)
    table.upsert(some(3, 4, 20))

    planned = world.con.sql(f"SELECT count(*), sum(amount) FROM {world.read(table)}")
    world.tier(table)

    assert planned.fetchall() == [(11, 32.5)]


def test_updates_and_deletes_by_key_are_seen_at_once(world):
    table = world.keyed()
    table.upsert(some(*range(10)))
    world.tier(table)
    read = f"SELECT city FROM {world.read(table)} WHERE id = 4"

    before = world.rows(read)
    table.upsert(some(4, city="Bonn"))
    after = world.rows(read)
    table.delete([{"id": 4}])

    assert (before, after, world.rows(read)) == ([("Ulm4",)], [("Bonn4",)], [])


def test_rows_by_key_are_right_through_rounds_that_replace_and_delete(world):
    table = world.keyed()
    for turn in range(4):
        table.upsert(some(*range(turn * 5, turn * 5 + 10), city=f"turn{turn}-"))
        table.delete([{"id": turn}])
        world.check(table)
        if turn < 3:
            world.tier(table)
            world.check(table)

    assert world.check(table) == 21


def test_a_key_that_comes_back_after_its_delete_is_there_once(world):
    table = world.keyed()
    table.upsert(some(1, 2))
    world.tier(table)
    table.delete([{"id": 1}])
    world.tier(table)
    table.upsert(some(1, city="back"))

    assert world.check(table) == 2


def test_keys_of_several_columns_are_told_apart(world):
    schema = {"a": "STRING", "b": "INT", "v": "BIGINT"}
    table = world.keyed(schema, primary_key=["a", "b"], bucket_by="a")
    table.upsert([("x", 1, 10), ("x", 2, 20), ("y", 1, 30), ("y", 2, 40)])
    world.tier(table)
    table.upsert([("x", 2, 21)])
    table.delete([{"a": "y", "b": 1}])

    assert world.check(table) == 3


def test_columns_that_were_added_renamed_and_dropped_are_as_they_are_now(world):
    log, keyed = world.table(), world.keyed()
    for table, write in ((log, log.append), (keyed, keyed.upsert)):
        write(some(*range(5)))
        world.tier(table)
        table.add_column("tip", "DECIMAL(6, 2)")
        write([(10, "Jena", 1.5, Decimal("0.25"))])
        world.check(table)
        table.rename_column("city", "place")
        table.drop_column("amount")
        write([(11, "Gera", Decimal("0.50"))])

        assert world.check(table) == 7
        world.tier(table)
        assert world.check(table) == 7
        assert world.arrow(f"FROM {world.read(table)}").column_names == ["id", "place", "tip"]


def test_a_column_that_takes_the_name_of_a_dropped_one_has_none_of_its_values(world):
    table = world.table()
    table.append(some(1, 2))
    world.tier(table)
    table.drop_column("city")
    table.add_column("city", "INT")
    table.append([(3, 1.5, 42)])

    assert world.check(table) == 3
    assert world.rows(f"SELECT city FROM {world.read(table)} WHERE city IS NOT NULL") == [(42,)]


@pytest.mark.parametrize("is_keyed", [False, True])
def test_partitions_of_lake_and_log_come_together(world, is_keyed):
    schema = {"id": "BIGINT", "day": "STRING", "amount": "DOUBLE"}
    traits = {"primary_key": ["id", "day"]} if is_keyed else {}
    table = world.table(schema, partition_by="day", **traits)
    write = table.upsert if is_keyed else table.append
    write([(n, f"d{n % 3}", n / 2) for n in range(12)])
    world.tier(table)
    write([(n, f"d{n % 4}", -1.0) for n in range(8)])

    assert world.check(table) == (17 if is_keyed else 20)
    assert world.rows(f"SELECT count(*) FROM {world.read(table)} WHERE day = 'd3'") == [(2,)]


def test_rows_of_a_dropped_partition_stay_as_far_as_the_lake_has_them(world):
    schema = {"id": "BIGINT", "day": "STRING"}
    table = world.table(schema, partition_by="day")
    table.append([(n, f"d{n % 2}") for n in range(10)])
    world.tier(table)
    table.append([(n, f"d{n % 2}") for n in range(10, 14)])
    table.drop_partition({"day": "d0"})

    assert world.check(table) == 12


def test_folders_that_look_like_partitions_are_no_columns(world):
    schema = {"id": "BIGINT", "day": "INT"}
    table = world.table(schema, partition_by="day")
    table.append([(1, 7), (2, 8)])
    world.tier(table)

    found = world.arrow(f"FROM {world.read(table)} ORDER BY id")

    assert found.to_pydict() == {"id": [1, 2], "day": [7, 8]}


def test_two_tables_can_be_joined(world):
    orders, customers = world.table(), world.keyed({"id": "BIGINT", "name": "STRING"})
    orders.append(some(*range(6)))
    customers.upsert([(n, f"c{n}") for n in range(6)])
    for table in (orders, customers):
        world.tier(table)
    orders.append(some(1, 1))
    customers.upsert([(1, "changed")])

    found = world.rows(
        f"SELECT c.name, count(*) FROM {world.read(orders)} AS o"
        f" JOIN {world.read(customers)} AS c USING (id) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2"
    )

    assert found == [("changed", 3), ("c0", 1)]


def test_two_reads_in_one_query_see_one_position(world):
    table = world.keyed()
    table.upsert(some(*range(5)))
    world.tier(table)
    table.upsert(some(2, 9))
    one = world.read(table)

    found = world.rows(
        f"SELECT (SELECT count(*) FROM {one}), (SELECT count(*) FROM {one}),"
        f" (SELECT count(*) FROM {one} AS a FULL JOIN {one} AS b USING (id)"
        "  WHERE a.id IS NULL OR b.id IS NULL)"
    )

    assert found == [(6, 6, 0)]


def test_a_row_that_was_appended_is_in_the_next_query(world):
    table = world.table()
    table.append(some(1))
    world.tier(table)

    seen = []
    for number in range(2, 6):
        table.append(some(number))
        seen += world.rows(f"SELECT count(*) FROM {world.read(table)}")

    assert seen == [(2,), (3,), (4,), (5,)]


def test_a_catalog_of_views_has_every_table(world):
    table = world.keyed()
    table.upsert(some(1, 2))
    headwater.duckdb.refresh(world.con)

    found = world.rows(f"SELECT count(*) FROM hw.fluss.{table.path.table}")
    listed = world.rows("SELECT table_name FROM information_schema.tables")

    assert found == [(2,)]
    assert (table.path.table,) in listed


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_zero_and_minus_zero_are_two_keys(world, kind):
    # Iceberg cannot bucket by a number with a point.
    schema = {"id": "INT", "level": kind, "city": "STRING"}
    table = world.keyed(schema, primary_key=("id", "level"), bucket_by="id")
    table.upsert([(7, 0.0, "Ulm"), (7, -0.0, "Bonn"), (7, 1.0, "Jena")])
    world.tier(table)
    table.upsert([(7, -0.0, "Kiel")])
    table.delete([(7, 1.0)])

    found = world.rows(f"SELECT CAST(level AS VARCHAR), city FROM {world.read(table)}")

    assert sorted(found) == [("-0.0", "Kiel"), ("0.0", "Ulm")]
