"""Other catalogs and other spellings of places lead to the same tables."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.errors import InvalidOptionError, LakeTableDiffersError, LakeUnreachableError
from headwater.lake.lakes import open_lake
from headwater.lake.spi import Retention
from headwater.model.types import BigIntType, StringType, TimestampType
from tests.lake.contract.changes import added
from tests.lake.tables import Tables

ALL_OLD = Retention(snapshots_min=1, age_ms=0)


@pytest.fixture
def jdbc(tmp_path):
    return {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "warehouse": f"{tmp_path}/warehouse",
        "catalog-key": "mine",
    }


def test_a_catalog_in_a_database_is_used_like_any_other(jdbc):
    lake = open_lake("paimon", jdbc)
    table = Tables(lake).keyed()
    table.tier([{"id": 1, "name": "a"}])

    table = table.evolved(added(table.spec, "more"))
    table.tier([{"id": 1, "name": "b", "more": "c"}])

    assert table.values() == [{"id": 1, "name": "b", "more": "c"}]
    assert lake.catalog().list_tables() == [table.spec.path]
    lake.catalog().drop(table.spec.path)
    assert not lake.catalog().exists(table.spec.path)


def test_a_table_whose_files_are_gone_is_told_and_can_be_dropped(jdbc, tmp_path):
    lake = open_lake("paimon", jdbc)
    table = Tables(lake).make()
    table.tier([{"id": 1, "name": "a"}])
    shutil.rmtree(tmp_path / "warehouse" / "db.db" / table.spec.path.table)

    with pytest.raises(LakeTableDiffersError, match="but no files") as caught:
        lake.catalog().ensure(table.spec)
    lake.catalog().drop(table.spec.path)
    lake.catalog().ensure(table.spec)

    assert "headwater lake drop" in caught.value.hint
    assert lake.committer(table.spec).head() is None


def test_a_lake_without_a_warehouse_says_what_is_missing():
    with pytest.raises(InvalidOptionError, match="warehouse"):
        open_lake("paimon", {}).catalog().list_tables()


def test_an_unknown_metastore_is_told(tmp_path):
    config = {"metastore": "nothing", "warehouse": str(tmp_path)}

    with pytest.raises(InvalidOptionError, match="nothing"):
        open_lake("paimon", config).catalog().list_tables()


def test_partitions_with_signs_in_their_names_are_found_under_an_address(tmp_path):
    columns = {"id": BigIntType(), "at": TimestampType(nullable=False), "name": StringType()}
    lake = open_lake("paimon", {"warehouse": f"file://{tmp_path}/ware house"})
    table = Tables(lake).make(columns, partition_keys=("at",))
    for turn in range(6):
        table.tier([{"id": turn, "at": 1_700_000_000_123_456, "name": "x"}])
    table.compact()
    before = [row["id"] for row in table.values()]

    cleaned = table.keeper.expire(ALL_OLD, now_ms=table.head().committed_ms + 1)
    lost = table.write([{"id": 9, "at": 1_700_000_000_123_456, "name": "x"}], on=table.head())
    orphans = table.keeper.remove_orphans(older_than_ms=table.head().committed_ms + 10**9)

    assert (cleaned.data_files, orphans.data_files, lost[0].file_count) == (6, 1, 1)
    assert [row["id"] for row in table.values()] == before == list(range(6))
    assert list((tmp_path / "ware house").rglob("at=2023-11-14 22%3A13%3A20.123456"))


def test_drivers_that_make_and_change_a_table_at_once_agree(tmp_path):
    lake = open_lake("paimon", {"warehouse": f"{tmp_path}/warehouse"})
    spec = Tables(lake).spec({"id": BigIntType(), "name": StringType()})
    later = added(added(spec, "one"), "two")

    with ThreadPoolExecutor(8) as drivers:
        for wanted in (spec, later):
            list(drivers.map(lake.catalog().ensure, [wanted] * 8))

    schemas = sorted(each.name for each in tmp_path.rglob("schema-*"))
    assert schemas == ["schema-0", "schema-1"]
    assert lake.catalog().column_names(spec.path) == ("id", "name", "one", "two")


def test_a_database_whose_place_is_taken_by_a_file_is_told(tmp_path):
    lake = open_lake("paimon", {"warehouse": f"{tmp_path}"})
    (tmp_path / "db.db").write_text("no directory")

    with pytest.raises(LakeUnreachableError, match=r"db\.t0"):
        Tables(lake).make()
