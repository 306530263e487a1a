"""Batches of a table, as Spark drives them."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from headwater.engines.spark.read.batch import BatchReader, estimated_rows, row_count
from headwater.errors import (
    InvalidTimestampError,
    NotPrimaryKeyTableError,
    PartitionMissingError,
    RequestError,
    TableMissingError,
    UnsupportedError,
)
from headwater.read.split import rows_max_of
from headwater.read.virtual import VirtualKind
from tests.engines.spark.reading.reader_run import batch_reader, read_batch, source_options

LOG = {"id": "BIGINT", "name": "STRING"}
DAYS = {"id": "BIGINT", "day": "STRING"}


def rows(start: int, end: int) -> list[dict]:
    return [{"id": number, "name": f"n{number}"} for number in range(start, end)]


def ids(table) -> list[int]:
    return sorted(table["id"].to_pylist()) if table.num_rows else []


@pytest.fixture
def read(served):
    return lambda table, **options: read_batch(batch_reader(table, served.address, **options))


def test_all_rows_of_a_log_are_read_in_large_batches(served):
    table = served.create(LOG, buckets=2)
    for start in range(0, 1000, 100):
        table.append(rows(start, start + 100))
    reader = batch_reader(table, served.address)

    (planned,) = reader.partitions()

    assert [ids(batch) for batch in reader.read(planned)] == [list(range(1000))]


def test_a_large_bucket_is_read_by_several_tasks(served, read):
    table = served.create(LOG, rows=rows(0, 1000), buckets=1)
    reader = batch_reader(table, served.address, scan__split__rows="300")

    assert [rows_max_of(each.value.splits[0]) for each in reader.partitions()] == [250] * 4
    assert ids(read_batch(reader)) == list(range(1000))


def test_columns_and_rows_are_chosen_where_they_are_stored(served, read):
    table = served.create(LOG, rows=rows(0, 100), buckets=2)

    found = read(table, scan__columns="name", scan__filter='[["id", "<", 3]]')

    assert sorted(found["name"].to_pylist()) == ["n0", "n1", "n2"]
    assert found.schema.names == ["name"]


@pytest.mark.parametrize("key", [(), "id"])
def test_no_more_rows_are_read_than_the_limit_allows(served, read, key):
    table = served.create(LOG, rows=rows(0, 100), primary_key=key, buckets=3)

    assert read(table, scan__limit="10").num_rows == 10
    assert read(table, scan__limit="1000").num_rows == 100
    assert read(table, scan__limit="0").num_rows == 0
    assert read(table, scan__limit="2", scan__filter='[["id", ">", 97]]').num_rows == 2


def test_partitions_are_left_out_by_name_and_by_filter(served, read):
    table = served.create(DAYS, rows=[(0, "a"), (1, "b"), (2, "c")], partition_by="day", buckets=1)

    assert ids(read(table, scan__partitions="day=a,day=c")) == [0, 2]
    assert ids(read(table, scan__filter='[["day", ">", "a"]]')) == [1, 2]
    reader = batch_reader(table, served.address, scan__filter='[["day", "==", "b"]]')
    assert [split.place.partition for split in reader.partitions()[0].value.splits] == ["b"]


def test_a_partition_that_there_is_not_is_named_with_those_that_are(served, read):
    table = served.create(DAYS, rows=[(0, "a")], partition_by="day", buckets=1)

    with pytest.raises(PartitionMissingError, match="no partition x"):
        read(table, scan__partitions="day=x")


def test_rows_by_key_are_those_of_the_plan_however_late_they_are_read(served):
    table = served.create(LOG, rows=rows(0, 100), primary_key="id", buckets=3)
    reader = batch_reader(table, served.address)
    planned = reader.partitions()

    table.upsert([{"id": number, "name": "new"} for number in range(50, 150)])
    table.delete(list(range(10)))

    found = [row for share in planned for batch in reader.read(share) for row in batch.to_pylist()]
    assert sorted(found, key=lambda row: row["id"]) == rows(0, 100)


@pytest.mark.parametrize("key", [(), "id"])
def test_a_table_is_read_as_it_was_at_a_moment(served, read, key):
    table = served.create(LOG, rows=rows(0, 3), primary_key=key, buckets=1)
    (written,) = table.tail().poll(5.0)
    moment_ms = written.timestamp_ms + 1
    while datetime.now(UTC).timestamp() * 1000 <= moment_ms:
        pass
    (table.upsert if key else table.append)([{"id": 2, "name": "new"}, {"id": 7, "name": "n7"}])

    found = read(table, **{"scan__timestamp-millis": str(moment_ms)})

    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == rows(0, 3)


def test_a_moment_to_come_is_refused(served, read):
    table = served.create(LOG, rows=rows(0, 3), buckets=1)

    with pytest.raises(InvalidTimestampError):
        read(table, **{"scan__timestamp-millis": "2999-01-01 00:00:00"})


def test_changes_are_read_with_what_they_are(served, read):
    table = served.create(LOG, rows=rows(0, 2), primary_key="id", buckets=1)
    table.upsert([{"id": 1, "name": "new"}])
    table.delete([0])

    changes = read(table, scan__changelog="true", scan__columns="_change_type,_log_offset,id")
    binlog = read(served.client.table(f"{table.name}$binlog"))

    assert changes["_change_type"].to_pylist() == (
        ["insert"] * 2 + ["update_before", "update_after", "delete"]
    )
    assert changes["_log_offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert binlog["_change_type"].to_pylist() == ["insert", "insert", "update", "delete"]
    assert binlog["before"].to_pylist()[2:] == [{"id": 1, "name": "n1"}, {"id": 0, "name": "n0"}]


def test_changes_are_filtered_and_their_partitions_left_out(served):
    table = served.create(
        DAYS, rows=[(0, "a"), (1, "b")], primary_key=["id", "day"], partition_by="day", buckets=1
    )
    wanted = '[["day", "==", "a"], ["_change_type", "==", "insert"]]'
    options = {"scan__changelog": "true", "scan__filter": wanted, "scan__columns": "_log_offset"}
    reader = batch_reader(table, served.address, **options)

    assert len(reader.partitions()[0].value.splits) == 1
    assert read_batch(reader).to_pydict() == {"_log_offset": [0]}


def test_an_empty_table_gives_no_rows_and_a_task_without_a_share_none_either(served, read):
    table = served.create(LOG, buckets=3)

    assert batch_reader(table, served.address).partitions() == []
    assert read(table).num_rows == 0


def test_the_number_of_rows_is_told_without_reading_them(served):
    log = served.create(LOG, rows=rows(0, 100), buckets=2)
    keyed = served.create(LOG, rows=rows(0, 50), primary_key="id", buckets=2)
    keyed.upsert(rows(0, 50))

    def counted(table, **options):
        asked = source_options(table, served.address, options)
        return row_count(asked), estimated_rows(asked)

    assert counted(log) == (100, 100)
    assert counted(keyed) == (50, 50)
    assert counted(log, scan__limit="7") == (7, 7)
    assert counted(log, scan__filter='[["id", "<", 3]]') == (None, 100)
    assert counted(keyed, scan__changelog="true")[0] is None


def test_columns_that_do_not_fit_the_table_are_refused_with_those_that_do(served):
    table = served.create(LOG, buckets=1)
    options = source_options(table, served.address, {})

    for asked, told in [
        (StructField("idd", LongType()), r"no column 'idd'\. Its columns are id, name"),
        (StructField("id", IntegerType()), r"'id' of .* is bigint, not int"),
        (StructField("name", ArrayType(LongType())), r"'name' of .* is string, not array<bigint>"),
    ]:
        with pytest.raises(RequestError, match=told):
            BatchReader(options, StructType([asked]))
    with pytest.raises(RequestError, match="No column"):
        BatchReader(options, StructType([]))


def test_what_cannot_be_read_is_refused_when_the_read_is_planned(served):
    log = served.create(LOG, buckets=1)
    keyed = served.create(
        LOG, primary_key="id", buckets=1, options={"table.changelog.image": "wal"}
    )

    with pytest.raises(RequestError, match="names 'x', which is not a column"):
        batch_reader(log, served.address, scan__filter='[["x", "<", 3]]')
    with pytest.raises(NotPrimaryKeyTableError):
        served.client.table(f"{log.name}${VirtualKind.BINLOG}")
    with pytest.raises(UnsupportedError, match=r"no rows before updates.*\$changelog"):
        batch_reader(served.client.table(f"{keyed.name}$binlog"), served.address)
    with pytest.raises(UnsupportedError, match=r"as they were.*no rows before updates"):
        batch_reader(keyed, served.address, **{"scan__timestamp-millis": "5"}).partitions()
    with pytest.raises(TableMissingError):
        row_count(source_options(log, served.address, {"table": "spark.nothing"}))
