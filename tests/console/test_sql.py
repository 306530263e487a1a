"""SQL in the console: only queries, only tables of the caller, within limits, to be cancelled."""

import json
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from headwater.console.facts.sql import QUERIES_MAX, SqlDesk, words_for
from headwater.engines.duckdb.install import install_closed
from headwater.errors import ConflictError, HeadwaterError, RequestError, TimedOutError
from headwater.runtime.clock import SystemClock
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.cases import cases
from tests.console.conftest import HOSTILE, HOSTILE_COLUMN

LONG = "select count(*) from range(1000000000) a, range(1000000) b where a.range * b.range % 7 = 3"


@pytest.fixture(scope="module")
def desk():
    made = SqlDesk(SystemClock())
    yield made
    made.close()


def ask(desk, hw, text):
    return desk.answer("me", hw, text)


def test_a_query_reads_tables_and_tells_their_positions(desk, hw):
    answer = ask(desk, hw, "select city from shop.orders order by city")

    assert ("Bonn",) in answer.rows.rows
    (read,) = answer.reads
    rows = hw.table("shop.orders").scan(token=read.token).to_arrow().num_rows
    assert rows == len(answer.rows.rows)


async def _tier(client):
    service = TieringService(
        client, LocalRunner(client), lakes=client.cluster.lakes, listener=lambda _: None
    )
    await service.run_once()


def test_lake_and_log_are_read_as_one(desk, hw):
    options = {"table.datalake.enabled": True}
    table = hw.create_table("shop.both", {"id": "BIGINT"}, buckets=1, options=options)
    table.append([(1,), (2,)])
    hw.run(_tier)
    table.append([(3,)])

    answer = ask(desk, hw, "select sum(id), count(*) from shop.both")

    assert answer.rows.rows == ((6, 3),)


def test_a_table_that_was_just_made_is_found(desk, hw):
    ask(desk, hw, "select 1")
    hw.create_table("shop.fresh", {"id": "BIGINT"}, buckets=1).append([(5,)])

    assert ask(desk, hw, "select id from shop.fresh").rows.rows == ((5,),)
    assert ask(desk, hw, "from fluss_read('shop', 'fresh')").rows.rows == ((5,),)


@cases(
    "text",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from read_blob('/etc/*')",
        "select * from '/etc/passwd'",
        "select * from glob('/etc/*')",
        "select * from read_parquet('/etc/passwd')",
        "select * from read_json('http://127.0.0.1:1/x')",
        "select * from query('select * from read_text(''/etc/passwd'')')",
        "select * from sniff_csv('/etc/passwd')",
        "explain analyze select * from read_text('/etc/passwd')",
        "from fluss_read('127.0.0.1:9123', 'shop', 'orders')",
        "from fluss_read('/etc', 'shop', 'orders')",
        "from fluss_tables('/etc')",
        "select * from desk",
        "select * from parquet_metadata('/etc/passwd')",
    ],
)
def test_files_networks_other_storages_and_variables_are_out_of_reach(text, desk, hw):
    with pytest.raises(HeadwaterError):
        ask(desk, hw, text)


@cases(
    "text",
    [
        "attach '/tmp/x.db' as x",
        "copy (select 1) to '/tmp/x.csv'",
        "create table t (i int)",
        "create temp table t as select 1",
        "insert into shop.orders values (1, 'x')",
        "delete from shop.orders",
        "drop view hw.shop.orders",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "reset enable_external_access",
        "pragma database_list",
        "load httpfs",
        "install httpfs",
        "call pragma_version()",
        "export database '/tmp/x'",
        "use memory",
        "prepare p as select 1",
        "explain analyze create table t (i int)",
        "explain copy (select 1) to '/tmp/x.csv'",
        "explain explain select 1",
        "checkpoint",
        "begin",
        "select 1; select 2",
        "select 1; drop view hw.shop.orders",
        "",
        "-- nothing",
    ],
)
def test_only_one_query_is_run(text, desk, hw):
    with pytest.raises(HeadwaterError):
        ask(desk, hw, text)

    assert ask(desk, hw, "select count(*) > 0 from shop.orders").rows.rows == ((True,),)


@cases("text", ["describe shop.orders", "summarize shop.orders", "explain select 1", "show tables"])
def test_what_describes_is_a_query_too(text, desk, hw):
    assert ask(desk, hw, text).rows.columns


def test_long_answers_are_cut_and_say_so(desk, hw):
    answer = ask(desk, hw, "select * from range(5000)")

    assert len(answer.rows.rows) == 1000
    assert "1,000" in answer.rows.note


def test_a_query_ends_when_its_time_is_over(hw):
    desk = SqlDesk(SystemClock(), seconds_max=0.3)

    with pytest.raises(TimedOutError, match="stopped after"):
        ask(desk, hw, LONG)

    assert ask(desk, hw, "select 1").rows.rows == ((1,),)
    desk.close()


def test_a_query_is_cancelled_by_its_caller_alone(hw):
    desk = SqlDesk(SystemClock())
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(desk.answer, "me", hw, LONG, name="q")
        while not desk.cancel("me", "q"):
            assert not running.done()
        assert not desk.cancel("others", "q")
        while not running.done():
            desk.cancel("me", "q")
        with pytest.raises(RequestError, match="cancelled"):
            running.result()
    desk.close()


def test_more_queries_than_may_run_are_refused(hw):
    desk = SqlDesk(SystemClock(), seconds_max=3.0)
    names = [str(number) for number in range(QUERIES_MAX)]
    with ThreadPoolExecutor(QUERIES_MAX) as threads:
        running = [threads.submit(desk.answer, "me", hw, LONG, name=name) for name in names]
        while len(desk.running("me")) < QUERIES_MAX:
            assert not any(each.done() for each in running)
        with pytest.raises(ConflictError, match="queries are running"):
            ask(desk, hw, "select 1")
        while not all(each.done() for each in running):
            [desk.cancel("me", name) for name in names]
    desk.close()


def test_a_faulty_query_is_told_as_duckdb_tells_it(desk, hw, browser):
    with pytest.raises(RequestError, match="nothing_here"):
        ask(desk, hw, "select nothing_here from shop.orders")

    browser.get("/sql")
    answer = browser.post("/sql/run", {"text": f"select '{HOSTILE.replace(chr(39), '')}' x from"})
    assert "<script>" not in answer.text
    assert answer.status == 400


def test_the_page_runs_queries_and_escapes_what_comes_back(browser):
    browser.get("/sql")

    text = "select * from shop.hostile"
    answer = browser.post("/sql/run", {"text": text, "name": "q"})

    assert answer.status == 200
    assert HOSTILE not in answer.text
    assert HOSTILE_COLUMN not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "/tables/shop/hostile/plan?token=" in answer.text
    assert browser.post("/sql/run", {"text": text}, token="x").status == 403
    assert "Nothing is running" in browser.post("/sql/cancel", {"name": "q"}).text


def test_answers_are_exported_whole(browser):
    browser.get("/sql")
    text = "select range as n, 'a\"b' as t, [1, 2] as l from range(2500)"

    csv = browser.post("/sql/export", {"text": text, "form": "csv"})
    assert csv.text.splitlines()[:2] == ["n,t,l", '0,"a""b","[1, 2]"']
    assert len(csv.text.splitlines()) == 2501
    assert "attachment" in csv.headers["content-disposition"]
    assert browser.post("/sql/export", {"text": text, "form": "xls"}).status == 400


def test_an_answer_by_time_or_text_is_drawn(browser):
    browser.get("/sql")

    bars = browser.post("/sql/run", {"text": "select * from (values ('a', 1), ('b', 2)) t(k, n)"})
    lines = browser.post("/sql/run", {"text": "select range, range * 2.5 as y from range(9)"})

    assert bars.text.count('<svg class="strip"') == 2
    assert "data-answer" in lines.text


def test_tables_and_columns_are_completed(hw, browser):
    words = words_for(hw, {"shop": ["orders", "clicks"]}, 'select * from "shop".orders')

    assert words.tables == ("shop.orders", "shop.clicks")
    assert words.columns == ("id", "city")
    assert "shop.days" in json.loads(browser.get("/sql/words?text=").text)["tables"]


def test_a_closed_connection_cannot_be_opened_again(hw):
    with duckdb.connect() as con:
        install_closed(con, hw, seen=lambda _: None)
        for text in ("set enable_external_access = true", "attach 'x.db'"):
            with pytest.raises(duckdb.Error):
                con.execute(text)
