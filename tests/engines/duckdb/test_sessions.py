"""Connections as people use them: threads, prepared statements, views, files, odd names."""

import json
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

import headwater
from headwater.engines.duckdb.install import ALIAS, function_name, install, refresh
from tests.engines.duckdb.world import World, some


def test_cursors_of_many_threads_read_at_once(world):
    log, keyed = world.table(), world.keyed()
    log.append(some(*range(20)))
    keyed.upsert(some(*range(20)))
    for table in (log, keyed):
        world.tier(table)
    log.append(some(*range(20, 30)))
    keyed.upsert(some(*range(10, 30)))
    reads = [world.read(log), world.read(keyed)]

    def count(number: int) -> tuple:
        with world.con.cursor() as cursor:
            sql = f"SELECT count(*), sum(id) FROM {reads[number % 2]} WHERE id >= {number % 3}"
            return (number % 3, *cursor.execute(sql).fetchone())

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(count, range(48)))

    assert found == {(0, 30, 435), (1, 29, 435), (2, 28, 434)}


def test_a_read_that_comes_twice_in_a_query_has_one_position(world):
    table = world.table()
    table.append(some(1))
    names = {"bootstrap": table.path.database, "database": table.path.table, "mode": "union"}

    def planned(query: int) -> str:
        text = json.dumps({**names, "table": None, "zone": "UTC", "query": query})
        return world.rows(f"SELECT {function_name(ALIAS, 'plan')}(?)", text)[0][0]

    first = planned(query=7)
    table.append(some(2))

    assert planned(query=7) == first
    assert planned(query=8) != first


def test_threads_that_meet_a_schema_first_make_one_relation(world):
    tables = [world.table({f"c{number}": "INT"}) for number in range(6)]
    for table in tables:
        table.append([(1,)])

    def count(table) -> int:
        with world.con.cursor() as cursor:
            return cursor.execute(f"SELECT count(*) FROM {world.read(table)}").fetchone()[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, tables * 4)) == [1] * 24


@pytest.mark.parametrize("is_tiered", [False, True])
def test_a_prepared_statement_sees_what_came_since(world, is_tiered):
    table = world.table()
    table.append(some(1))
    if is_tiered:
        world.tier(table)
    name = f"fresh_{table.path.table}"
    world.rows(f"PREPARE {name} AS SELECT count(*) FROM {world.read(table)}")
    world.rows(f"PREPARE {name}_where AS SELECT count(*) FROM {world.read(table)} WHERE id >= ?")

    found = []
    for number in range(2, 5):
        table.append(some(number))
        found += world.rows(f"EXECUTE {name}") + world.rows(f"EXECUTE {name}_where(2)")

    assert found == [(2,), (1,), (3,), (2,), (4,), (3,)]


def test_parameters_of_a_statement_name_the_table(world):
    table = world.table()
    table.append(some(1, 2))

    found = world.rows(
        "SELECT count(*) FROM fluss_read(?, ?) WHERE id > ?", "fluss", table.path.table, 1
    )

    assert found == [(1,)]


def test_a_view_of_ones_own_stays_fresh(world):
    table = world.keyed()
    table.upsert(some(1))
    name = f"mine_{table.path.table}"
    world.rows(f"CREATE VIEW {name} AS SELECT id, amount FROM {world.read(table)} WHERE id > 0")

    table.upsert(some(2, 3))
    world.tier(table)

    assert world.rows(f"SELECT count(*) FROM {name}") == [(3,)]


def test_each_statement_of_a_transaction_sees_what_is_there_then(world):
    table = world.table()
    table.append(some(1))
    sql = f"SELECT count(*) FROM {world.read(table)}"
    with world.con.cursor() as cursor:
        cursor.execute("BEGIN")
        first = cursor.execute(sql).fetchall()
        table.append(some(2))
        second = cursor.execute(sql).fetchall()
        cursor.execute("COMMIT")

    assert (first, second) == ([(1,)], [(2,)])


def test_relations_are_planned_when_they_are_fetched(world):
    table = world.table()
    relation = world.con.sql(f"SELECT * FROM {world.read(table)}").filter("id > 0")

    table.append(some(1, 2))

    assert relation.aggregate("count(*)").fetchall() == [(2,)]


def test_a_result_can_be_left_half_read(world):
    table = world.table()
    table.append(some(*range(5000)))
    with world.con.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {world.read(table)}").fetchone()

    assert world.rows(f"SELECT count(*) FROM {world.read(table)}") == [(5000,)]


ODD = {
    "select": "BIGINT",
    "it's": "STRING",
    'say "hi"': "STRING",
    "naïve 😀": "STRING",
    "a.b, c": "STRING",
    "__stream": "INT",
    "file_row_number": "BIGINT",
    "filename": "STRING",
}


@pytest.mark.parametrize("is_keyed", [False, True])
def test_columns_may_have_any_name(world, is_keyed):
    table = world.keyed(ODD) if is_keyed else world.table(ODD)
    write = table.upsert if is_keyed else table.append
    row = ("it's", '"', "😀", "\\", 7, 99, "/x")
    write([(n, *row) for n in range(4)])
    world.tier(table)
    write([(n, *row) for n in range(2, 6)])
    world.check(table)
    world.tier(table)
    write([(0, *row)])

    assert world.check(table) == (6 if is_keyed else 9)
    found = world.rows(
        f"SELECT count(*) FROM {world.read(table)} WHERE \"it's\" = 'it''s' AND"
        ' "say ""hi""" = \'"\' AND "naïve 😀" = \'😀\' AND "__stream" = 7 AND "select" = 5'
    )
    assert found == [(1,)]


def test_folders_may_have_any_name(tmp_path):
    world = World.open(tmp_path / "it's [1]*? é", "paimon")
    table = world.table({"id": "BIGINT", "day": "STRING"}, partition_by="day")
    table.append([(1, "a_b"), (2, "x-y")])
    world.tier(table)
    table.append([(3, "x-y")])

    found = world.check(table)
    world.close()

    assert found == 3


def test_a_database_in_a_file_can_be_installed_on_again_and_again(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", {"id": "INT"}).append([(1,), (2,)])
        counts = []
        for _ in range(2):
            with duckdb.connect(tmp_path / "mine.duckdb") as con:
                install(con, hw)
                install(con, hw)
                counts += con.execute("SELECT count(*) FROM fluss_read('fluss', 't')").fetchall()
                counts += con.cursor().execute("SELECT count(*) FROM hw.fluss.t").fetchall()

    assert counts == [(2,)] * 4


def test_a_database_that_may_only_be_read_can_be_installed_on(tmp_path):
    duckdb.connect(tmp_path / "mine.duckdb").close()
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", {"id": "INT"}).append([(1,)])
        with duckdb.connect(tmp_path / "mine.duckdb", read_only=True) as con:
            install(con, hw)

            found = con.execute("SELECT count(*) FROM fluss_read('fluss', 't')").fetchall()
            qualified = con.cursor().execute("FROM hw.fluss_read('fluss', 't')").fetchall()

    assert (found, qualified) == ([(1,)], [(1,)])


def test_two_storages_can_be_installed_under_two_names(tmp_path):
    with (
        headwater.open(tmp_path / "a") as one,
        headwater.open(tmp_path / "b") as other,
        duckdb.connect() as con,
    ):
        one.create_table("t", {"id": "INT"}).append([(1,)])
        other.create_table("t", {"id": "INT"}).append([(1,), (2,)])
        install(con, one, alias="east")
        install(con, other, alias="my west")

        found = con.execute(
            'SELECT (SELECT count(*) FROM east.fluss.t), (SELECT count(*) FROM "my west".fluss.t)'
        ).fetchall()

    assert found == [(1, 2)]


def test_the_catalog_follows_tables_that_come_change_and_go(tmp_path):
    with headwater.open(tmp_path) as hw, duckdb.connect() as con:
        hw.create_database("shop")
        orders = hw.create_table("shop.orders", {"id": "INT"})
        install(con, hw)
        orders.add_column("tip", "INT")
        hw.create_table("shop.new", {"id": "INT"})
        refresh(con)
        changed = con.execute("DESCRIBE hw.shop.orders").fetchall()
        listed = con.execute("SELECT view_name FROM duckdb_views() WHERE schema_name = 'shop'")
        names = sorted(listed.fetchall())
        hw.drop_database("shop", cascade=True)
        refresh(con)
        gone = con.execute("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'shop'")

        assert [row[0] for row in changed] == ["id", "tip"]
        assert names == [("new",), ("orders",)]
        assert gone.fetchall() == [(0,)]


def test_tables_that_people_make_in_the_catalog_are_left_alone(tmp_path):
    with headwater.open(tmp_path) as hw, duckdb.connect() as con:
        hw.create_database("shop")
        hw.create_table("shop.orders", {"id": "INT"})
        install(con, hw)
        con.execute("CREATE TABLE hw.shop.Mine AS SELECT 7 AS a")
        hw.create_table("shop.mine", {"id": "INT"})
        hw.create_table("shop.new", {"id": "INT"})
        refresh(con)
        listed = con.execute("SELECT view_name FROM duckdb_views() WHERE schema_name = 'shop'")
        names = sorted(listed.fetchall())
        hw.drop_database("shop", cascade=True)
        refresh(con)

        assert names == [("new",), ("orders",)]
        assert con.execute("FROM hw.shop.mine").fetchall() == [(7,)]


def test_a_table_that_people_drop_makes_room_for_one_of_the_storage(tmp_path):
    with headwater.open(tmp_path) as hw, duckdb.connect() as con:
        hw.create_table("other", {"id": "INT"})
        install(con, hw)
        con.execute("CREATE TABLE hw.fluss.t AS SELECT 7 AS a")
        hw.create_table("t", {"id": "INT"}).append([(1,)])
        refresh(con)
        con.execute("DROP TABLE hw.fluss.t")
        refresh(con)

        assert con.execute("FROM hw.fluss.t").fetchall() == [(1,)]


def test_a_view_follows_the_columns_of_its_table_by_itself(tmp_path):
    with headwater.open(tmp_path) as hw, duckdb.connect() as con:
        table = hw.create_table("t", {"id": "INT"})
        install(con, hw)
        table.add_column("tip", "INT")
        table.rename_column("id", "key")
        table.append([(1, 2)])

        found = con.execute("SELECT key, tip FROM hw.fluss.t").fetchall()

    assert found == [(1, 2)]


def test_installing_another_storage_takes_the_place_of_the_one_before(tmp_path):
    with (
        headwater.open(tmp_path / "a") as one,
        headwater.open(tmp_path / "b") as other,
        duckdb.connect() as con,
    ):
        one.create_table("old", {"id": "INT"})
        other.create_table("new", {"id": "INT"})
        install(con, one)
        install(con, other)

        found = con.execute("SELECT view_name FROM duckdb_views() WHERE database_name = 'hw'")

        assert ("old",) not in (names := found.fetchall())
        assert ("new",) in names


def test_a_directory_can_be_named_in_sql(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", {"id": "INT"}).append([(1,)])
    with duckdb.connect() as con:
        install(con)

        found = con.execute("FROM fluss_read(?, 'fluss', 't')", [str(tmp_path / "data")])

        assert found.fetchall() == [(1,)]
    headwater.engines.storages.close_opened()
