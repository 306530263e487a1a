"""`headwater sql`, on a directory and on a server, from arguments, files, pipes and a terminal."""

import json
import signal

import pytest

from tests.cli.commanding import Storage, ok
from tests.cli.test_terminal import Terminal


@pytest.fixture
def orders(storage, name):
    ok(storage("database", "create", f"db_{name}"))
    table = f"db_{name}.orders"
    ok(storage("table", "create", table, "--column", "id:BIGINT", "--column", "city:STRING"))
    rows = '{"id": 1, "city": "Ulm"}\n{"id": 2, "city": "Bonn"}\n{"id": 3, "city": "Ulm"}\n'
    ok(storage("append", table, stdin=rows))
    return table


def test_a_query_sees_the_rows_of_a_table(storage, orders):
    query = f"select city, count(*) n, sum(id) s from {orders} group by 1 order by 1"

    assert storage.rows("sql", query) == [
        {"city": "Bonn", "n": 1, "s": 2},
        {"city": "Ulm", "n": 2, "s": 4},
    ]


def test_tables_are_listed_and_found_without_their_database(storage, orders):
    created = "create temp table mine as from orders;"

    rows = storage.rows("sql", f"{created} select count(*) as n from mine; show tables")

    assert {"n": 3} in rows
    assert {"name": "orders"} in rows


def test_a_mistake_is_shown_where_it_is(storage, orders):
    result = storage("sql", "selec 1")

    assert "LINE 1: selec 1\n        ^^^^^" in result.stderr


def test_a_later_statement_sees_what_came_before_it(storage, orders):
    rows = storage.rows("sql", f"create temp table t as from {orders}; select max(id) m from t;")

    assert rows[-1] == {"m": 3}


def test_statements_come_from_a_file_or_by_standard_input(storage, orders, tmp_path):
    script = tmp_path / "query.sql"
    script.write_text(f"-- all of them\nselect count(*) as n from {orders};")

    from_file = ok(storage("sql", "--file", str(script), "--output", "csv"))
    from_pipe = ok(storage("sql", "--output", "csv", stdin=script.read_text()))

    assert from_file == from_pipe == "n\n3\n"


def test_a_wrong_statement_is_told_in_a_line(storage, orders):
    result = storage("sql", f"select nothing from {orders}")

    assert result.exit_code == 3
    assert "nothing" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_table_that_is_not_there_is_named_with_one_that_is(storage, orders):
    result = storage("sql", f"select * from {orders}x")

    assert result.exit_code == 3
    assert "orders" in result.stderr


def test_statements_in_two_places_are_refused(server, tmp_path):
    storage = Storage(server.address)
    result = storage("sql", "select 1", "--file", str(tmp_path / "x.sql"))

    assert result.exit_code == 3


@pytest.fixture
def shell(storage, orders, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWATER_SQL_HISTORY", str(tmp_path / "history"))
    terminal = Terminal(storage, "sql")
    terminal.until("headwater> ")
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
        terminal.process.wait()


def test_a_shell_runs_what_is_typed_and_keeps_it(shell, orders, tmp_path):
    shell.type(f"select count(*) as found\nfrom {orders};\n")
    shell.until("found")
    shell.type(".quit\n")
    seen = shell.until("")

    assert shell.end() == 0
    assert "...> " in seen
    assert f"from {orders};" in (tmp_path / "history").read_text()


def test_a_shell_completes_tables(shell, orders):
    shell.type(f"select count(*) as found from {orders[:-3]}\t;\n")
    shell.until(orders)
    shell.type(".quit\n")
    seen = shell.until("")

    assert shell.end() == 0
    assert "found" in seen.partition(orders)[2]


def test_a_shell_outlives_mistakes(shell, orders):
    shell.type("select nonsense;\n")
    shell.until("nonsense")
    shell.type(".nonsense\n")
    shell.until("there is no .nonsense")
    shell.type(".tables\n")
    shell.until(orders)
    shell.type(f".schema {orders}\n")
    shell.until("column_name")
    shell.type(f".explain {orders}\n")
    shell.until("bucket")
    shell.type(".output json\nselect 40 + 2 as answer;\n")
    shell.until(json.dumps({"answer": 42}, separators=(",", ":")))
    shell.type(".quit\n")
    shell.until("")

    assert shell.end() == 0


def test_ctrl_c_forgets_what_was_begun(shell, orders):
    shell.type("select bad\n")
    shell.until("...> ")
    shell.process.send_signal(signal.SIGINT)
    # Whether it is reading a line or about to: with this it has read one.
    shell.type("\n")
    shell.type("select 6 * 7 as answer;\n")
    shell.until("42")
    shell.type(".quit\n")
    shell.until("")

    assert shell.end() == 0


def test_a_statement_that_would_write_says_what_to_use(server):
    storage, orders = Storage(server.address), "shop.orders"
    for statement, told in {
        "create table mine (a int)": "headwater table create",
        "create or replace view v as select 1": "CREATE TEMP VIEW",
        f"insert into {orders} values (4, 'Rom')": "headwater append",
        f"/* all */ delete from {orders}": "headwater upsert --delete",
        f"update {orders} set id = 1": "headwater upsert",
        f"drop table {orders}": "headwater table drop",
        f"alter table {orders} add column x int": "headwater table alter",
        f"copy {orders} from 'rows.csv'": "headwater append",
    }.items():
        result = storage("sql", statement)
        assert result.exit_code == 3, statement
        assert "headwater sql is read-only" in result.stderr
        assert told in result.stderr


def test_what_is_temporary_attached_or_exported_may_be_written(server, name, tmp_path):
    storage, orders = Storage(server.address), name
    ok(storage("table", "create", name, "--column", "id:BIGINT"))
    ok(storage("append", name, stdin='{"id":1}\n{"id":2}\n{"id":3}\n'))
    own = tmp_path / "own.duckdb"
    statements = f"""
        create temp table t as select id from {orders};
        insert into t values (9);
        attach '{own}' as own;
        create table own.kept as from t;
        insert into own.kept values (10);
        copy (from own.kept) to '{tmp_path / "rows.csv"}';
        select 'insert into x' as said, max(id) as m from own.kept;
    """

    assert storage.rows("sql", statements)[-1] == {"said": "insert into x", "m": 10}
    assert (tmp_path / "rows.csv").read_text().count("\n") == 6


def test_a_hint_that_would_do_nothing_is_refused(server):
    storage = Storage(server.address)

    result = storage("sql", "select /*+ OPTIONS('scan.startup.mode'='latest') */ 1")

    assert result.exit_code == 3
    assert "would have no effect" in result.stderr
    assert storage.rows("sql", "select '/*+ x */' as said /* a comment */") == [
        {"said": "/*+ x */"}
    ]


def test_a_column_that_is_a_keyword_is_named_in_quotes(server, name):
    storage = Storage(server.address)
    ok(storage("table", "create", name, "--column", "left:INT", "--column", "at:TIMESTAMP"))

    result = storage("sql", f"select * from {name} where left > 1")

    assert result.exit_code == 3
    assert 'The column "left" is a keyword: write it in double quotes.' in result.stderr
    assert storage.rows("sql", f'select "left", "at" from {name}') == []


def test_ctrl_c_ends_a_query_and_the_shell_goes_on(shell):
    endless = "select count(*) from range(100000000000) t(a) where a % 7 = 3"
    for query in (endless, "select a from range(100000000000) t(a)", endless):
        # What the first statement prints tells that the second one is on its way.
        shell.type(f"select 40 + 2 as answer; {query};\n")
        shell.until("42")
        shell.process.send_signal(signal.SIGINT)
        shell.until("headwater: interrupted")
        shell.seen = ""

    shell.type(".quit\n")
    shell.until("")
    assert shell.end() == 0


def test_ctrl_c_ends_a_statement_of_the_command_line(server):
    query = "select 40 + 2 as n; select count(*) from range(100000000000) t(a) where a % 7 = 3"
    terminal = Terminal(Storage(server.address), "sql", query)
    terminal.until("42")
    terminal.process.send_signal(signal.SIGINT)
    seen = terminal.until("")

    assert terminal.end() == 130
    assert "Traceback" not in seen
    assert "Unexpected" not in seen
