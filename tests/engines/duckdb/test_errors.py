"""What goes wrong is told by DuckDB's own exceptions, with what to do."""

import socket

import duckdb
import pytest

import headwater
from headwater.engines.duckdb.install import install
from headwater.engines.storages import close_opened
from headwater.errors import HeadwaterError, RequestError
from headwater.lake.spi import Retention
from tests.engines.duckdb.world import some


@pytest.fixture
def con():
    with duckdb.connect() as con:
        yield con


def test_an_unknown_table_tells_of_those_with_like_names(world):
    world.hw.create_table("shipments", {"id": "INT"}, exists_ok=True)

    with pytest.raises(duckdb.Error, match=r"shipmnts.*Did you mean shipments"):
        world.rows("SELECT * FROM fluss_read('fluss', 'shipmnts')")


def test_an_unknown_database_tells_of_those_there_are(world):
    with pytest.raises(duckdb.Error, match=r"fluus.*Did you mean fluss"):
        world.rows("SELECT * FROM fluss_read('fluus', 'x')")


def test_a_token_of_another_table_is_refused(world):
    one, other = world.table(), world.table()
    one.append(some(1))
    token = one.view().token()

    with pytest.raises(duckdb.Error, match=one.path.table):
        world.rows(f"FROM {world.read(other, token=token)}")


def test_a_snapshot_that_expired_is_told_with_those_that_are_left(world):
    table = world.table()
    for number in range(3):
        table.append(some(number))
        world.tier(table)
    name = table.path.table
    listed = f"SELECT snapshot_id FROM fluss_snapshots('fluss', '{name}') ORDER BY committed_at"
    gone, *_ = world.rows(listed)[0]

    now_ms, *_ = world.rows("SELECT epoch_ms(now()) + 60000")[0]
    world.keeper(table).expire(Retention(snapshots_min=1, age_ms=0), now_ms=now_ms)
    (left,) = world.rows(listed)[-1]

    with pytest.raises(duckdb.Error, match=str(left)):
        world.rows(f"FROM {world.read(table, f'snapshot_id := {gone}')}")


def test_a_server_that_is_away_is_told_in_bounded_time(con):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    install(con)

    with pytest.raises(duckdb.Error, match=address):
        con.execute("FROM fluss_read(?, 'fluss', 't')", [address])


def test_a_directory_that_is_not_there_is_told(con, tmp_path):
    install(con)

    with pytest.raises(duckdb.Error, match=r"no directory .*nowhere.*host:port"):
        con.execute("FROM fluss_tables(?)", [str(tmp_path / "nowhere")])


def test_a_storage_has_to_be_named_where_none_was_installed(con):
    install(con)

    with pytest.raises(duckdb.Error, match=r"No storage was installed.*fluss_read"):
        con.execute("FROM fluss_read('fluss', 't')")


@pytest.mark.parametrize("names", ["NULL, 't'", "'fluss', ''", "NULL, NULL, NULL"])
def test_a_name_that_is_missing_is_told(world, names):
    with pytest.raises(duckdb.Error, match="NULL or empty"):
        world.rows(f"FROM fluss_read({names})")


def test_columns_that_duckdb_cannot_tell_apart_are_refused(world):
    table = world.hw.create_table("twins", {"id": "INT", "ID": "INT"}, exists_ok=True)

    with pytest.raises(duckdb.Error, match="'id' and 'ID' apart"):
        world.rows(f"FROM {world.read(table)}")


def test_an_optimizer_that_was_turned_off_is_told_and_gives_no_wrong_rows(world):
    table = world.table()
    table.append(some(1))
    world.rows("SET disabled_optimizers = 'filter_pushdown'")

    try:
        with pytest.raises(duckdb.Error, match="optimizer"):
            world.rows(f"FROM {world.read(table, mode='changelog')}")
    finally:
        world.rows("RESET disabled_optimizers")

    assert world.check(table) == 1


def test_a_missing_extra_is_told_with_how_to_get_it(world, monkeypatch):
    table = world.table()
    table.append(some(1))
    world.tier(table)
    extras = {"iceberg": "pyiceberg", "paimon": "pypaimon"}
    for name in [extras[world.format], f"headwater.lake.{world.format}.plugin"]:
        monkeypatch.setitem(__import__("sys").modules, name, None)

    with headwater.connect(world.hw.address, lake=world.lake) as other, duckdb.connect() as con:
        install(con, other, alias="hw")
        with pytest.raises(duckdb.Error, match=rf"pip install .*headwater\[{world.format}\]"):
            con.execute(f"FROM fluss_read('fluss', '{table.path.table}')").fetchall()


def test_a_client_that_was_closed_is_told(tmp_path, con):
    with headwater.open(tmp_path) as hw:
        hw.create_table("t", {"id": "INT"})
        install(con, hw)

    with pytest.raises(duckdb.Error, match="closed"):
        con.execute("FROM hw.fluss.t")


def test_an_alias_that_is_taken_is_refused(con, tmp_path):
    con.execute("ATTACH ':memory:' AS hw")

    with pytest.raises(RequestError, match="alias"):
        install(con)


def test_installing_a_storage_that_is_away_says_so_at_once(con, tmp_path):
    with pytest.raises(HeadwaterError, match="no directory"):
        install(con, tmp_path / "nowhere")
    close_opened()


@pytest.mark.parametrize("part", ["from_ts := 1", "from_offsets := MAP {0: 1}"])
def test_a_part_of_the_log_of_a_keyed_table_is_refused_before_it_is_read(world, part):
    table = world.keyed()
    hint = r"Use as_of or to_offsets, or mode := 'changelog'\."

    with pytest.raises(duckdb.Error, match=rf"{table.path} has a primary key.*{hint}"):
        world.rows(f"EXPLAIN FROM {world.read(table, part)}")
