"""Tables of a real PostgreSQL are followed by processes that are killed, and come out exact."""

import os
import random
import signal
import subprocess
import sys
import time

import psycopg2
import pytest
from scripts.postgres import PASSWORD, USER

import headwater
from headwater.pipelines.ingest.form_text import parse_form
from headwater.pipelines.ingest.run import IngestRun
from headwater.pipelines.ingest.snapshot import ranges_on_spark
from headwater.runtime.clock import SystemClock
from tests.figures import times
from tests.serving import serving

FORM = r"""
source:
  type: postgres
  host: 127.0.0.1
  port: {port}
  username: {user}
  password: {password}
  database: {database}
  tables: public.\.*
  scan.incremental.snapshot.chunk.size: 200
sink:
  type: fluss
  bootstrap.servers: {address}
  bucket.num: 2
pipeline:
  name: story
  schema.change.behavior: evolve
"""
TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, n bigint, price numeric(12, 2), big text);
CREATE TABLE people (name text, born date, tags text[], PRIMARY KEY (name));
INSERT INTO orders SELECT i, i, i * 1.5, NULL FROM generate_series(1, 2000) AS i;
INSERT INTO people SELECT 'p' || i, date '2000-01-01' + i, ARRAY['a', NULL] FROM
  generate_series(1, 50) AS i;
"""
BIG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 200))"
WITHIN_S = 90
AFTER, GONE = {"insert", "update_after", "+I", "+U"}, {"delete", "-D"}
COLUMNS = {"orders": "id", "people": "name"}


class Run:
    """A `headwater run` of the form, with everything in one process."""

    def __init__(self, form, log, *options) -> None:
        command = [sys.executable, "-m", "headwater", "run", str(form), "--here", *options]
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def change(cursor, chance) -> None:
    """Make a transaction of some changes, of which one in five is rolled back."""
    cursor.execute("BEGIN")
    for _ in range(chance.randint(1, 8)):
        key, other = chance.randint(1, 4000), chance.randint(1, 4000)
        cursor.execute(chance.choice(CHANGES), {"key": key, "other": other})
    cursor.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")


CHANGES = [
    "INSERT INTO orders VALUES (%(key)s, 1, 2.25, NULL) ON CONFLICT (id) DO UPDATE SET n = 0",
    f"INSERT INTO orders VALUES (%(key)s, 1, 2, {BIG}) ON CONFLICT (id) DO UPDATE SET big = {BIG}",
    "UPDATE orders SET n = n + 1 WHERE id BETWEEN %(key)s AND %(key)s + 20",
    "UPDATE orders SET n = n + 1 WHERE big IS NOT NULL",
    """UPDATE orders SET id = %(other)s WHERE id = %(key)s
    AND NOT EXISTS (SELECT 1 FROM orders WHERE id = %(other)s)""",
    "DELETE FROM orders WHERE id = %(key)s",
    "INSERT INTO people VALUES ('q' || %(key)s, 'yesterday', '{}') ON CONFLICT DO NOTHING",
    "DELETE FROM people WHERE name = 'q' || %(key)s",
    """UPDATE people SET name = 'r' || name WHERE name = 'q' || %(key)s
    AND NOT EXISTS (SELECT 1 FROM people WHERE name = 'rq' || %(key)s)""",
]


def source_rows(address, table):
    with psycopg2.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        names = [each.name for each in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    return {row[COLUMNS[table]]: row for row in rows}


def followed(client, table):
    return {row[COLUMNS[table]]: row for row in client.table(f"public.{table}").scan().to_pylist()}


def replayed(client, table):
    """Fold the changelog: it has to give the same rows as the table."""
    rows = {}
    for row in client.table(f"public.{table}$changelog").scan().to_pylist():
        key, kind = row[COLUMNS[table]], row["_change_type"]
        if kind in AFTER:
            rows[key] = {name: row[name] for name in row if not name.startswith("_")}
        elif kind in GONE:
            rows.pop(key)
    return rows


@pytest.fixture
def story(postgres, tmp_path):
    """A database with tables, a server, and the form between them."""
    address = postgres.new_database(f"story{os.getpid()}_{time.monotonic_ns()}")
    with psycopg2.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(TABLES)
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as client:
        form = tmp_path / "pipeline.yaml"
        form.write_text(
            FORM.format(
                port=postgres.port,
                user=USER,
                password=PASSWORD,
                database=address.rpartition("/")[2],
                address=server.address,
            )
        )
        yield address, client, form
    with psycopg2.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
    with psycopg2.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_drop_replication_slot('headwater_story')")


def live(address, client, run, chance) -> None:
    """Change rows until the run has taken some changes, and kill it."""
    until, before = time.monotonic() + WITHIN_S, epoch(client)
    connection = psycopg2.connect(address)
    connection.autocommit = True
    with connection.cursor() as cursor:
        while epoch(client) < before + chance.randint(1, 4):
            assert run.process.poll() is None
            assert time.monotonic() < until, "the pipeline does not get on"
            for _ in range(5):
                change(cursor, chance)
            # A pace at which what is killed all the time can keep up.
            cursor.execute("SELECT pg_sleep(0.1)")
    connection.close()
    run.kill()


def epoch(client) -> int:
    if not client.table_exists("headwater.pipelines"):
        return -1
    row = client.table("headwater.pipelines").get({"pipeline": "story", "entry": "plan"})
    return -1 if row is None or row["epoch"] is None else row["epoch"]


def lives(story, log, *, kills, postgres=None) -> None:
    address, client, form = story
    chance = random.Random(26)
    for number in range(kills):
        live(address, client, Run(form, log), chance)
        if number == 1 and postgres is not None:
            postgres.restart()
        if number == kills // 2:
            with psycopg2.connect(address) as connection, connection.cursor() as cursor:
                cursor.execute("ALTER TABLE orders ADD COLUMN extra int DEFAULT 7")
    code = Run(form, log, "--once").process.wait(WITHIN_S * 2)
    assert code == 0, log.read_text()[-3000:]
    for table in COLUMNS:
        want = source_rows(address, table)
        assert followed(client, table) == want
        assert replayed(client, table) == want


@pytest.mark.timeout(300)
def test_tables_are_exact_after_two_kills_and_a_restart_of_the_database(story, postgres, tmp_path):
    lives(story, tmp_path / "log", kills=2, postgres=postgres)


def test_a_change_after_an_epoch_that_was_confirmed_is_not_lost(story, tmp_path):
    address, client, form = story
    log = tmp_path / "log"
    assert Run(form, log, "--once").process.wait(WITHIN_S) == 0
    connection = psycopg2.connect(address)
    connection.autocommit = True
    with connection.cursor() as cursor:
        run = Run(form, log)
        for _ in range(5):
            cursor.execute("SELECT pg_current_wal_insert_lsn()")
            (before,) = cursor.fetchone()
            cursor.execute("UPDATE orders SET n = n + 1 WHERE id <= 100")
            wait_until_confirmed(cursor, before)
        run.kill()
        cursor.execute("UPDATE orders SET n = -1 WHERE id <= 100")

    code = Run(form, log, "--once").process.wait(WITHIN_S)

    assert code == 0, log.read_text()[-3000:]
    assert followed(client, "orders") == source_rows(address, "orders")


def wait_until_confirmed(cursor, lsn) -> None:
    """Wait until the database may forget what comes after a place in its log."""
    until = time.monotonic() + WITHIN_S
    while True:
        cursor.execute(
            "SELECT confirmed_flush_lsn > %s FROM pg_replication_slots"
            " WHERE slot_name = 'headwater_story'",
            (lsn,),
        )
        if cursor.fetchone()[0]:
            return
        assert time.monotonic() < until, "the changes are not confirmed"
        time.sleep(0.01)


def test_an_idle_pipeline_goes_on_after_the_database_moved_on(story, tmp_path):
    address, client, form = story

    for number in range(3):
        with psycopg2.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CREATE SCHEMA IF NOT EXISTS other; CREATE TABLE other.t{number} (id int)"
            )
        code = Run(form, tmp_path / "log", "--once").process.wait(WITHIN_S)
        assert code == 0, (tmp_path / "log").read_text()[-3000:]

    assert followed(client, "orders") == source_rows(address, "orders")


@pytest.mark.spark
def test_ranges_are_read_by_spark_tasks_and_a_dropped_table_is_taken_again(story, spark):
    address, client, form = story

    for _ in range(2):
        run = IngestRun(
            form=parse_form(form.read_text()),
            reader=ranges_on_spark(spark),
            client=client,
            clock=SystemClock(),
            once=True,
        )
        run.run()
        want = source_rows(address, "orders")
        assert followed(client, "orders") == want
        assert run.counts.range_rows >= len(want)
        client.drop_table("public.orders")


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_tables_are_exact_after_thirty_kills(story, postgres, tmp_path):
    lives(story, tmp_path / "log", kills=times(30), postgres=postgres)
