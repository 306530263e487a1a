"""DuckDB, Polars and DataFusion over TLS, with a login by SCRAM: they take a client."""

import duckdb
import pytest

import headwater.datafusion
import headwater.duckdb
import headwater.polars
from tests.engines.security import ROWS, guarded


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as found, found.connect() as opened:
        yield opened


def test_duckdb_reads_through_a_client_with_tls(client):
    connection = duckdb.connect()
    headwater.duckdb.install(connection, client)

    found = connection.sql("SELECT count(*), max(name) FROM hw.shop.people").fetchall()

    assert found == [(len(ROWS), "n9")]


def test_polars_reads_through_a_client_with_tls(client):
    assert headwater.polars.scan(client.table("shop.people")).collect().height == len(ROWS)
