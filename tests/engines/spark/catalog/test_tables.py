"""Databases and tables, made, shown, changed and dropped by SQL."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
)

from headwater.model.types import DecimalType

# By types of Spark. TIME(0) to TIME(6) are one type for its readers.
TYPES = {
    "b": "boolean",
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "f32": "float",
    "f64": "double",
    "d": "decimal(38,10)",
    "s": "string",
    "bin": "binary",
    "day": "date",
    "t": "time(6)",
    "ltz": "timestamp",
    "ntz": "timestamp_ntz",
    "arr": "array<int>",
    "m": "map<string,bigint>",
    "r": "struct<x:int,y:array<string>>",
}
VALUES = (
    "true, -128Y, -32768S, -2147483648, -9223372036854775808L, CAST('-0.0' AS FLOAT),"
    " CAST('NaN' AS DOUBLE), CAST('1234567890123456789012345678.0123456789' AS DECIMAL(38,10)),"
    " 'Zürich', X'00FF', DATE'0001-01-01', TIME'23:59:59.999999',"
    " TIMESTAMP'1582-10-04 00:00:00.000001Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999',"
    " array(1, NULL), map('k', 2L, 'n', NULL), named_struct('x', 1, 'y', array('a', NULL))"
)


def test_databases_are_made_shown_and_dropped(sql):
    sql("CREATE NAMESPACE hw.shop COMMENT 'of the shop'")

    assert ("shop",) in sql("SHOW NAMESPACES IN hw")
    assert sql("SHOW NAMESPACES IN hw.shop") == []
    assert ("Namespace Name", "shop") in sql("DESCRIBE NAMESPACE hw.shop")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        sql("CREATE NAMESPACE hw.shop")

    sql("CREATE TABLE hw.shop.t (a INT)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        sql("DROP NAMESPACE hw.shop")
    sql("DROP NAMESPACE hw.shop CASCADE")
    assert ("shop",) not in sql("SHOW NAMESPACES IN hw")


def test_a_table_is_what_its_statement_says(sql, served, name):
    sql(
        f"CREATE TABLE {name} (a INT, b STRING COMMENT 'who', v DOUBLE) COMMENT 'all'"
        " PARTITIONED BY (b) TBLPROPERTIES ('primary.key' = 'a,b', 'bucket.num' = '2',"
        " 'bucket.key' = 'a', 'table.log.ttl' = '7 d', 'team' = 'red')"
    )

    told = served.client.table(name.removeprefix("hw.")).info.descriptor
    assert told.schema.primary_key == ("a", "b")
    assert (told.partition_keys, told.bucket_keys, told.bucket_count) == (("b",), ("a",), 2)
    assert (told.properties["table.log.ttl"], told.custom_properties["team"]) == ("7 d", "red")
    assert (told.comment, told.schema.column("b").comment) == ("all", "who")


def test_options_of_other_systems_are_taken_or_refused(sql, served, name):
    sql(
        f"CREATE TABLE {name} (a INT) TBLPROPERTIES ('log.retention.hours' = '24',"
        " 'log.tiering.interval.ms' = '60000', 'table.replication-factor' = '1')"
    )
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('log.segment.bytes' = '1048576')")

    told = served.client.table(name.removeprefix("hw.")).info.descriptor
    assert told.properties["table.log.ttl"] == "24 h"
    assert told.properties["table.datalake.freshness"] == "60000 ms"
    assert told.properties["table.log.segment.bytes"] == "1048576 b"
    assert told.custom_properties == {}
    with pytest.raises(PySparkException, match=r"Did you mean 'log.retention.hours'"):
        sql(f"CREATE TABLE {name}_2 (a INT) TBLPROPERTIES ('log.retention.hour' = '24')")
    with pytest.raises(PySparkException, match="cluster of Apache Fluss"):
        sql(f"CREATE TABLE {name}_2 (a INT) TBLPROPERTIES ('table.replication-factor' = '3')")


def test_a_table_is_shown_as_a_statement_that_makes_it_again(sql, served, name):
    sql(f"CREATE TABLE {name} (a INT PRIMARY KEY, b STRING) CLUSTERED BY (a) INTO 3 BUCKETS")
    other = f"hw.{served.new_name()}"

    ((statement,),) = sql(f"SHOW CREATE TABLE {name}")
    sql(statement.replace(name, other))

    first, second = (served.client.table(each.removeprefix("hw.")).info for each in (name, other))
    assert first.descriptor == second.descriptor


def test_every_type_comes_back_as_it_went(sql, name):
    columns = ", ".join(f"{column} {kind}" for column, kind in TYPES.items())

    sql(f"CREATE TABLE {name} ({columns})")
    sql(f"INSERT INTO {name} SELECT {VALUES}")

    shown = {row[0]: row[1] for row in sql(f"DESCRIBE {name}")}
    assert shown == TYPES
    # As texts, since NaN differs from itself.
    (expected,) = sql(f"SELECT {VALUES}")
    assert list(map(repr, sql(f"SELECT * FROM {name}")[0])) == list(map(repr, expected))


def test_tables_are_listed_and_found(sql, hw, served):
    path = served.create({"a": "INT"}).path

    assert (path.database, path.table, False) in sql(f"SHOW TABLES IN hw.{path.database}")
    assert hw.catalog.tableExists(f"hw.{path}")
    assert not hw.catalog.tableExists(f"hw.{path}_not")
    assert ("bucket.num", "1") in sql(f"SHOW TBLPROPERTIES hw.{path}")


def test_what_is_not_there_is_said_as_spark_says_it(sql):
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM hw.fluss.nothing")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("DROP TABLE hw.fluss.nothing")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql("SHOW TABLES IN hw.nothing")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql("CREATE TABLE hw.nothing.t (a INT)")


def test_a_table_is_dropped_and_a_missing_one_may_be(sql, name):
    sql(f"CREATE TABLE {name} (a INT)")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql(f"CREATE TABLE {name} (a INT)")

    sql(f"DROP TABLE {name}")

    sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_is_altered(sql, served, name):
    sql(f"CREATE TABLE {name} (a INT, b STRING)")

    sql(f"ALTER TABLE {name} ADD COLUMN c DECIMAL(6, 2) COMMENT 'tip'")
    sql(f"ALTER TABLE {name} RENAME COLUMN a TO id")
    sql(f"ALTER TABLE {name} DROP COLUMN b")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('table.log.ttl' = '9 d', 'team' = 'red')")
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('team')")

    told = served.client.table(name.removeprefix("hw.")).info.descriptor
    assert told.schema.names == ("id", "c")
    assert told.schema.column("c").type == DecimalType(precision=6, scale=2)
    assert told.properties["table.log.ttl"] == "9 d"
    assert "team" not in told.custom_properties


def test_partitions_are_shown_added_and_dropped(sql, name):
    sql(f"CREATE TABLE {name} (id INT, year INT, city STRING) PARTITIONED BY (year, city)")
    sql(f"INSERT INTO {name} VALUES (1, 2025, 'Bern'), (2, 2026, 'Oslo')")

    sql(f"ALTER TABLE {name} ADD PARTITION (year = 2027, city = 'Rom')")
    sql(f"ALTER TABLE {name} DROP PARTITION (year = 2025, city = 'Bern')")

    expected = [("year=2026/city=Oslo",), ("year=2027/city=Rom",)]
    assert sql(f"SHOW PARTITIONS {name}") == expected
    assert sql(f"SHOW PARTITIONS {name} PARTITION (year = 2027)") == expected[1:]
    with pytest.raises(AnalysisException, match="PARTITIONS_NOT_FOUND"):
        sql(f"ALTER TABLE {name} DROP PARTITION (year = 1, city = 'x')")


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("CREATE TABLE {} (a INT) USING parquet", "Remove USING parquet"),
        ("CREATE TABLE {} (a TIMESTAMP) PARTITIONED BY (days(a))", "PARTITIONED BY"),
        ("CREATE TABLE {} (a INT) TBLPROPERTIES ('bucket.num' = 'x')", "whole number"),
        ("CREATE TABLE {} (a INT) TBLPROPERTIES ('primary.key' = 'b')", "no column 'b'"),
        ("CREATE TABLE {} (a INTERVAL DAY)", "Cast it to another type"),
    ],
)
def test_a_table_that_cannot_be_is_refused_with_what_to_do(sql, name, statement, complaint):
    with pytest.raises(IllegalArgumentException, match=complaint):
        sql(statement.format(name))


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("ALTER TABLE {} ADD COLUMN c INT FIRST", "it becomes the last column"),
        ("ALTER TABLE {} ALTER COLUMN a TYPE BIGINT", "RENAME COLUMN"),
        ("ALTER TABLE {} SET TBLPROPERTIES ('bucket.num' = '9')", "Create another table"),
        ("ALTER TABLE {} RENAME TO hw.fluss.other", "AS SELECT"),
        ("REPLACE TABLE {} (a INT)", "Drop it first"),
        ("TRUNCATE TABLE {}", "create it again"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_what_to_do(sql, name, statement, complaint):
    sql(f"CREATE TABLE {name} (a INT PRIMARY KEY)")

    with pytest.raises((PySparkException, Py4JJavaError), match=complaint):
        sql(statement.format(name))


def test_names_need_no_catalog_once_it_is_used(sql, name):
    sql(f"CREATE TABLE {name} (a INT)")
    try:
        sql(f"USE {name.rpartition('.')[0]}")

        assert sql(f"SELECT * FROM {name.rpartition('.')[2]}") == []
    finally:
        sql("USE spark_catalog.default")


def test_the_changes_of_a_table_cannot_be_written(sql, name):
    sql(f"CREATE TABLE {name} (a INT PRIMARY KEY)")
    database, _, table = name.rpartition(".")

    with pytest.raises(AnalysisException, match="append"):
        sql(f"INSERT INTO {database}.`{table}$changelog` VALUES ('x', 1, NULL, 2)")
