"""What people expect of a table in DuckDB: the list that the extension for Apache Fluss passes."""

import duckdb
import pytest

import headwater
from headwater.engines.duckdb.install import install
from tests.engines.duckdb.world import some


@pytest.fixture(params=("log", "keyed"))
def table(world, request) -> headwater.Table:
    """Ten rows, seven of them in the lake; by key two were changed since and one is gone."""
    if request.param == "log":
        made = world.table()
        made.append(some(*range(7)))
        world.tier(made)
        made.append(some(7, 8, 9))
        return made
    made = world.keyed()
    made.upsert(some(*range(5), 100, 101, city="old"))
    world.tier(made)
    made.upsert(some(*range(3, 10)))
    made.upsert(some(*range(3)))
    made.delete([{"id": 100}, {"id": 101}])
    return made


def test_reading_before_it_is_installed_is_an_error_of_duckdb():
    with duckdb.connect() as con, pytest.raises(duckdb.CatalogException, match="fluss_read"):
        con.execute("SELECT * FROM fluss_read('127.0.0.1:9123', 'fluss', 't')")


def test_all_rows_come(world, table):
    found = world.rows(f"SELECT * FROM {world.read(table)} ORDER BY id")

    assert found == [(n, f"Ulm{n}", n / 2) for n in range(10)]


def test_limit_gives_so_many_rows(world, table):
    assert len(world.rows(f"SELECT * FROM {world.read(table)} LIMIT 4")) == 4
    assert len(world.rows(f"SELECT * FROM {world.read(table)} LIMIT 0")) == 0
    assert len(world.rows(f"SELECT * FROM {world.read(table)} LIMIT 100 OFFSET 8")) == 2


def test_count_counts_every_row_once(world, table):
    assert world.rows(f"SELECT count(*) FROM {world.read(table)}") == [(10,)]


def test_a_condition_that_never_holds_gives_nothing(world, table):
    found = world.con.execute(f"SELECT * FROM {world.read(table)} WHERE 1 = 0")

    assert [name for name, *_ in found.description] == ["id", "city", "amount"]
    assert found.fetchall() == []


def test_describe_tells_names_and_types(world, table):
    found = world.rows(f"DESCRIBE SELECT * FROM {world.read(table)}")

    assert [row[:2] for row in found] == [
        ("id", "BIGINT"),
        ("city", "VARCHAR"),
        ("amount", "DOUBLE"),
    ]


def test_a_common_table_expression_can_be_joined_with_itself(world, table):
    found = world.rows(
        f"WITH r AS (SELECT * FROM {world.read(table)})"
        " SELECT count(*), sum(a.amount) FROM r AS a JOIN r AS b USING (id)"
    )

    assert found == [(10, 22.5)]


def test_a_subquery_reads_it(world, table):
    found = world.rows(
        f"SELECT id FROM (SELECT * FROM {world.read(table)} WHERE id > 3) AS s"
        f" WHERE amount = (SELECT max(amount) FROM {world.read(table)})"
    )

    assert found == [(9,)]


def test_rows_can_be_ordered(world, table):
    found = world.rows(f"SELECT id FROM {world.read(table)} ORDER BY amount DESC LIMIT 3")

    assert found == [(9,), (8,), (7,)]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id = 2", [2]),
        ("id = 8", [8]),
        ("id BETWEEN 5 AND 8", [5, 6, 7, 8]),
        ("id IN (1, 9, 77)", [1, 9]),
        ("city LIKE '%m4'", [4]),
        ("city >= 'Ulm8'", [8, 9]),
        ("amount > 3.9", [8, 9]),
        ("amount <> 4 AND id > 6", [7, 9]),
        ("id IS NULL", []),
        ("id = 1 OR city = 'Ulm7'", [1, 7]),
        ("id % 4 = 1", [1, 5, 9]),
        ("city = '(__stream == 1)'", []),
    ],
)
def test_a_filter_leaves_out_what_does_not_pass(world, table, condition, ids):
    found = world.rows(f"SELECT id FROM {world.read(table)} WHERE {condition} ORDER BY id")

    assert [number for (number,) in found] == ids


def test_one_column_can_be_read(world, table):
    found = world.rows(f"SELECT city FROM {world.read(table)} ORDER BY 1")

    assert found == [(f"Ulm{n}",) for n in range(10)]


def test_repeated_reads_give_the_same(world, table):
    sql = f"SELECT * FROM {world.read(table)} ORDER BY id"

    assert world.rows(sql) == world.rows(sql) == world.rows(sql)


def test_it_can_be_written_with_the_address_of_the_server(world, table):
    address = world.hw.address
    with duckdb.connect() as con:
        install(con, lake=world.lake)

        found = con.execute(
            "SELECT count(*) FROM fluss_read(?, 'fluss', ?)", [address, table.path.table]
        ).fetchall()

    assert found == [(10,)]


def test_rows_can_be_copied_into_a_table(world, table):
    world.rows(f"CREATE OR REPLACE TEMP TABLE copied AS SELECT * FROM {world.read(table)}")

    assert world.rows("SELECT count(*), sum(id) FROM copied") == [(10, 45)]
