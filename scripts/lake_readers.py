"""Fetch other people's readers of lake tables: DuckDB, Spark with Iceberg's runtime, Paimon."""

import subprocess
import sys
from pathlib import Path

from scripts.maven import Artifact, fetch

WORK = Path(__file__).parents[1] / ".interop"
DUCKDB = "1.5.5"
# The newest Spark that a runtime of Iceberg is published for.
ICEBERG_SPARK = "4.1.4"
ICEBERG = Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")
SQLITE = Artifact("org.xerial", "sqlite-jdbc", "3.54.1.0")
PAIMON = Artifact("org.apache.paimon", "paimon-bundle", "1.4.2")


def duckdb_packages() -> Path:
    """Return where DuckDB and its Iceberg extension are installed, apart from our packages."""
    extensions = (f"duckdb-extension-{name}=={DUCKDB}" for name in ("avro", "iceberg"))
    return _installed(f"duckdb-{DUCKDB}", f"duckdb=={DUCKDB}", *extensions)


def spark_for_iceberg() -> Path:
    """Return where the Spark that Iceberg's runtime is made for is installed."""
    return _installed(f"pyspark-{ICEBERG_SPARK}", f"pyspark=={ICEBERG_SPARK}")


def iceberg_jars() -> str:
    """Return the jars that Spark needs for Iceberg tables in a catalog of SQLite."""
    return ",".join(str(fetch(artifact)) for artifact in (ICEBERG, SQLITE))


def paimon_jar() -> str:
    """Return the jar of Apache Paimon."""
    return str(fetch(PAIMON))


def _installed(name: str, *wanted: str) -> Path:
    place = WORK / name
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "-t", str(place), *wanted], check=True)
    return place
