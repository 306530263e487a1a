"""Tables in DataFusion: by function, by catalog and by name."""

import datafusion
import pyarrow as pa
import pytest
from datafusion import SessionContext

import headwater
import headwater.datafusion
from headwater.engines.storages import close_opened
from tests.engines.rows.world import World, some

pytest.importorskip("pyiceberg")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    opened = World.open(tmp_path_factory.mktemp("datafusion"), "iceberg")
    yield opened
    opened.hw.close()
    close_opened()


@pytest.fixture(scope="module")
def ctx(world) -> SessionContext:
    made = SessionContext(datafusion.SessionConfig().with_information_schema())
    headwater.datafusion.install(made, world.hw, lake=world.lake)
    return made


@pytest.fixture(scope="module")
def log(world) -> headwater.Table:
    table = world.table()
    table.append(some(*range(100)))
    world.tier(table)
    table.append(some(*range(100, 120)))
    return table


@pytest.fixture(scope="module")
def keyed(world) -> headwater.Table:
    table = world.keyed()
    table.upsert(some(*range(100)))
    world.tier(table)
    table.upsert(some(*range(90, 110), city="Bonn"))
    return table


def rows(ctx: SessionContext, sql: str) -> list[dict]:
    return ctx.sql(sql).to_arrow_table().to_pylist()


def name(table: headwater.Table) -> str:
    return f"hw.{table.path}"


def test_tables_are_found_by_function_and_by_catalog(world, ctx, log):
    calls = (
        f"fluss_read('{world.hw.address}', 'fluss', '{log.path.table}')",
        f"fluss_read('fluss', '{log.path.table}')",
        name(log),
    )

    for call in calls:
        assert rows(ctx, f"SELECT count(*) AS n FROM {call}") == [{"n": 120}]


def test_queries_are_answered(ctx, log, keyed):
    assert rows(ctx, f"SELECT id FROM {name(log)} ORDER BY amount DESC LIMIT 2") == [
        {"id": 119},
        {"id": 118},
    ]
    assert len(rows(ctx, f"SELECT * FROM {name(log)} WHERE city LIKE '%m7'")) == 1
    assert len(rows(ctx, f"SELECT * FROM {name(log)} LIMIT 7")) == 7
    assert rows(ctx, f"SELECT * FROM {name(log)} WHERE 1 = 0") == []
    assert rows(ctx, f"SELECT * FROM {name(keyed)} WHERE id = 95") == some(95, city="Bonn")
    assert rows(ctx, f"SELECT count(*) AS n FROM {name(keyed)}") == [{"n": 110}]


def test_tables_are_joined_in_subqueries_and_with_names_of_their_own(ctx, log, keyed):
    sql = f"""
        WITH l AS (SELECT id FROM {name(log)} WHERE id >= 95)
        SELECT count(*) AS n, sum(k.amount) AS total FROM l JOIN {name(keyed)} AS k USING (id)
    """

    assert rows(ctx, sql) == [{"n": 15, "total": sum(range(95, 110)) / 2}]


def test_columns_and_filters_reach_the_files(ctx, log):
    (logical, physical) = rows(ctx, f"EXPLAIN SELECT amount FROM {name(log)} WHERE id > 7")

    assert "projection=[id, amount]" in logical["plan"]
    assert "file_type=parquet" in physical["plan"]
    assert "predicate=id@0 > 7" in physical["plan"]


def test_changed_keys_are_what_a_join_holds_in_memory(ctx, keyed):
    (_, physical) = rows(ctx, f"EXPLAIN SELECT amount FROM {name(keyed)}")

    assert "RightAnti" in physical["plan"]


def test_each_query_sees_what_is_there(world, ctx):
    table = world.table()
    count = f"SELECT count(*) AS n FROM {name(table)}"
    seen = [rows(ctx, count)]
    table.append(some(1))
    seen.append(rows(ctx, count))
    world.tier(table)
    table.append(some(2))
    seen.append(rows(ctx, count))

    assert seen == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]


def test_a_mode_and_a_token_choose_the_rows(world, ctx, log):
    token = log.view().token()
    call = f"fluss_read('{world.hw.address}', 'fluss', '{log.path.table}'"

    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, 'lake')") == [{"n": 100}]
    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, 'union', '{token}')") == [{"n": 120}]
    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, NULL, NULL)") == [{"n": 120}]


def test_a_mode_and_a_token_choose_rows_of_the_installed_storage(ctx, log):
    token = log.view().token()
    call = f"fluss_read('fluss', '{log.path.table}'"

    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, 'lake')") == [{"n": 100}]
    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, 'UNION', '{token}')") == [{"n": 120}]
    assert rows(ctx, f"SELECT count(*) AS n FROM {call}, NULL, '{token}')") == [{"n": 120}]


def test_a_table_may_be_called_like_a_mode(world, ctx):
    table = world.hw.create_table("lake", {"id": "INT"})
    table.append([(1,), (2,)])

    for call in ("'fluss', 'lake'", f"'{world.hw.address}', 'fluss', 'lake'"):
        assert rows(ctx, f"SELECT count(*) AS n FROM fluss_read({call})") == [{"n": 2}]


def test_a_registered_table_keeps_its_position(world):
    ctx, table = SessionContext(), world.keyed()
    table.upsert(some(1, 2))
    headwater.datafusion.register(ctx, "then", table)
    headwater.datafusion.register(ctx, "viewed", table.view())

    table.delete([{"id": 1}])

    assert rows(ctx, "SELECT count(*) AS n FROM then") == [{"n": 2}]
    assert rows(ctx, "SELECT count(*) AS n FROM viewed") == [{"n": 2}]


def test_tables_are_listed_and_described(ctx, log):
    listed = rows(ctx, "SELECT table_schema FROM information_schema.tables")
    described = rows(ctx, f"DESCRIBE {name(log)}")

    assert {"table_schema": "fluss"} in listed
    assert [row["column_name"] for row in described] == ["id", "city", "amount"]


def test_several_contexts_do_not_know_each_other(world, log):
    with pytest.raises(ValueError, match="not found"):
        SessionContext().sql(f"SELECT * FROM {name(log)}")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("fluss_read('fluss', 'nothing')", "nothing"),
        ("hw.fluss.nothing", "nothing"),
        ("hw.nothing.t", "not found"),
        ("fluss_read('a')", "1 arguments"),
        ("fluss_read('fluss', 't0', 'both')", "no mode 'both'"),
        ("fluss_read('', 'fluss', 't0')", "without bootstrap"),
        ("fluss_read(1, 'fluss', 't0')", "takes texts"),
        ("fluss_read('/nowhere', 'fluss', 't0')", "no directory"),
        ("fluss_read('127.0.0.1:1', 'fluss', 't0', 'both')", "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_read_is_said_with_a_hint(ctx, log, call, text):
    with pytest.raises(ValueError, match=text):
        ctx.sql(f"SELECT * FROM {call.replace('t0', log.path.table)}")


@pytest.mark.usefixtures("log")
def test_what_is_said_is_short(ctx):
    with pytest.raises(ValueError, match=r"nothing.*The tables are") as caught:
        ctx.sql("SELECT * FROM fluss_read('fluss', 'nothing')")

    # DataFusion adds where it was raised: one place at least.
    assert str(caught.value).count("line ") == 1


@pytest.mark.parametrize(("rest", "text"), [("'both'", "both"), ("'union', 'rubbish'", "token")])
def test_a_bad_position_is_said_with_a_hint(world, ctx, log, rest, text):
    call = f"fluss_read('{world.hw.address}', 'fluss', '{log.path.table}', {rest})"

    with pytest.raises(ValueError, match=text):
        ctx.sql(f"SELECT * FROM {call}")


def test_types_are_those_that_datafusion_reads_from_files(ctx, log):
    schema = ctx.sql(f"SELECT * FROM {name(log)}").to_arrow_table().schema

    assert schema.types == [pa.int64(), pa.string_view(), pa.float64()]
