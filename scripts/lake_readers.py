"""Other people's readers of lake tables and of doors, fetched and run, each in a process."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from headwater.engines.spark.java import java_home
from scripts.foreign import Foreign, foreign
from scripts.maven import Artifact, fetch, fetch_all

WORK = Path(__file__).parents[1] / ".interop"
DUCKDB = "1.5.5"
DAFT = "0.7.26"
# The newest Spark that a runtime of Iceberg is published for.
ICEBERG_SPARK = "4.1.4"
ICEBERG = Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")
SQLITE = Artifact("org.xerial", "sqlite-jdbc", "3.54.1.0")
PAIMON = Artifact("org.apache.paimon", "paimon-bundle", "1.4.2")


def duckdb_reader(*, log: Path) -> AbstractContextManager[Foreign]:
    """Run DuckDB with its Iceberg extension, installed apart from our packages."""
    extensions = (f"duckdb-extension-{name}=={DUCKDB}" for name in ("avro", "iceberg"))
    packages = _installed(f"duckdb-{DUCKDB}", f"duckdb=={DUCKDB}", *extensions)
    return foreign("scripts.duckdb_reader", log=log, packages=packages)


def iceberg_reader(catalog: str, directory: Path, *, log: Path) -> AbstractContextManager[Foreign]:
    """Run Iceberg's own runtime on Spark, for the tables of a catalog in SQLite."""
    return foreign(
        "scripts.iceberg_on_spark",
        log=log,
        packages=_installed(f"pyspark-{ICEBERG_SPARK}", f"pyspark=={ICEBERG_SPARK}"),
        JAVA_HOME=str(java_home()),
        JARS=",".join(map(str, fetch_all((ICEBERG, SQLITE)))),
        CATALOG=catalog,
        LAKE=str(directory),
        PYSPARK_PYTHON=sys.executable,
    )


def door_reader(engine: str, door: str, *, log: Path) -> AbstractContextManager[Foreign]:
    """Run an engine that reads tables through the door of Iceberg."""
    variables = {"ENGINE": engine, "DOOR": door}
    match engine:
        case "duckdb":
            names = ("avro", "httpfs", "iceberg")
            extensions = (f"duckdb-extension-{name}=={DUCKDB}" for name in names)
            packages = _installed(f"duckdb-http-{DUCKDB}", f"duckdb=={DUCKDB}", *extensions)
        case "daft":
            packages = _installed(f"daft-{DAFT}", f"daft=={DAFT}")
        case "spark":
            packages = _installed(f"pyspark-{ICEBERG_SPARK}", f"pyspark=={ICEBERG_SPARK}")
            variables |= {
                "JAVA_HOME": str(java_home()),
                "JARS": str(fetch(ICEBERG)),
                "PYSPARK_PYTHON": sys.executable,
            }
        case _:
            raise ValueError(f"There is no engine {engine!r}.")
    return foreign("scripts.door_reader", log=log, packages=packages, **variables)


def paimon_reader(warehouse: str, *, log: Path) -> AbstractContextManager[Foreign]:
    """Run Paimon in Java, for the tables of a warehouse."""
    jar = str(fetch(PAIMON))
    home = str(java_home())
    return foreign("scripts.paimon_in_java", log=log, JAVA_HOME=home, JARS=jar, LAKE=warehouse)


def _installed(name: str, *wanted: str) -> Path:
    place = WORK / name
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "-t", str(place), *wanted], check=True)
    return place
