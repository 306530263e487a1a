"""Log tables: every engine gives the rows of lake and log, each once."""

from tests.engines.rows.world import SCHEMA, some

DAYS = {**SCHEMA, "day": "STRING"}


def on(day, *ids):
    return [{**row, "day": day} for row in some(*ids)]


def test_rows_of_lake_and_log_are_read_once(world, check):
    table = world.table()
    table.append(some(*range(10)))
    world.tier(table)
    table.append(some(*range(10, 15)))

    check(table.view(), some(*range(15)))


def test_a_table_that_was_never_tiered_is_read_from_its_log(world, check):
    table = world.table()
    table.append(some(1, 2))

    check(table.view(), some(1, 2))


def test_a_table_whose_log_has_nothing_new_is_read_from_the_lake(world, check):
    table = world.table()
    table.append(some(1, 2))
    world.tier(table)

    check(table.view(), some(1, 2))


def test_a_table_without_rows_has_none(world, check):
    table = world.table()

    check(table.view(), [])


def test_rows_that_are_tiered_after_the_view_are_read_once(world, check):
    table = world.table()
    table.append(some(1, 2))
    world.tier(table)
    table.append(some(3, 4))
    view = table.view()

    world.tier(table)
    table.append(some(5))

    check(view, some(1, 2, 3, 4))


def test_columns_that_came_went_and_changed_their_names_are_where_they_belong(world, check):
    table = world.table({**SCHEMA, "old": "INT"})
    table.append([{**row, "old": 1} for row in some(1, 2)])
    world.tier(table)
    table.add_column("tip", "DECIMAL(6, 2)")
    table.rename_column("city", "town")
    table.drop_column("old")
    world.tier(table)

    table.append([{"id": 3, "town": "Bonn", "amount": None, "tip": None}])

    rows = [{"id": row["id"], "town": row["city"], "amount": row["amount"]} for row in some(1, 2)]
    rows.append({"id": 3, "town": "Bonn", "amount": None})
    check(table.view(), [{**row, "tip": None} for row in rows])


def test_columns_that_swap_names_are_told_apart(world, check):
    table = world.table({"id": "BIGINT", "a": "STRING", "b": "STRING"})
    table.append([{"id": 1, "a": "x", "b": "y"}])
    world.tier(table)
    table.rename_column("a", "c")
    table.rename_column("b", "a")
    table.rename_column("c", "b")

    table.append([{"id": 2, "b": "x", "a": "y"}])

    check(table.view(), [{"id": 1, "b": "x", "a": "y"}, {"id": 2, "b": "x", "a": "y"}])


def test_partitions_of_lake_and_log_are_read(world, check):
    table = world.table(DAYS, partition_by="day", buckets=2)
    table.append(on("mon", 1, 2) + on("tue", 3))
    world.tier(table)
    table.append(on("tue", 4) + on("wed", 5))

    check(table.view(), on("mon", 1, 2) + on("tue", 3, 4) + on("wed", 5))


def test_rows_of_a_dropped_partition_stay_as_far_as_the_lake_has_them(world, check):
    table = world.table(DAYS, partition_by="day", buckets=2)
    table.append(on("mon", 1, 2) + on("tue", 3))
    world.tier(table)
    table.append(on("mon", 9))

    table.drop_partition({"day": "mon"})

    check(table.view(), on("mon", 1, 2) + on("tue", 3))


def test_names_of_columns_are_taken_letter_by_letter(world, check):
    odd = {
        "id": "BIGINT",
        "Größe": "INT",
        'a "b"': "INT",
        "x.y": "INT",
        "SELECT": "INT",
        "ID2": "INT",
    }
    table = world.table(odd)
    rows = [dict(zip(odd, range(at, at + 6), strict=True)) for at in range(4)]
    table.append(rows[:2])
    world.tier(table)

    table.append(rows[2:])

    check(table.view(), rows)
