"""A ready session, in each way in which it can run."""

import pyarrow as pa
import pytest

from headwater.engines.spark.session import _connected, local_cores, session, settings_of
from headwater.errors import InvalidOptionError


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


@pytest.mark.parametrize(
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
