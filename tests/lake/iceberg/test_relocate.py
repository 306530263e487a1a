"""A warehouse that was copied is made at home where it is, for our readers and for others."""

import shutil

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import headwater
from headwater.backup.relocate import relocate_warehouse
from headwater.errors import LakeTableDiffersError
from tests.cli.commanding import Storage, ok

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
LAKE = {"table.datalake.enabled": "true", "table.datalake.format": "iceberg"}
ROWS = 300


def tier(directory):
    Storage(str(directory)).rows("tier", "--once", "--here")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a storage of which lake tables have several snapshots, and deletes beside data."""
    directory = tmp_path_factory.mktemp("original") / "data"
    with headwater.open(directory) as storage:
        storage.create_database("shop")
        by_key = storage.create_table("shop.stock", SCHEMA, primary_key="id", options=LAKE)
        log = storage.create_table("shop.clicks", SCHEMA, options=LAKE)
        by_key.upsert([{"id": each, "name": "old"} for each in range(ROWS)])
        log.append([{"id": each, "name": "seen"} for each in range(ROWS)])
    tier(directory)
    with headwater.open(directory) as storage:
        storage.table("shop.stock").upsert([{"id": each, "name": "new"} for each in range(9)])
        storage.table("shop.stock").delete([{"id": ROWS - 1}])
    tier(directory)
    assert list(directory.rglob("*deletes*.parquet"))
    return directory


@pytest.fixture
def copy(original, tmp_path):
    """Return a copy, in a world where the original cannot be read by accident."""
    shutil.copytree(original, tmp_path / "elsewhere" / "data")
    hidden = original.with_name("hidden")
    original.rename(hidden)
    yield tmp_path / "elsewhere" / "data"
    hidden.rename(original)


def rows_of(directory):
    with headwater.open(directory) as storage:
        return {
            name: sorted(
                map(
                    tuple,
                    (row.values() for row in storage.table(name).scan().to_arrow().to_pylist()),
                )
            )
            for name in ("shop.clicks", "shop.stock")
        }


def expected():
    stock = [(each, "new" if each < 9 else "old") for each in range(ROWS - 1)]
    return {"shop.clicks": [(each, "seen") for each in range(ROWS)], "shop.stock": stock}


def test_a_copy_is_refused_until_it_is_relocated_and_reads_the_same_then(copy):
    with pytest.raises(LakeTableDiffersError, match="moved or copied"):
        rows_of(copy)

    moved = relocate_warehouse(copy / "lake" / "iceberg")

    assert sorted(map(str, moved)) == ["shop.clicks", "shop.stock"]
    assert rows_of(copy) == expected()


def test_others_read_a_relocated_table_and_all_its_snapshots(copy):
    home = copy / "lake" / "iceberg"
    relocate_warehouse(home)
    catalog = load_catalog(
        "fluss-iceberg-catalog",
        type="sql",
        uri=f"sqlite:///{home}/catalog.sqlite",
        warehouse=f"file://{home}",
    )

    table = catalog.load_table("shop.stock")
    counts = [
        table.scan(snapshot_id=each.snapshot_id).to_arrow().num_rows
        for each in table.metadata.snapshots
    ]

    assert (counts[0], counts[-1]) == (ROWS, ROWS - 1)


def test_a_relocated_copy_is_tiered_on_compacted_and_sound(copy):
    relocate_warehouse(copy / "lake" / "iceberg")
    with headwater.open(copy) as storage:
        storage.table("shop.stock").upsert([{"id": 1, "name": "newest"}])
    tier(copy)
    told = Storage(str(copy))

    told.rows("lake", "compact", "shop.stock")
    ok(told("audit", "--deep"))

    assert rows_of(copy)["shop.stock"][1] == (1, "newest")


def test_a_warehouse_at_home_is_left_as_it_is(original):
    home = original / "lake" / "iceberg"
    before = sorted(home.rglob("*"))

    assert relocate_warehouse(home) == ()
    assert sorted(home.rglob("*")) == before


def test_a_copy_without_its_files_is_refused_and_not_changed(copy):
    home = copy / "lake" / "iceberg"
    shutil.rmtree(home / "shop" / "clicks")
    before = (home / "catalog.sqlite").read_bytes()

    with pytest.raises(LakeTableDiffersError, match="is not below"):
        relocate_warehouse(home)

    assert (home / "catalog.sqlite").read_bytes() == before
