"""No option or argument of a read does nothing: every entry point refuses what it does not know."""

import duckdb
import pytest
from datafusion import SessionContext

import headwater
import headwater.arrow
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from headwater.engines.spark.catalog.install import catalog, views
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.sink_columns import SinkOptions
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import HeadwaterError, InvalidOptionError
from tests.cases import cases
from tests.cli.commanding import Storage

SPARK_TABLE = {"table": "shop.orders"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("unknown") / "data"
    with headwater.open(path) as hw:
        hw.create_table("orders", {"id": "BIGINT", "day": "STRING"}, primary_key="id")
    return path


@pytest.fixture
def table(directory):
    with headwater.open(directory) as hw:
        yield hw.table("orders")


IN_PYTHON = {
    "scan": lambda table: table.scan(colums=["id"]),
    "tail": lambda table: table.tail(startt="earliest"),
    "view": lambda table: table.view(tokn="x"),
    "lookup": lambda table: table.lookup([1], colums=["id"]),
    "cursor": lambda table: table.cursor("c", strat="earliest"),
    "append": lambda table: table.upsert([(1, "a")], ack=1),
    "arrow": lambda table: headwater.arrow.dataset(table, tokn="x"),
    "arrow scanner": lambda table: headwater.arrow.dataset(table).to_table(batch_sise=1),
    "polars": lambda table: headwater.polars.scan(table, tokn="x"),
    "settings": lambda table: headwater.ClientSettings(ack=1),
}


@cases("name", IN_PYTHON)
def test_an_unknown_argument_is_refused_in_python(table, name):
    with pytest.raises((TypeError, HeadwaterError)):
        IN_PYTHON[name](table)


@cases(
    ("query", "says"),
    [
        ("FROM fluss_read('fluss', 'orders', tokn := 'x')", "Candidate macros"),
        ("FROM fluss_read('fluss', 'orders', mode := 'lakee')", "lakee"),
        ("FROM fluss_read('fluss', 'orders', from_offset := '{}')", "Candidate macros"),
        ("FROM fluss_offsets('fluss', 'orders', token := 'x')", "Candidate macros"),
    ],
)
def test_an_unknown_argument_is_refused_in_duckdb(directory, query, says):
    with headwater.open(directory) as hw, duckdb.connect() as con:
        headwater.duckdb.install(con, hw)

        with pytest.raises(duckdb.Error, match=says):
            con.sql(query).fetchall()


@cases(
    "query",
    [
        "fluss_read('fluss', 'orders', 'lakee')",
        "fluss_read('host:1', 'fluss', 'orders', 'union', 'b', 'c')",
    ],
)
def test_an_unknown_argument_is_refused_in_datafusion(directory, query):
    ctx = SessionContext()
    with headwater.open(directory) as hw:
        headwater.datafusion.install(ctx, hw)

        with pytest.raises(Exception, match=r"6 arguments|lakee"):
            ctx.sql(f"SELECT * FROM {query}").collect()


@cases(
    ("read", "nearest"),
    [
        (lambda: SourceOptions.of(SPARK_TABLE | {"scan.startup.mod": "x"}), "scan.startup.mode"),
        (
            lambda: SourceOptions.of(SPARK_TABLE | {"properties.group.ids": "x"}),
            "properties.group.id",
        ),
        (lambda: SourceOptions.of(SPARK_TABLE | {"header": "true"}), "The options are"),
        (lambda: SinkOptions.of(SPARK_TABLE | {"sink.ignore-deletes": "x"}), "sink.ignore-delete"),
        (lambda: views(None, "hw", options={"scan.startup.mod": "x"}), "scan.startup.mode"),
        (lambda: catalog(None, "hw", options={"client.deadlin": "1 s"}), "client.deadline"),
        (
            lambda: lookup_join(None, "shop.orders", on="id", options={"client.deadlin": "1 s"}),
            "client.deadline",
        ),
    ],
)
def test_an_unknown_option_is_refused_in_spark_with_the_nearest(read, nearest):
    with pytest.raises(InvalidOptionError) as refused:
        read()

    assert nearest in refused.value.hint


@cases(
    "arguments",
    [
        ("scan", "orders", "--colums", "id"),
        ("tail", "orders", "--form", "earliest"),
        ("lookup", "orders", "1", "--colums", "id"),
        ("count", "orders", "--wheer", "id=1"),
        ("sql", "--tokn", "x", "SELECT 1"),
    ],
)
def test_an_unknown_option_is_refused_in_a_terminal(directory, arguments):
    result = Storage(str(directory))(*arguments)

    assert result.exit_code == 2
    assert any(each in result.stderr for each in arguments if each.startswith("--"))


@cases(
    ("option", "says"),
    [
        ("log.retention.hour=1", "Did you mean 'log.retention.hours'?"),
        ("remote.data.dir=s3://b", "start it with --lake"),
        ("wat=1", "Names of your own begin with 'custom.'"),
    ],
)
def test_an_unknown_option_of_a_table_is_refused_in_a_terminal(directory, option, says):
    result = Storage(str(directory))(
        "table", "create", "new", "--column", "id:BIGINT", "--option", option
    )

    assert result.exit_code != 0
    assert says in " ".join(result.stderr.split())
