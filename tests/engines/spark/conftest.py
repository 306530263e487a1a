"""A Spark session, classic or over Spark Connect or on a cluster, and a server with tables."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scripts.spark_servers import (
    LOCAL,
    SHORT_LIVED,
    cluster_settings,
    connect_server,
    standalone_cluster,
)

import headwater
from headwater.cluster.schema_in import OptionValue, SchemaLike
from headwater.engines.spark.session import session
from headwater.write.rows_in import RowsLike
from tests.serving import serving

ROOT = str(Path(__file__).parents[3])
CLUSTER = os.environ.get("HEADWATER_CONTRACT_AT")  # an Apache Fluss cluster, as in tests/contract
DATABASE = f"spark_{os.getpid()}"


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their markers
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that need a Spark session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own, a client of it, and tables with names of their own."""

    address: str
    client: headwater.Client
    _numbers: Iterator[int]

    @property
    def options(self) -> Mapping[str, str]:
        """Return what a Spark reader or writer needs to reach it."""
        return {"bootstrap.servers": self.address}

    def new_name(self) -> str:
        """Return the name of a table that is not there yet."""
        return f"{DATABASE}.t{next(self._numbers)}"

    def create(
        self,
        schema: SchemaLike,
        *,
        rows: RowsLike | None = None,
        primary_key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] = (),
        bucket_by: str | Sequence[str] = (),
        buckets: int | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> headwater.Table:
        """Create a table under a new name, and write rows into it."""
        table = self.client.create_table(
            self.new_name(),
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            bucket_by=bucket_by,
            buckets=buckets,
            options=options,
        )
        if rows is not None:
            (table.upsert if table.is_keyed else table.append)(rows)
        return table


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as opened:
        address = CLUSTER
        if address is None:
            directory = tmp_path_factory.mktemp("served") / "data"
            address = opened.enter_context(serving(directory)).address
        client = opened.enter_context(headwater.connect(address))
        client.create_database(DATABASE)
        yield Served(address, client, count(1))


@pytest.fixture(scope="session")
def spark_mode(request: pytest.FixtureRequest) -> str:
    """Return "classic", "connect" or "standalone"."""
    return request.config.getoption("--spark")


@pytest.fixture(scope="session")
def spark(spark_mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Tasks import functions of tests by the names of their modules.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    directory = tmp_path_factory.mktemp("spark")
    if spark_mode == "connect":
        with connect_server(directory) as address:
            yield from _stopped(session("tests", remote=address))
    elif spark_mode == "standalone":
        with standalone_cluster(directory) as address:
            yield from _stopped(session("tests", master=address, config=cluster_settings()))
    else:
        java = {"spark.driver.extraJavaOptions": SHORT_LIVED}
        yield from _stopped(session("tests", master=LOCAL, config=java))


def _stopped(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.stop()


@pytest.fixture
def classic_spark(spark: SparkSession, spark_mode: str) -> SparkSession:
    """Give the session to tests that need Spark's own driver, and skip them over Connect."""
    if spark_mode == "connect":
        pytest.skip("needs the driver of Spark")
    return spark
