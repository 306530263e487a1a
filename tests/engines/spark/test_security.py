"""Spark over TLS, with a login by SCRAM: reads, writes, lookups, and what is refused."""

import pytest
from pyspark.errors import PySparkException

from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.options import security_of
from headwater.errors import HeadwaterError, InvalidOptionError
from tests.cases import cases
from tests.engines.security import ROWS, guarded


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
