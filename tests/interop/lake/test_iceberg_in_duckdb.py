"""DuckDB reads the Iceberg tables that we write."""

import pytest
from pyiceberg.catalog import load_catalog

from headwater.config.lake import ICEBERG_CATALOG_NAME
from tests.interop.lake.coded import coded_rows
from tests.interop.lake.made import SHAPES, times
from tests.lake.formats import config_of


@pytest.fixture
def scan_of(iceberg_place):
    """Return what DuckDB reads instead of a table: the metadata file that is the newest."""
    catalog = load_catalog(ICEBERG_CATALOG_NAME, **config_of("iceberg", iceberg_place))

    def scan(table) -> str:
        path = (table.spec.path.database, table.spec.path.table)
        return f"iceberg_scan('{catalog.load_table(path).metadata_location}')"

    return scan


@pytest.mark.parametrize("shape", [*SHAPES, "times"])
def test_duckdb_reads_the_rows_that_we_read(duckdb, iceberg, rows_of, scan_of, shape):
    table = {**SHAPES, "times": times}[shape](iceberg)

    assert rows_of(duckdb, f"SELECT * FROM {scan_of(table)}") == coded_rows(table.rows())


@pytest.mark.parametrize("shape", ["keyed", "partitioned", "cleaned"])
def test_duckdb_counts_what_it_reads(duckdb, iceberg, rows_of, scan_of, shape):
    table = SHAPES[shape](iceberg)

    found = rows_of(duckdb, f"SELECT count(*) FROM {scan_of(table)}")

    assert found == [[table.rows().num_rows]]


def test_duckdb_finds_rows_by_filters(duckdb, iceberg, rows_of, scan_of):
    table = SHAPES["partitioned"](iceberg)
    wanted = [row for row in table.rows().to_pylist() if row["land"] == "fr" and row["v"] > 10]

    found = rows_of(duckdb, f"SELECT id FROM {scan_of(table)} WHERE land = 'fr' AND v > 10")

    assert sorted(row[0] for row in found) == sorted(row["id"] for row in wanted)
