"""Tables as lazy frames: what reaches the files and the log, and what is said when it cannot."""

import polars as pl
import pytest

import headwater
import headwater.polars
from headwater.engines.storages import close_opened
from tests.engines.rows.world import World, some

pytest.importorskip("pyiceberg")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    opened = World.open(tmp_path_factory.mktemp("polars"), "iceberg")
    yield opened
    opened.hw.close()
    close_opened()


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


def test_columns_and_filters_reach_the_files(log):
    frame = headwater.polars.scan(log)

    plan = frame.filter(pl.col("id") > 7).select("amount").explain()

    assert "Parquet SCAN" in plan
    assert plan.count("PROJECT 2/3 COLUMNS") == 2  # of the files, and of the log
    assert plan.count('SELECTION: col("id") > 7') == 2


def test_filters_reach_the_files_beside_changed_keys(keyed):
    plan = headwater.polars.scan(keyed).filter(pl.col("city") == "Ulm3").explain()

    assert plan.count('col("city") == "Ulm3"') == plan.count("SELECTION") == 4
    assert "is_in" in plan
    assert "FILTER" not in plan


def test_queries_are_answered(log, keyed):
    rows, by_key = headwater.polars.scan(log), headwater.polars.scan(keyed)

    assert rows.select(pl.len()).collect().item() == 120
    assert rows.filter(pl.col("id").is_between(95, 104)).collect()["id"].sort().to_list() == list(
        range(95, 105)
    )
    assert rows.filter(pl.col("city").str.ends_with("m7")).collect().height == 1
    assert rows.top_k(2, by="amount").select("id").collect()["id"].to_list() == [119, 118]
    assert by_key.select(pl.len()).collect().item() == 110
    assert by_key.filter(pl.col("city").str.starts_with("Bonn")).collect().height == 20
    assert by_key.filter(pl.col("id") == 95).collect().to_dicts() == some(95, city="Bonn")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_engines_of_polars_agree(log, keyed, engine):
    joined = headwater.polars.scan(log).join(headwater.polars.scan(keyed), on="id")

    total = joined.select(pl.col("amount").sum(), pl.len()).collect(engine=engine)

    assert total.rows() == [(sum(range(110)) / 2, 110)]


def test_a_limit_reads_no_more_than_it_needs(log):
    assert headwater.polars.scan(log).head(3).collect().height == 3
    assert headwater.polars.scan(log).head(110).collect().height == 110
    assert headwater.polars.scan(log).head(0).collect().height == 0


def test_a_frame_keeps_its_position(world):
    table = world.table()
    table.append(some(1))
    frame = headwater.polars.scan(table)

    table.append(some(2))
    world.tier(table)

    assert frame.collect().to_dicts() == some(1)
    assert headwater.polars.scan(table).select(pl.len()).collect().item() == 2


def test_a_token_gives_the_rows_of_its_moment(world):
    table = world.keyed()
    table.upsert(some(1, 2))
    token = table.view().token()
    table.delete([{"id": 1}])

    frame = headwater.polars.scan(table, token=token)

    assert sorted(frame.collect()["id"].to_list()) == [1, 2]


def test_lake_and_log_can_be_read_apart(log):
    assert headwater.polars.scan(log, mode="lake").select(pl.len()).collect().item() == 100
    assert headwater.polars.scan(log, mode="log").select(pl.len()).collect().item() == 120


def test_tables_are_found_by_address_and_name(world, log):
    path = str(log.path)

    by_client = headwater.polars.scan(world.hw, path)
    by_address = headwater.polars.scan(world.hw.address, path, lake=world.lake)

    assert by_client.select(pl.len()).collect().item() == 120
    assert by_address.select(pl.len()).collect().item() == 120


def test_frames_are_tables_in_sql(log):
    sql = pl.SQLContext(t=headwater.polars.scan(log))

    assert sql.execute("SELECT count(*) AS n FROM t WHERE id < 5").collect().item() == 5


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"table": "fluss.nothing"}, "nothing"),
        ({"table": "fluss.t0", "token": "hw1.rubbish"}, "token"),
        ({"table": "fluss.t0", "mode": "both"}, "both"),
        ({"table": "fluss.t0", "snapshot_id": 1}, "1"),
        ({}, "No table is given"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_polars(world, log, given, text):
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        headwater.polars.scan(world.hw, **given)


def test_a_storage_that_is_not_there_is_an_error_of_polars(tmp_path):
    with pytest.raises(pl.exceptions.ComputeError, match="There is no directory"):
        headwater.polars.scan(tmp_path / "nothing", "t")


def test_a_storage_that_goes_away_before_the_rows_are_read_is_an_error_of_polars(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", {"id": "BIGINT"})
        table.append([{"id": 1}])
        frame = headwater.polars.scan(table)

    with pytest.raises(pl.exceptions.ComputeError, match="Open or connect again"):
        frame.collect()
