"""Numbers of auto-increment columns are handed out once, whatever happens in between."""

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.values import LONG_MAX
from headwater.errors import BucketMissingError, NumbersExhaustedError, StorageError
from headwater.model.path import TablePath
from headwater.server.catalog.catalog import ServerCatalog
from tests.catalog.samples import ORDERS, log_table, open_catalog
from tests.catalog.test_durability import refuse_every_change

RESERVE = """
import sys
from pathlib import Path
from headwater.config.server import ServerSettings
from headwater.runtime.clock import SystemClock
from headwater.server.catalog.catalog import ServerCatalog

catalog = ServerCatalog.open(Path(sys.argv[1]), clock=SystemClock(), settings=ServerSettings())
print(catalog.reserve_ids(int(sys.argv[2]), 7), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def table_id(catalog: ServerCatalog) -> int:
    return catalog.tables.create(ORDERS, log_table()).table_id


def test_the_first_number_is_one_and_blocks_follow_each_other(catalog, table_id):
    assert [catalog.reserve_ids(table_id, count) for count in (10, 1, 5)] == [0, 10, 11]


def test_tables_count_apart(catalog, table_id):
    other = catalog.tables.create(TablePath("fluss", "other"), log_table()).table_id
    catalog.reserve_ids(table_id, 10)

    assert catalog.reserve_ids(other, 10) == 0


@given(counts=st.lists(st.none() | st.integers(1, 10**12), max_size=20))
def test_blocks_never_overlap_over_reopens(tmp_path_factory, counts):
    directory = tmp_path_factory.mktemp("catalog")
    catalog = open_catalog(directory)
    table_id = catalog.tables.create(ORDERS, log_table()).table_id
    expected = 0
    for count in counts:
        if count is None:
            catalog.close()
            catalog = open_catalog(directory)
        else:
            assert catalog.reserve_ids(table_id, count) == expected
            expected += count
    catalog.close()


def test_a_block_is_never_handed_out_again_after_a_kill(tmp_path):
    catalog = open_catalog(tmp_path)
    table_id = catalog.tables.create(ORDERS, log_table()).table_id
    catalog.close()

    seen = []
    for _ in range(2):
        command = [sys.executable, "-c", RESERVE, str(tmp_path), str(table_id)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        seen.append(int(process.stdout.readline()))
        process.kill()
        process.communicate()

    assert seen == [0, 7]


def test_a_block_that_could_not_be_written_is_not_handed_out(tmp_path):
    catalog = open_catalog(tmp_path)
    table_id = catalog.tables.create(ORDERS, log_table()).table_id
    refuse_every_change(tmp_path / "catalog.sqlite")

    with pytest.raises(StorageError, match="disk on fire"):
        catalog.reserve_ids(table_id, 1)
    catalog.close()


def test_numbers_end_where_a_long_does(catalog, table_id):
    catalog.reserve_ids(table_id, LONG_MAX - 1)

    with pytest.raises(NumbersExhaustedError, match="1 numbers left"):
        catalog.reserve_ids(table_id, 2)

    assert catalog.reserve_ids(table_id, 1) == LONG_MAX - 1


def test_a_dropped_table_takes_its_numbers_along(tmp_path):
    catalog = open_catalog(tmp_path)
    table_id = catalog.tables.create(ORDERS, log_table()).table_id
    catalog.reserve_ids(table_id, 5)
    catalog.tables.drop(ORDERS)

    with pytest.raises(BucketMissingError):
        catalog.reserve_ids(table_id, 5)
    catalog.close()

    beside = sqlite3.connect(tmp_path / "catalog.sqlite")
    assert beside.execute("SELECT * FROM row_numbers").fetchall() == []
    beside.close()


def test_a_catalog_of_the_first_version_is_brought_up_to_date(tmp_path):
    catalog = open_catalog(tmp_path)
    table_id = catalog.tables.create(ORDERS, log_table()).table_id
    catalog.close()
    beside = sqlite3.connect(tmp_path / "catalog.sqlite")
    beside.executescript(
        "DROP TABLE row_numbers; DROP TABLE lake_tables; DROP TABLE lake_snapshots;"
        "DROP TABLE sums; DROP TABLE writer_blocks; DROP TABLE acls;"
        "DELETE FROM meta WHERE key IN ('starts', 'incarnation'); PRAGMA user_version = 1;"
    )
    beside.close()

    reopened = open_catalog(tmp_path)

    assert reopened.tables.info(ORDERS).table_id == table_id
    assert reopened.reserve_ids(table_id, 3) == 0
    reopened.close()
