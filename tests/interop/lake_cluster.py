"""A cluster of Apache Fluss that has a lake, and what has to be said to reach that lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.fluss_cluster import FlussCluster, fluss_version
from scripts.fluss_lake import ICEBERG_CATALOG, iceberg_lake, paimon_lake

from headwater.lake.lakes import Lakes

LAKES = {"paimon": paimon_lake, "iceberg": iceberg_lake}


@dataclass(frozen=True)
class LakeCluster:
    format: str
    cluster: FlussCluster
    lakes: Lakes
    directory: Path


@contextmanager
def running_lake_cluster(lake_format: str, directory: Path) -> Iterator[LakeCluster]:
    """Run three tablet servers, whose tables have three replicas, and a lake of one format."""
    version = fluss_version()
    lake = LAKES[lake_format](version, directory)
    with FlussCluster.start(version=version, settings=lake.settings, jars=lake.jars) as cluster:
        lakes = Lakes(config=config_of(lake_format, directory))
        yield LakeCluster(lake_format, cluster, lakes, directory)


def config_of(lake_format: str, directory: Path) -> dict[str, str]:
    """Return what a tierer has to be told: Java and Python name catalogs in other ways."""
    if lake_format == "paimon":
        return {}
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.sqlite",
        "name": ICEBERG_CATALOG,
    }
