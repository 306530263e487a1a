"""Spark on a cluster of its own, and tables of a Fluss cluster for it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scripts.spark_servers import cluster_settings, standalone_cluster

import headwater
from headwater.config.client import ClientSettings
from headwater.engines.spark.session import session
from tests.interop.lake_cluster import LakeCluster
from tests.interop.pipeline.pipeline import Pipeline

ROOT = str(Path(__file__).parents[3])
TIMEOUT_S = 600  # a killed server is missed late, and sessions take their time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a session on a master with two workers."""
    # Tasks import functions of tests by the names of their modules.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with standalone_cluster(tmp_path_factory.mktemp("spark")) as address:
        spark = session("pipeline", master=address, config=cluster_settings())
        yield spark
        spark.stop()


@pytest.fixture(scope="session")
def client(lake_cluster: LakeCluster) -> Iterator[headwater.Client]:
    settings = ClientSettings(deadline_s=120.0)
    lake = dict(lake_cluster.lakes.config)
    with headwater.connect(lake_cluster.cluster.bootstrap, settings=settings, lake=lake) as client:
        yield client


@pytest.fixture
def pipeline(
    spark: SparkSession, lake_cluster: LakeCluster, client: headwater.Client
) -> Iterator[Pipeline]:
    pipeline = Pipeline(spark, lake_cluster, client)
    yield pipeline
    pipeline.drop_all()
