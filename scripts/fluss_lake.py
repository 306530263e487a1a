"""The lake of a cluster: the jars its coordinator needs for a format, and its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.maven import Artifact

# Fluss reaches the files of a lake through Hadoop, also those of the local disk.
HADOOP = Artifact("org.apache.flink", "flink-shaded-hadoop-2-uber", "2.8.3-10.0")
# The readers of Iceberg need a newer one.
HADOOP_3 = tuple(
    Artifact("org.apache.hadoop", f"hadoop-client-{part}", "3.4.1") for part in ("api", "runtime")
)
PAIMON = Artifact("org.apache.paimon", "paimon-bundle", "1.3.1")  # the one Fluss 0.9 was built with
SQLITE = Artifact("org.xerial", "sqlite-jdbc", "3.46.1.3")
LOG4J = Artifact("ch.qos.reload4j", "reload4j", "1.2.25")  # which that Hadoop looks for
ICEBERG_CATALOG = "lake"
"""The name of the catalog, under which others find the same tables in its database."""


@dataclass(frozen=True, slots=True)
class ClusterLake:
    """Hold what a cluster needs to have a lake."""

    jars: tuple[Artifact, ...]
    settings: Mapping[str, str]


def paimon_lake(version: str, warehouse: Path) -> ClusterLake:
    """Return a lake of Paimon tables in a directory, for a version of Apache Fluss."""
    settings = {
        "datalake.format": "paimon",
        "datalake.paimon.metastore": "filesystem",
        "datalake.paimon.warehouse": str(warehouse),
    }
    return ClusterLake((_plugin("paimon", version), PAIMON, HADOOP), settings)


def iceberg_lake(version: str, directory: Path) -> ClusterLake:
    """Return a lake of Iceberg tables with its catalog in SQLite, for a version of Apache Fluss."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = {
        "datalake.format": "iceberg",
        "datalake.iceberg.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "datalake.iceberg.name": ICEBERG_CATALOG,
        # Otherwise the coordinator, which leaves its reads open, would keep others from committing.
        "datalake.iceberg.uri": f"jdbc:sqlite:{directory}/catalog.sqlite?journal_mode=WAL",
        "datalake.iceberg.jdbc.schema-version": "V1",
        "datalake.iceberg.warehouse": f"file://{directory}/warehouse",
    }
    return ClusterLake((_plugin("iceberg", version), *HADOOP_3, LOG4J, SQLITE), settings)


def _plugin(name: str, version: str) -> Artifact:
    return Artifact("org.apache.fluss", f"fluss-lake-{name}", version)
