"""Spark over TLS, with a login by SCRAM: reads, writes, lookups, and what is refused."""

import json
import subprocess
import sys

import pytest
from pyspark.errors import PySparkException

from headwater.cli.security import make_certificate
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.options import security_of
from headwater.errors import HeadwaterError, InvalidOptionError
from tests.cases import cases
from tests.engines.security import PASSWORD, ROWS, guarded


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as found:
        yield found


def test_rows_are_read_written_and_looked_up(spark, server):
    frame = spark.read.format("headwater").options(**server.options).load("shop.people")
    assert frame.count() == len(ROWS)
    added = spark.createDataFrame([(100, "new")], "id int, name string")

    added.write.format("headwater").options(**server.options).mode("append").save("shop.people")
    asked = spark.createDataFrame([(7,), (100,)], "id int")
    found = lookup_join(asked, "shop.people", on="id", options=server.options)

    assert {(row["id"], row["name"]) for row in found.collect()} == {(7, "n7"), (100, "new")}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"client.security.ssl.enabled": "false"}, "TLS"),
        ({"client.security.sasl.password": "guess"}, "wrong"),
    ],
)
def test_what_is_wrong_is_told(spark, server, changed, told):
    options = {**server.options, **changed}
    if changed.get("client.security.ssl.enabled"):
        del options["client.security.ssl.ca-file"]

    with pytest.raises((PySparkException, HeadwaterError), match=told):
        spark.read.format("headwater").options(**options).load("shop.people").count()


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("elsewhere")
    make_certificate.make_server(directory, ["localhost"], days=2)
    return str(directory / "ca.pem")


def test_a_ca_that_did_not_sign_the_certificate_is_told(spark, server, other_ca, tmp_path):
    options = {**server.options, "client.security.ssl.ca-file": other_ca}
    rows = spark.createDataFrame([(200, "new")], "id int, name string")
    streamed = spark.readStream.format("rate").load().selectExpr("int(value) id", "'x' name")

    for attempt in (
        lambda: spark.read.format("headwater").options(**options).load("shop.people").count(),
        lambda: spark.readStream.format("headwater").options(**options).load("shop.people"),
        lambda: written(rows.write, options).save("shop.people"),
        lambda: followed(streamed, options, tmp_path / "checkpoint"),
    ):
        with pytest.raises((PySparkException, HeadwaterError), match=r"ca-file|tls_ca_file") as why:
            attempt()
        assert PASSWORD not in str(why.value)


def written(writer, options):
    return writer.format("headwater").options(**options).mode("append")


def followed(frame, options, checkpoint):
    """Write a stream until it has nothing more."""
    writer = frame.writeStream.format("headwater").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start("shop.people").awaitTermination()


def test_a_stream_goes_from_table_to_table(spark, server, tmp_path):
    with server.connect() as hw:
        hw.create_table("shop.copies", {"id": "int", "name": "string"}, primary_key="id")
    source = spark.readStream.format("headwater").options(**server.options)
    target = {**server.options, "table": "shop.copies"}
    writer = source.load("shop.people").writeStream.format("headwater").options(**target)

    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()

    with server.connect() as hw:
        assert hw.table("shop.copies").count() == hw.table("shop.people").count()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_ui_of_spark_shows_no_secret(server):
    with server.connect() as hw:
        hw.create_table("shop.seen", {"id": "int", "name": "string"}, primary_key="id")
    lake = {"credential": "id:pl4nted", "uri": "postgresql://ann:pl4nted@db.example.org/lake"}
    options = json.dumps({**server.options, "lake.options": json.dumps(lake)})
    job = [sys.executable, "-m", "tests.engines.spark.ui_job", options, "shop.people", "shop.seen"]

    done = subprocess.run(job, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert len(shown["environment"]) > 1000
    assert sum(page.startswith("query") for page in shown) > 2
    for page, text in {**shown, "log": done.stderr}.items():
        assert "pl4nted" not in text, page
        assert PASSWORD not in text, page


@cases(
    ("options", "told"),
    [
        ({"client.security.protocol": "sasl"}, "no user or token"),
        (
            {"client.security.protocol": "PLAINTEXT", "client.security.sasl.username": "ann"},
            "a user or token is given",
        ),
        ({"client.security.protocol": "ssl"}, "cannot be 'ssl'"),
    ],
)
def test_a_protocol_that_contradicts_the_login_is_refused(options, told):
    with pytest.raises(InvalidOptionError, match=told):
        security_of(options)
