"""Which sessions can have a catalog."""

import pytest

import headwater
from headwater.engines.spark.catalog.install import VERSIONS, catalog, why_views
from headwater.errors import InvalidOptionError, RetryLaterError
from tests.serving import serving


class Session:
    """Stand in for a session of Spark."""

    def __init__(self, version: str) -> None:
        self.version = version


class ClassicSession(Session):
    """Have a session in the JVM."""

    _jsparkSession = object()  # noqa: N815


@pytest.mark.parametrize("version", [f"{version}.1" for version in VERSIONS])
def test_a_version_that_is_tested_has_a_catalog(version):
    assert why_views(ClassicSession(version)) is None


@pytest.mark.parametrize("version", ["4.1.4", "4.4.0", "5.0.0"])
def test_any_other_version_is_told_which_are(version):
    reason = why_views(ClassicSession(version))

    assert all(each in reason for each in VERSIONS)


def test_spark_connect_has_views():
    assert "Connect" in why_views(Session(f"{VERSIONS[0]}.0"))


def test_an_option_that_is_not_there_is_told_apart_from_one_that_is():
    with pytest.raises(InvalidOptionError, match=r"client\.deadline"):
        catalog(ClassicSession("4.3.0"), options={"client.deadlin": "1 s"})


def test_a_server_that_is_not_there_is_said_at_once():
    session, patience = ClassicSession("4.3.0"), {"client.connect-timeout": "100 ms"}

    with pytest.raises(RetryLaterError, match="localhost:1"):
        catalog(session, bootstrap_servers="localhost:1", options=patience)


def test_over_connect_each_table_is_a_view(spark, spark_mode, tmp_path):
    if spark_mode != "connect":
        pytest.skip("needs Spark Connect")
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as client:
        client.create_table("orders", {"id": "INT"}).append([(1,), (2,)])

        with pytest.warns(UserWarning, match="`lent_database_table`"):
            catalog(spark, "lent", bootstrap_servers=server.address)

        assert spark.sql("SELECT sum(id) FROM lent_fluss_orders").collect()[0][0] == 3
