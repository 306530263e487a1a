"""Tables with a lake, read by Spark: by the format, natively, in SQL and as a stream."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.engines.spark.source import FORMAT
from headwater.spark import catalog, read
from tests.engines.spark.lakes import lake_table, rows, tier
from tests.engines.spark.test_batch_source import EVERY_TYPE
from tests.engines.spark.test_stream_source import copy_all, ids


def contents(frame: DataFrame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()))


@pytest.fixture(scope="module")
def tables(served):
    """Have tables with rows in the lake, some of which were changed since, and new ones."""
    made = {}
    for name, lake_format, traits in (
        ("log", "iceberg", {}),
        ("keyed", "iceberg", {"primary_key": "id"}),
        ("paimon", "paimon", {"primary_key": "id"}),
    ):
        table = lake_table(served, lake_format=lake_format, rows=rows(0, 50), **traits)
        tier(served, table)
        write = table.upsert if table.is_keyed else table.append
        if table.is_keyed:
            # The second round leaves positions in files that are deleted.
            table.upsert(rows(10, 20, "second"))
            tier(served, table)
            table.delete([{"id": number} for number in (0, 15, 30)])
        write(rows(45, 60, "late"))
        made[name] = table
    return made


@pytest.mark.parametrize("name", ["log", "keyed", "paimon"])
def test_all_ways_show_the_rows_of_one_token(spark, served, tables, name):
    table = tables[name]
    view = table.view()
    expected = sorted(map(tuple, (row.values() for row in view.scan().to_arrow().to_pylist())))

    reader = spark.read.format(FORMAT).options(**served.options)
    by_format = reader.option("scan.token", view.token()).load(table.name)
    natively = read(spark, table.name, at=served.address, token=view.token())

    assert contents(by_format) == expected
    assert contents(natively) == expected
    assert contents(reader.load(table.name)) == expected


@pytest.mark.parametrize("name", ["log", "keyed", "paimon"])
def test_a_native_read_takes_columns_and_conditions(spark, served, tables, name):
    where = [[("id", ">=", 44), ("name", "starts with", "late")], [("id", "in", [1, 15])]]
    frame = read(spark, tables[name].name, at=served.address, columns="name", where=where)

    expected = tables[name].scan(columns=["name"], where=where).to_arrow()["name"].to_pylist()
    assert sorted(row.name for row in frame.collect()) == sorted(expected)
    assert frame.columns == ["name"]
    assert read(spark, tables[name].name, at=served.address, where=("id", "in", [])).count() == 0


@pytest.mark.parametrize("lake_format", ["iceberg", "paimon"])
def test_every_type_and_older_columns_are_read_natively(spark, served, lake_format):
    native = {name: each for name, each in EVERY_TYPE.items() if name != "clock"}
    row = {name: value for name, (_, value) in native.items()}
    schema = {"id": "BIGINT", "part": "STRING"} | {name: kind for name, (kind, _) in native.items()}
    table = lake_table(served, schema, lake_format=lake_format, partition_by="part", buckets=1)
    table.append([{"id": 1, "part": "a", **row}, {"id": 2, "part": "b"}])
    tier(served, table)
    table.add_column("added", "INT")
    table.rename_column("whole", "renamed")
    table.append([{"id": 3, "part": "a", "added": 7, "renamed": 8}])
    tier(served, table)
    table.append([{"id": 4, "part": "c", "added": 9}])

    natively = read(spark, table.name, at=served.address).orderBy("id")
    reader = spark.read.format(FORMAT).options(**served.options)

    assert natively.collect() == reader.load(table.name).orderBy("id").collect()
    assert natively.count() == 4


def test_values_that_rot_in_a_file_are_told_and_not_read(spark, served):
    table = lake_table(served, rows=rows(0, 2000), buckets=1)
    tier(served, table)
    (file,) = read(spark, table.name, at=served.address).inputFiles()
    path = Path(urlsplit(file).path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 16
    path.write_bytes(data)

    with pytest.raises((PySparkException, Py4JError), match="FAILED_READ_FILE"):
        read(spark, table.name, at=served.address).collect()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"scan.token": "hw1.x"}, r"view\.token\(\)"),
        ({"scan.snapshot-id": "77"}, "77"),
        ({"scan.offsets": '{"0": 99999}'}, "99999"),
        ({"scan.mode": "lakes"}, "union"),
    ],
)
def test_what_cannot_be_read_is_told_by_spark_with_a_hint(
    spark, served, tables, options, complaint
):
    reader = spark.read.format(FORMAT).options(**(served.options | options))

    with pytest.raises(PySparkException, match=complaint):
        reader.load(tables["log"].name).collect()


def test_a_stream_begins_with_lake_and_log_and_goes_on(spark, served, tmp_path):
    table = lake_table(served, rows=rows(0, 5))
    tier(served, table)
    table.append(rows(5, 8))
    frame = spark.readStream.format(FORMAT).options(**served.options).load(table.name)

    (first,) = copy_all(frame, tmp_path)
    table.append(rows(8, 10))
    tier(served, table)
    (later,) = copy_all(frame, tmp_path)

    assert ids(tmp_path) == list(range(10))
    assert (first.numInputRows, later.numInputRows) == (8, 2)


def test_sql_reads_lake_and_log_as_one(classic_spark, served, tables):
    catalog(classic_spark, "lakes", bootstrap_servers=served.address)

    def sql(query: str) -> list[tuple]:
        return sorted(map(tuple, classic_spark.sql(query).collect()))

    for table in tables.values():
        name = f"lakes.{table.path}"
        expected = table.scan().to_arrow()
        assert sql(f"SELECT count(*) FROM {name}") == [(expected.num_rows,)]
        assert sql(f"SELECT name FROM {name} WHERE id = 15 OR id > 57") == sorted(
            (row["name"],) for row in expected.to_pylist() if row["id"] == 15 or row["id"] > 57
        )
        assert len(sql(f"SELECT * FROM {name} LIMIT 7")) == 7
        joined = f"SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id WHERE b.name = 'late47'"
        assert sql(joined) == [(47,), (47,)] if not table.is_keyed else [(47,)]


def test_sql_reads_a_table_as_it_was(classic_spark, served):
    catalog(classic_spark, "lakes", bootstrap_servers=served.address)
    table = lake_table(served, rows=rows(0, 3))
    tier(served, table)
    view = table.view()
    table.add_column("more", "INT")
    table.append([{"id": 3, "name": "n3", "more": 1}])

    def at(position: str) -> DataFrame:
        return classic_spark.sql(f"SELECT * FROM lakes.{table.path} {position}")

    old = [(number, f"n{number}") for number in range(3)]
    assert contents(at(f"VERSION AS OF '{view.token()}'")) == old
    snapshot = at(f"VERSION AS OF {view.value.snapshot.snapshot_id}")
    assert contents(snapshot.select("id", "name")) == old
    assert at(f"TIMESTAMP AS OF '{datetime.now(UTC).isoformat()}'").count() == 4
