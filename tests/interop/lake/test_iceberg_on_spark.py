"""Spark with Iceberg's own runtime reads the tables that we write, and writes beside us."""

import pytest

from headwater.config.lake import ICEBERG_CATALOG_NAME
from headwater.errors import HeadwaterError
from tests.interop.lake.coded import coded_rows
from tests.interop.lake.made import SHAPES


def name_of(table) -> str:
    return f"`{ICEBERG_CATALOG_NAME}`.{table.spec.path.database}.{table.spec.path.table}"


@pytest.mark.parametrize("shape", SHAPES)
def test_spark_reads_the_rows_that_we_read(spark, iceberg, rows_of, shape):
    table = SHAPES[shape](iceberg)

    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == coded_rows(table.rows())


@pytest.mark.parametrize("shape", ["keyed", "partitioned", "compacted"])
def test_spark_counts_what_it_reads(spark, iceberg, rows_of, shape):
    table = SHAPES[shape](iceberg)

    assert rows_of(spark, f"SELECT count(*) FROM {name_of(table)}") == [[table.rows().num_rows]]


def test_spark_reads_an_older_snapshot(spark, iceberg, rows_of):
    table = SHAPES["keyed"](iceberg)
    first = table.source.snapshots()[1]

    found = rows_of(spark, f"SELECT * FROM {name_of(table)} VERSION AS OF {first.snapshot_id}")

    assert found == coded_rows(table.rows(first.snapshot_id))


def test_spark_finds_rows_by_filters_on_keys_and_partitions(spark, iceberg, rows_of):
    table = SHAPES["partitioned"](iceberg)
    wanted = [row for row in table.rows().to_pylist() if row["land"] == "fr" and row["id"] > 5]

    found = rows_of(spark, f"SELECT id FROM {name_of(table)} WHERE land = 'fr' AND id > 5")

    assert sorted(row[0] for row in found) == sorted(row["id"] for row in wanted)


def test_spark_sees_the_boundary_in_the_snapshot(spark, iceberg, rows_of):
    table = SHAPES["log"](iceberg)

    found = rows_of(spark, f"SELECT summary['headwater.boundary'] FROM {name_of(table)}.snapshots")

    assert [table.head().boundary.to_json()] in found


def test_spark_appends_after_us_and_we_go_on(spark, iceberg, rows_of):
    table = SHAPES["unbucketed"](iceberg)
    boundary = table.head().boundary

    spark.ask("run", sql=f"INSERT INTO {name_of(table)} VALUES (100, 'from Spark')")

    assert {"id": 100, "name": "from Spark"} in table.values()
    assert table.head().boundary == boundary
    table.tier([{"id": 101, "name": "ours"}])
    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == coded_rows(table.rows())


@pytest.mark.parametrize("shape", ["keyed", "partitioned", "evolved_keyed"])
def test_spark_rewrites_files_and_we_go_on(spark, iceberg, rows_of, shape):
    table = SHAPES[shape](iceberg)
    rows, boundary = coded_rows(table.rows()), table.head().boundary

    called(spark, "rewrite_data_files", table, "options => map('rewrite-all', 'true')")

    assert coded_rows(table.rows()) == rows
    assert table.head().boundary == boundary
    table.tier([table.rows().to_pylist()[0]])
    assert coded_rows(table.rows()) == rows
    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == rows


def test_spark_deletes_rows_and_we_read_what_is_left(spark, iceberg, rows_of):
    table = SHAPES["keyed"](iceberg)
    left = [row for row in coded_rows(table.rows()) if row[0] >= 10]

    spark.ask("run", sql=f"DELETE FROM {name_of(table)} WHERE id < 10")

    assert coded_rows(table.rows()) == left
    table.tier([{"id": 3, "name": "back"}])
    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == coded_rows(table.rows())


def called(spark, procedure: str, table, *arguments: str) -> None:
    path = f"{table.spec.path.database}.{table.spec.path.table}"
    parts = ", ".join((f"table => '{path}'", *arguments))
    spark.ask("run", sql=f"CALL `{ICEBERG_CATALOG_NAME}`.system.{procedure}({parts})")


def test_sparks_upkeep_leaves_what_we_wrote(spark, iceberg, rows_of):
    table = SHAPES["partitioned"](iceberg)
    rows, boundary = coded_rows(table.rows()), table.head().boundary

    called(spark, "rewrite_manifests", table)
    called(spark, "rewrite_position_delete_files", table, "options => map('rewrite-all', 'true')")
    called(spark, "remove_orphan_files", table, "dry_run => true")

    assert coded_rows(table.rows()) == rows
    assert table.head().boundary == boundary
    table.tier([table.rows().to_pylist()[0]])
    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == rows


def test_a_boundary_that_spark_expired_is_not_taken_for_a_table_that_nobody_tiered(spark, iceberg):
    table = SHAPES["unbucketed"](iceberg)
    boundary = table.head().boundary
    spark.ask("run", sql=f"INSERT INTO {name_of(table)} VALUES (100, 'from Spark')")
    older = "older_than => TIMESTAMP '2999-01-01 00:00:00'"

    called(spark, "expire_snapshots", table, older, "retain_last => 1")

    # Without a boundary a tierer would copy everything a second time.
    try:
        found = table.head().boundary
    except HeadwaterError:
        return
    assert found == boundary


def test_our_upkeep_leaves_what_spark_wrote(spark, iceberg, rows_of):
    table = SHAPES["unbucketed"](iceberg)
    for turn in range(4):
        table.tier([{"id": 200 + turn, "name": "ours"}])
        spark.ask("run", sql=f"INSERT INTO {name_of(table)} VALUES ({turn}, 'from Spark')")
    rows = coded_rows(table.rows())

    table.compact()
    head = table.head()
    retention = table.keeper.retention()
    table.keeper.expire(type(retention)(snapshots_min=1, age_ms=0), now_ms=head.committed_ms + 1000)
    table.keeper.remove_orphans(older_than_ms=head.committed_ms + 1000)

    assert coded_rows(table.rows()) == rows
    assert rows_of(spark, f"SELECT * FROM {name_of(table)}") == rows
