"""Tiering from a program: one call."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import headwater
from headwater.errors import LakeTableDiffersError, RequestError, TableMissingError
from headwater.lake.lakes import Lakes, lake_spec
from headwater.spark import tier
from headwater.tiering.plan import TieringSettings

SCHEMA = {"id": "BIGINT", "text": "STRING"}
FORMATS = ("iceberg", "paimon")


@pytest.fixture
def hw(tmp_path):
    with headwater.open(tmp_path / "data", listen=True) as client:
        yield client


def create(hw, name, lake="iceberg", rows=100):
    options = {"table.datalake.enabled": True, "table.datalake.format": lake}
    table = hw.create_table(name, SCHEMA, buckets=2, bucket_by="id", options=options)
    table.append([{"id": number, "text": "a"} for number in range(rows)])
    return table


def lake_ids(table) -> list[int]:
    source = Lakes().of(table.info).source(lake_spec(table.info))
    splits = source.plan(source.snapshot().snapshot_id)
    found = [batch["id"].to_pylist() for split in splits for batch in source.read(split)]
    return sorted(number for each in found for number in each)


def test_all_tables_with_a_lake_are_tiered(spark, hw):
    tables = [create(hw, lake, lake) for lake in FORMATS]
    hw.create_table("plain", SCHEMA)

    first, second = tier(spark, hw), tier(spark, hw)

    assert {each.table: each.rows for each in first} == {"fluss.iceberg": 100, "fluss.paimon": 100}
    assert sum(each.rows for each in second) == 0
    assert [lake_ids(table) for table in tables] == [[*range(100)]] * 2


def test_a_long_log_takes_several_rounds(spark, hw):
    table = create(hw, "t", rows=90)

    rounds = tier(spark, hw.address, tables="t", settings=TieringSettings(rows_max=20))

    assert len(rounds) >= 3
    assert rounds[-1].rows_left == 0
    assert lake_ids(table) == [*range(90)]


def test_tierers_side_by_side_copy_every_row_once(spark, hw):
    tables = [create(hw, f"t{number}", FORMATS[number % 2]) for number in range(4)]

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(tier, spark, hw) for _ in range(2)]
        rounds = [each for one in both for each in one.result()]

    assert sum(each.rows for each in rounds) == 400
    assert [lake_ids(table) for table in tables] == [[*range(100)]] * 4


def test_a_table_that_fails_is_told_when_the_others_are_done(spark, hw):
    table = create(hw, "good")

    with pytest.raises(TableMissingError, match="missing"):
        tier(spark, hw, tables=["missing", "good"])

    assert lake_ids(table) == [*range(100)]


def test_a_table_made_anew_is_not_mixed_with_what_was_there(spark, hw):
    create(hw, "t", rows=10)
    tier(spark, hw)
    hw.drop_table("t")
    create(hw, "t", rows=5)

    with pytest.raises(LakeTableDiffersError, match="earlier table"):
        tier(spark, hw)


def test_a_storage_that_workers_cannot_reach_is_refused(tmp_path):
    with (
        headwater.open(tmp_path / "data") as hw,
        pytest.raises(RequestError, match="listen=True"),
    ):
        tier(None, hw)
