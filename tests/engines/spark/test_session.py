"""A ready session, in each way in which it can run."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engines.spark.session import _connected, local_cores, session, settings_of
from headwater.errors import InvalidOptionError
from tests.cases import cases


def doubled(batches):
    for batch in batches:
        yield pa.record_batch({"id": pa.array([2 * n for n in batch["id"].to_pylist()])})


def test_a_session_runs_python_in_its_tasks(spark):
    rows = spark.range(4).mapInArrow(doubled, "id bigint").collect()

    assert sorted(row.id for row in rows) == [0, 2, 4, 6]


def test_a_session_is_made_once(spark):
    again = session("another")

    assert again.range(1).count() == 1
    assert again.conf.get("spark.sql.session.timeZone") == "UTC"
    assert again is spark


def test_the_format_is_registered(spark, served):
    table = served.create({"id": "BIGINT"}, rows=[{"id": 1}, {"id": 2}])

    read = spark.read.format("headwater").options(**served.options).load(table.name)

    assert sorted(row.id for row in read.collect()) == [1, 2]


def test_moments_are_shown_in_utc(spark):
    shown = spark.sql("SELECT CAST(TIMESTAMP '2026-11-16 08:00:00Z' AS STRING) AS t").first()

    assert shown.t == "2026-11-16 08:00:00"


def test_a_setting_that_can_change_is_changed(spark):
    session(config={"spark.sql.ansi.doubleQuotedIdentifiers": "true", "spark.driver.memory": "9g"})

    changed = spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers")
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert changed == "true"


@cases(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,4]", 3),
        ("spark://host:7077", None),
        ("yarn", None),
        ("local-cluster[2,1,1024]", None),
    ],
)
def test_a_local_master_says_how_many_tasks_it_runs(master, cores):
    assert local_cores(master) == cores


def test_a_cluster_is_not_told_about_places_on_this_machine():
    settings = settings_of("spark://host:7077")

    assert "spark.python.daemon.module" not in settings
    assert "spark.driver.bindAddress" not in settings


def test_an_address_that_is_none_of_connect_is_refused():
    with pytest.raises(InvalidOptionError, match="sc://host"):
        _connected("tests", "localhost:15002", {})


STARTED = """
import json, sys
from pyspark import SparkContext
from headwater.engines.spark.session import session

config = {
    "spark.hadoop.fs.s3a.secret.key": "s3cret-1",
    "spark.sql.catalog.hw.client.security.sasl.password": "s3cret-2",
    "spark.sql.catalog.hw.lake.options": json.dumps({"s3.secret-access-key": "s3cret-3"}),
    "spark.sql.catalog.hw.client.security.sasl.username": "ann",
}
spark = session("secrets", master="local[1]", config=config, register=False)
found = [spark.conf.get(name) for name in config]
assert found == list(config.values()), found
assert spark.sparkContext.getConf().get("spark.hadoop.fs.s3a.secret.key") == "s3cret-1"
print("pid", SparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc")
def test_the_processes_of_a_session_have_no_secrets_in_their_arguments():
    with subprocess.Popen(
        [sys.executable, "-c", STARTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        pid = next(line.split()[1] for line in process.stdout if line.startswith("pid "))
        arguments = Path(f"/proc/{pid}/cmdline").read_text()
        process.stdin.close()

    assert "sasl.username=ann" in arguments
    assert "s3cret" not in arguments
    assert process.returncode == 0
