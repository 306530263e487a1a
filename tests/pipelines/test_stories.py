"""Scripts as Flink users write them, from beginning to end on Spark."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pytest

import headwater
import headwater.spark
from headwater.cli.output import Output
from headwater.cli.pipelines.run import RunOptions
from headwater.cli.pipelines.script import PipelineConsole
from headwater.cli.tier import SparkOptions
from headwater.errors import (
    JobChangedError,
    JobFailedError,
    MissingError,
    StatementError,
    UnsupportedError,
)
from headwater.pipelines import session
from headwater.pipelines.catalogs.spark import unusable
from headwater.pipelines.conductor import Conductor
from headwater.pipelines.jobs import JobStatus
from headwater.pipelines.launch import JobNames
from headwater.pipelines.results import Listed, SelectedRows, Started
from headwater.pipelines.session import conductor_of
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = """
    CREATE TEMPORARY TABLE made (id BIGINT, customer INT, amount BIGINT) WITH (
      'connector' = 'datagen', 'number-of-rows' = '60', 'rows-per-second' = '100000',
      'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '1000',
      'fields.customer.min' = '1', 'fields.customer.max' = '3',
      'fields.amount.min' = '1', 'fields.amount.max' = '9');
"""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A session of its own on the Spark session of all tests, in a database of its own."""

    conductor: Conductor
    client: headwater.Client
    database: str
    begin: str

    def run(self, text: str, *, restart: bool = False) -> list:
        """Run statements and wait for their jobs; return what the statements give."""
        outcomes = list(self.conductor.run(parse(text), names=JobNames(restart=restart)))
        self.conductor.wait()
        return outcomes

    def rows(self, table: str) -> list[tuple]:
        found = self.client.table(f"{self.database}.{table}").scan().to_pylist()
        return sorted(tuple(row.values()) for row in found)


@pytest.fixture
def make_pipeline(spark, served, tmp_path):
    database = f"d{uuid.uuid4().hex[:8]}"
    begin = f"""
        CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{served.address}');
        CREATE DATABASE IF NOT EXISTS hw.{database};
        USE hw.{database};
        SET 'state.checkpoints.dir' = '{tmp_path}/jobs';
    """
    made = []

    def make() -> Pipeline:
        conductor = Conductor(spark, lambda s, n, label: plan(s, n, label=label))
        made.append(Pipeline(conductor, served.client, database, begin))
        made[-1].run(begin)
        return made[-1]

    yield make
    for each in made:
        each.conductor.stop()


def test_a_quickstart_fills_tables_by_key_and_reads_them(make_pipeline):
    pipeline = make_pipeline()

    *_, last = pipeline.run(f"""{ORDERS}
        CREATE TABLE orders (
          id BIGINT, customer INT, amount BIGINT, `ptime` AS PROCTIME(),
          PRIMARY KEY (id) NOT ENFORCED
        ) WITH ('bucket.num' = '2');
        CREATE TABLE kept LIKE orders (EXCLUDING OPTIONS);
        SET 'table.dml-sync' = 'true';
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO orders SELECT * FROM made;
          INSERT INTO kept SELECT * FROM made WHERE id < 10;
        END;
        SET 'execution.runtime-mode' = 'batch';
        SELECT id, amount FROM orders WHERE id >= 5 ORDER BY id LIMIT 3;
    """)

    assert isinstance(last, SelectedRows)
    assert [row.id for row in last.rows.collect()] == [5, 6, 7]
    assert len(pipeline.rows("orders")) == 60
    assert pipeline.rows("kept") == pipeline.rows("orders")[:10]


def test_windows_of_a_stream_are_written_by_key(make_pipeline):
    pipeline = make_pipeline()
    pipeline.conductor.launcher.once = True

    pipeline.run("""
        CREATE TABLE clicks (id BIGINT, `at` TIMESTAMP(3),
          WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND);
        CREATE TABLE minutes (m TIMESTAMP(3), n BIGINT, PRIMARY KEY (m) NOT ENFORCED);
        SET 'execution.runtime-mode' = 'batch';
        INSERT INTO clicks VALUES (1, TIMESTAMP '2026-11-16 08:00:01'),
          (2, TIMESTAMP '2026-11-16 08:00:59'), (3, TIMESTAMP '2026-11-16 08:01:00'),
          (4, TIMESTAMP '2026-11-16 08:05:00');
        SET 'execution.runtime-mode' = 'streaming';
        INSERT INTO minutes SELECT window_start, COUNT(*) FROM TABLE(
          TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;
    """)

    assert [n for _, n in pipeline.rows("minutes")][:2] == [2, 1]


def test_a_stream_is_enriched_by_key(make_pipeline):
    pipeline = make_pipeline()

    pipeline.run(f"""{ORDERS}
        CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED);
        CREATE TABLE named (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED);
        SET 'execution.runtime-mode' = 'batch';
        INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bo');
        SET 'execution.runtime-mode' = 'streaming';
        INSERT INTO named SELECT o.id, c.name
        FROM (SELECT *, PROCTIME() AS ptime FROM made) AS o
        LEFT JOIN customers FOR SYSTEM_TIME AS OF o.ptime AS c ON o.customer = c.id;
    """)

    names = {name for _, name in pipeline.rows("named")}
    assert names == {"Ada", "Bo", None}
    assert len(pipeline.rows("named")) == 60


RATES = """
    CREATE TABLE rates (currency STRING, rate INT, `at` TIMESTAMP_LTZ(3)%s,
      PRIMARY KEY (currency) NOT ENFORCED) WITH ('bucket.num' = '2');
    CREATE TABLE sales (id BIGINT, currency STRING, `at` TIMESTAMP_LTZ(3));
    CREATE TABLE priced (id BIGINT, rate INT, PRIMARY KEY (id) NOT ENFORCED);
"""
PRICES = """INSERT INTO priced SELECT s.id, r.rate FROM sales AS s
    LEFT JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.currency = r.currency"""


def version_at(changes, currency, moment):
    """The rate of a currency at a time, looked for in all changes one by one."""
    found = None
    for change in changes:
        kind, is_then = change["_change_type"], change["_commit_timestamp"] <= moment
        if change["currency"] == currency and is_then and kind != "update_before":
            found = None if kind == "delete" else change["rate"]
    return found


def test_changes_and_the_lake_are_tables_of_their_own(make_pipeline):
    pipeline = make_pipeline()

    *_, changes, lake = pipeline.run("""SET 'execution.runtime-mode' = 'batch';
        CREATE TABLE stock (item STRING, n INT, PRIMARY KEY (item) NOT ENFORCED);
        INSERT INTO stock VALUES ('tea', 1);
        INSERT INTO stock VALUES ('tea', 2);
        SELECT _change_type, n FROM stock$changelog ORDER BY _log_offset;
        SELECT MAX(after.n) AS n FROM `stock$binlog`;""")
    declared = pipeline.conductor.state.find(pipeline.conductor.state.full(("stock$lake",)))

    kinds = [tuple(row) for row in changes.rows.collect()]
    assert kinds == [("insert", 1), ("update_before", 1), ("update_after", 2)]
    assert [row.n for row in lake.rows.collect()] == [2]
    assert declared.options["scan.mode"] == "lake"
    with pytest.raises(StatementError):
        pipeline.run("INSERT INTO stock$changelog SELECT * FROM stock$changelog;")


def test_rows_are_joined_with_the_versions_of_their_own_times(make_pipeline):
    pipeline = make_pipeline()
    pipeline.run(RATES % "")
    rates, sales = (pipeline.client.table(f"{pipeline.database}.{t}") for t in ("rates", "sales"))
    for turn in range(4):
        rates.upsert([{"currency": "EUR", "rate": turn}, {"currency": "USD", "rate": 10 + turn}])
        if turn == 2:
            rates.delete([{"currency": "USD"}])
    changes = pipeline.client.table(f"{rates.path}$changelog").scan().to_pylist()
    times = {change["_commit_timestamp"] for change in changes}
    moments = [each + timedelta(milliseconds=late) for each in times for late in (-1, 0)]
    probes = [(c, moment) for moment in moments for c in ("EUR", "USD", "GBP")]
    rows = [{"id": at, "currency": c, "at": moment} for at, (c, moment) in enumerate(probes)]
    sales.append(rows)

    pipeline.run(f"SET 'execution.runtime-mode' = 'batch'; {PRICES}")

    expected = [(at, version_at(changes, c, moment)) for at, (c, moment) in enumerate(probes)]
    assert pipeline.rows("priced") == expected
    assert {rate for _, rate in expected} >= {None, 0, 3, 13}


def test_versions_are_by_the_time_that_their_table_declares_in_a_batch(make_pipeline):
    pipeline = make_pipeline()

    pipeline.run(
        RATES % ", WATERMARK FOR `at` AS `at`"
        + """
        SET 'execution.runtime-mode' = 'batch';
        INSERT INTO rates VALUES ('EUR', 2, TIMESTAMP '2026-01-02 00:00:00');
        INSERT INTO rates VALUES ('EUR', 1, TIMESTAMP '2026-01-01 00:00:00');
        INSERT INTO sales VALUES (0, 'EUR', TIMESTAMP '2025-12-31 23:59:59'),
          (1, 'EUR', TIMESTAMP '2026-01-01 00:00:00'), (2, 'EUR', TIMESTAMP '2026-02-01 00:00:00');
    """
        + PRICES
    )

    assert pipeline.rows("priced") == [(0, None), (1, 1), (2, 2)]


def test_a_job_goes_on_when_it_is_run_again_and_refuses_another_statement(make_pipeline):
    table = "CREATE TABLE IF NOT EXISTS log (id BIGINT);"
    insert = "INSERT INTO log SELECT id FROM made;"
    make_pipeline().run(f"{ORDERS}{table}{insert}")

    again = make_pipeline()
    *_, started = again.run(f"{ORDERS}{table} -- as before\n{insert}")

    assert isinstance(started, Started)
    assert not started.is_new
    assert started.job.status is JobStatus.FINISHED
    assert len(again.rows("log")) == 60

    other = make_pipeline()
    with pytest.raises(JobChangedError, match="--restart"):
        other.run(f"{ORDERS}{table}INSERT INTO log SELECT id + 1 FROM made;")
    other.run(f"{ORDERS.replace('made', 'made2')}")
    other.run("INSERT INTO log SELECT id + 1 FROM made2;", restart=True)
    assert len(other.rows("log")) == 120


def test_rows_are_changed_by_key_and_tables_made_from_queries(make_pipeline):
    pipeline = make_pipeline()

    outcomes = pipeline.run("""
        SET 'execution.runtime-mode' = 'batch';
        CREATE TABLE stock (item STRING, n INT, PRIMARY KEY (item) NOT ENFORCED);
        INSERT INTO stock VALUES ('tea', 1), ('cup', 2), ('pot', 3);
        UPDATE stock SET n = n + 10 WHERE item <> 'pot';
        DELETE FROM stock WHERE item = 'cup';
        CREATE TEMPORARY VIEW many AS SELECT item, n FROM stock WHERE n > 5;
        CREATE TABLE copied AS SELECT item, n FROM many;
        EXPLAIN SELECT * FROM many;
        SHOW CREATE TABLE stock;
        DESCRIBE stock;
    """)

    assert pipeline.rows("stock") == [("pot", 3), ("tea", 11)]
    assert pipeline.rows("copied") == [("tea", 11)]
    listings = [each.rows.to_pylist() for each in outcomes if isinstance(each, Listed)]
    assert "ReadTable" in listings[0][0]["result"]
    assert "PRIMARY KEY (`item`) NOT ENFORCED" in listings[1][0]["result"]
    assert [row["key"] for row in listings[2]] == ["PRI(item)", None]


def test_a_materialized_table_follows_its_query(make_pipeline):
    pipeline = make_pipeline()
    pipeline.run("""
        CREATE TABLE sales (id BIGINT, item STRING, PRIMARY KEY (id) NOT ENFORCED);
        SET 'execution.runtime-mode' = 'batch';
        INSERT INTO sales VALUES (1, 'tea'), (2, 'tea'), (3, 'cup');
    """)
    statements = parse("""
        CREATE MATERIALIZED TABLE counts (PRIMARY KEY (item) NOT ENFORCED)
        FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL
        AS SELECT item, COUNT(*) AS n FROM sales GROUP BY item;
        DELETE FROM sales WHERE id = 3;
        ALTER MATERIALIZED TABLE counts SUSPEND;
        ALTER MATERIALIZED TABLE counts REFRESH;
    """)

    started, *_ = pipeline.conductor.run(statements)

    assert isinstance(started, Started)
    assert started.job.status is JobStatus.STOPPED
    assert pipeline.rows("counts") == [("tea", 2)]


@pytest.mark.usefixtures("classic_spark")
def test_a_streaming_query_prints_what_changes(make_pipeline, capsys):
    console = console_of(make_pipeline())

    console.run(f"{ORDERS} SELECT id, customer FROM made WHERE id < 2;")
    console.run("SELECT MIN(id) AS first FROM made;")

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "op,id,customer"
    assert [line.split(",")[:2] for line in printed[1:3]] == [["+I", "0"], ["+I", "1"]]
    assert "op,first" in printed
    assert printed[-1].endswith(",0")


def test_over_connect_a_streaming_query_says_how_to_see_it(make_pipeline, spark_mode):
    if spark_mode != "connect":
        pytest.skip("needs Spark Connect")
    console = console_of(make_pipeline())

    with pytest.raises(UnsupportedError, match="INSERT INTO a table with the connector 'print'"):
        console.run(f"{ORDERS} SELECT id FROM made;")


def console_of(pipeline):
    """What runs statements in the command, with rows as CSV."""
    options = RunOptions(
        texts=[],
        restart=False,
        once=False,
        settings={},
        spark=SparkOptions(master="local[2]", remote=None),
        output=Output.CSV,
        debug=False,
    )
    return PipelineConsole(pipeline.conductor, options)


def test_a_statement_that_spark_cannot_run_is_shown_with_its_line(make_pipeline):
    pipeline = make_pipeline()
    pipeline.run(ORDERS)

    with pytest.raises(StatementError, match="Line 2") as caught:
        pipeline.run("SHOW TABLES;\nSELECT no_such_function(id) FROM made;")

    assert "no_such_function" in str(caught.value)


def test_a_catalog_without_its_jar_says_which_jar_it_needs(make_pipeline):
    pipeline = make_pipeline()

    with pytest.raises(MissingError, match="iceberg-spark-runtime") as caught:
        pipeline.run("CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '/x');")

    assert "made for Spark 4.1" in str(caught.value)


def test_a_catalog_whose_jar_does_not_fit_says_so():
    told = "java.lang.IncompatibleClassChangeError: class SparkView can not implement View"

    error = unusable("iceberg", told, version="4.3.0")

    assert "does not fit Spark 4.3.0" in str(error)
    assert "does not run on 4.2 or 4.3" in str(error)


def test_statements_run_in_a_thread_of_java_that_knows_no_session(make_pipeline):
    pipeline = make_pipeline()
    pipeline.run(f"{ORDERS} CREATE TABLE log (id BIGINT);")

    # A thread of ours has one of Java; Ctrl-C gives us another one, too.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipeline.run, "INSERT INTO log SELECT id FROM made;").result()

    assert len(pipeline.rows("log")) == 60


def test_a_batch_that_fails_as_it_runs_says_why_and_where(make_pipeline):
    pipeline = make_pipeline()

    with pytest.raises(JobFailedError, match="line 3") as caught:
        pipeline.run("""SET 'execution.runtime-mode' = 'batch';
            CREATE TABLE numbers (n INT);
            INSERT INTO numbers SELECT CAST('x' AS INT);""")

    assert "CAST_INVALID_INPUT" in str(caught.value)
    assert "An error occurred" not in str(caught.value)


def test_a_catalog_of_spark_is_read_and_written(make_pipeline, classic_spark):
    pipeline = make_pipeline()
    url = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    jvm = classic_spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", "/dev/null")
    name = f"j{uuid.uuid4().hex[:6]}"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"

    *_, last = pipeline.run(f"""
        CREATE CATALOG {name} WITH ('type' = 'jdbc', 'base-url' = '{url}', 'driver' = '{driver}');
        SET 'execution.runtime-mode' = 'batch';
        CREATE TABLE {name}.APP.items (id BIGINT, item STRING);
        INSERT INTO {name}.APP.items VALUES (1, 'tea');
        SELECT item FROM {name}.APP.items;
    """)

    assert [row.item for row in last.rows.collect()] == ["tea"]


@pytest.fixture
def forgotten(classic_spark):
    """Leave nothing in the session that others use too."""
    yield
    session._conductors.pop(classic_spark, None)


@pytest.mark.usefixtures("forgotten")
def test_python_gets_frames_and_jobs(classic_spark, served, tmp_path):
    database = f"d{uuid.uuid4().hex[:8]}"
    script = tmp_path / "copy.sql"
    script.write_text(f"{ORDERS} INSERT INTO hw.{database}.log SELECT id FROM made;")
    told = headwater.spark.sql(
        classic_spark,
        f"""CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{served.address}');
        CREATE DATABASE hw.{database}; CREATE TABLE hw.{database}.log (id BIGINT);
        SET 'state.checkpoints.dir' = '{tmp_path}/jobs'""",
    )

    headwater.spark.run(classic_spark, script)
    rows = headwater.spark.sql(classic_spark, f"SELECT * FROM hw.{database}.log")

    assert told.collect()[0][0].startswith("Set 'state.checkpoints.dir'")
    assert rows.isStreaming
    assert served.client.table(f"{database}.log").count() == 60
    assert [job.status for job in conductor_of(classic_spark).launcher.jobs] == ["FINISHED"]
