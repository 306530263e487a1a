"""Apache Flink with the connector of Apache Fluss: the jars they are made of, and how they run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.engines.spark.java import java_home
from scripts.fluss_jars import FLUSS, class_path
from scripts.fluss_lake import LOG4J, ClusterLake
from scripts.foreign import Foreign, foreign
from scripts.maven import Artifact

FLINK = "1.20.3"
SHADED = "17.0"
CONNECTOR = Artifact("org.apache.fluss", "fluss-flink-1.20", FLUSS)
_OF_FLINK = (
    "flink-annotations",
    "flink-cep",
    "flink-clients",
    "flink-connector-base",
    "flink-connector-datagen",
    "flink-core",
    "flink-core-api",
    "flink-datastream",
    "flink-datastream-api",
    "flink-file-sink-common",
    "flink-hadoop-fs",
    "flink-java",
    "flink-metrics-core",
    "flink-optimizer",
    "flink-queryable-state-client-java",
    "flink-rpc-akka-loader",
    "flink-rpc-core",
    "flink-runtime",
    "flink-streaming-java",
    "flink-table-api-bridge-base",
    "flink-table-api-java",
    "flink-table-api-java-bridge",
    "flink-table-common",
    "flink-table-planner-loader",
    "flink-table-runtime",
)
_SHADED = {
    "flink-shaded-asm-9": "9.5",
    "flink-shaded-guava": "31.1-jre",
    "flink-shaded-jackson": "2.14.2",
    "flink-shaded-netty": "4.1.91.Final",
    "flink-shaded-zookeeper-3": "3.7.1",
}
_OF_OTHERS = (
    Artifact("com.esotericsoftware.kryo", "kryo", "2.24.0"),
    Artifact("com.esotericsoftware.minlog", "minlog", "1.2"),
    Artifact("com.ibm.icu", "icu4j", "67.1"),
    Artifact("com.twitter", "chill-java", "0.7.6"),
    Artifact("commons-cli", "commons-cli", "1.5.0"),
    Artifact("commons-collections", "commons-collections", "3.2.2"),
    Artifact("commons-io", "commons-io", "2.15.1"),
    Artifact("org.apache.commons", "commons-compress", "1.26.0"),
    Artifact("org.apache.commons", "commons-lang3", "3.12.0"),
    Artifact("org.apache.commons", "commons-math3", "3.6.1"),
    Artifact("org.apache.commons", "commons-text", "1.10.0"),
    Artifact("org.javassist", "javassist", "3.24.0-GA"),
    Artifact("org.lz4", "lz4-java", "1.8.0"),
    Artifact("org.objenesis", "objenesis", "2.1"),
    Artifact("org.slf4j", "slf4j-api", "1.7.36"),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
    Artifact("org.snakeyaml", "snakeyaml-engine", "2.6"),
    Artifact("org.xerial.snappy", "snappy-java", "1.1.10.4"),
)


def flink_with_fluss(*others: Artifact) -> str:
    """Return the class path of a Flink that runs SQL on tables of Fluss in one virtual machine."""
    return class_path(
        (
            *(Artifact("org.apache.flink", name, FLINK) for name in _OF_FLINK),
            *(Artifact("org.apache.flink", n, f"{v}-{SHADED}") for n, v in _SHADED.items()),
            *_OF_OTHERS,
            CONNECTOR,
            *others,
        )
    )


@contextmanager
def running_flink(server: str, *others: Artifact, log: Path) -> Iterator[Foreign]:
    """Run a Flink whose catalog is a server, for queries that end and for those that do not."""
    jars, home = flink_with_fluss(*others), str(java_home())
    catalog = f"WITH ('type' = 'fluss', 'bootstrap.servers' = '{server}')"
    with foreign("scripts.flink_in_java", log=log, JAVA_HOME=home, JARS=jars) as flink:
        for mode in ("streaming", "batch"):
            flink.ask("run", text=f"CREATE CATALOG hw {catalog}", mode=mode)
            flink.ask("run", text="USE CATALOG hw", mode=mode)
        yield flink


def flink_tiering(lake: ClusterLake) -> str:
    """Return the class path of the tiering service of Fluss with all that a lake needs."""
    service = Artifact("org.apache.fluss", "fluss-flink-tiering", FLUSS)
    return flink_with_fluss(service, *lake.jars, LOG4J)
