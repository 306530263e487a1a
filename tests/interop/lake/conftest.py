"""Readers of other people, each in a process of its own, and lakes that we wrote for them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from scripts.foreign import Foreign
from scripts.lake_readers import duckdb_reader, iceberg_reader, paimon_reader

from headwater.config.lake import ICEBERG_CATALOG_NAME
from tests.interop.lake.coded import coded_rows
from tests.lake.formats import config_of, opened
from tests.lake.tables import Tables


@pytest.fixture(scope="session")
def iceberg_place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("iceberg")


@pytest.fixture(scope="session")
def iceberg(iceberg_place) -> Tables:
    return Tables(opened("iceberg", config_of("iceberg", iceberg_place)))


@pytest.fixture(scope="session")
def paimon_place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("paimon")


@pytest.fixture(scope="session")
def paimon(paimon_place) -> Tables:
    return Tables(opened("paimon", config_of("paimon", paimon_place)))


@pytest.fixture(scope="session")
def duckdb(tmp_path_factory) -> Iterator[Foreign]:
    log = tmp_path_factory.mktemp("duckdb") / "log"
    with duckdb_reader(log=log) as asked:
        yield asked


@pytest.fixture(scope="session")
def spark(tmp_path_factory, iceberg_place) -> Iterator[Foreign]:
    log = tmp_path_factory.mktemp("spark") / "log"
    with iceberg_reader(ICEBERG_CATALOG_NAME, iceberg_place, log=log) as asked:
        yield asked


@pytest.fixture(scope="session")
def java(tmp_path_factory, paimon_place) -> Iterator[Foreign]:
    log = tmp_path_factory.mktemp("java") / "log"
    with paimon_reader(config_of("paimon", paimon_place)["warehouse"], log=log) as asked:
        yield asked


@pytest.fixture
def rows_of(tmp_path) -> Callable[[Foreign, str], list[list[object]]]:
    """Ask a reader that speaks SQL for rows."""

    def ask(reader: Foreign, sql: str) -> list[list[object]]:
        out = tmp_path / "rows.arrow"
        reader.ask("rows", sql=sql, out=str(out))
        with pa.ipc.open_file(out) as file:
            return coded_rows(file.read_all())

    return ask
