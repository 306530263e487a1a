"""Rows that expire before they are read."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import headwater
from headwater.config.server import ServerSettings
from headwater.errors import OffsetOutOfRangeError
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.runtime.loops import LoopThread
from headwater.server import upkeep
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings
from tests.engines.spark.reading.reader_run import (
    batch_reader,
    read_batch,
    read_between,
    read_up,
    stream_reader,
)

COLUMNS = {"id": "BIGINT", "name": "STRING"}
SHORT = {"table.log.ttl": "1 ms"}
SMALL = StorageSettings(
    LogSettings(segment_bytes_max=2_000, index_interval_bytes=500), KvSettings()
)
WRITES_MAX = 500


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """Give a client of a server that keeps rows for a moment only."""
    settings = ServerSettings(
        host="127.0.0.1", port=0, retention_check_interval_s=0.01, kv_snapshot_interval_s=0.01
    )
    directory = tmp_path_factory.mktemp("forgetful")
    loop = LoopThread("forgetful")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(upkeep, "STATE_INTERVAL_S", 0.01)
        server = loop.run(Server.start(directory, settings, storage=SMALL))
        with headwater.connect(f"127.0.0.1:{server.port}") as client:
            yield client
        loop.run(server.stop())
    loop.close()


def write_until_the_first_rows_are_gone(table) -> int:
    write = table.upsert if table.is_keyed else table.append
    for number in range(WRITES_MAX):
        write([{"id": number, "name": "x" * 200}])
        (first,) = table.offsets("earliest").values()
        if first:
            return first
    raise AssertionError("No row is gone.")


def test_a_stream_says_which_rows_are_gone_and_what_to_do(forgetful):
    table = forgetful.create_table("t1", COLUMNS, buckets=1, options=SHORT)
    reader = stream_reader(table, forgetful.address)
    start = reader.initialOffset()

    write_until_the_first_rows_are_gone(table)

    with pytest.raises(OffsetOutOfRangeError, match=r"bucket 0: offsets 0 to .*failOnDataLoss"):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(OffsetOutOfRangeError, match=r"bucket 0: offsets 0 to .*failOnDataLoss"):
        stream_reader(table, forgetful.address).partitions(start, start)


def test_a_stream_goes_on_with_the_rows_that_are_left_if_it_may(forgetful):
    table = forgetful.create_table("t2", COLUMNS, buckets=1, options=SHORT)
    reader = stream_reader(table, forgetful.address, failOnDataLoss="false")
    start = reader.initialOffset()
    first = write_until_the_first_rows_are_gone(table)
    table.set_options({"table.log.ttl": "30 d"})
    table.append([{"id": -1, "name": "last"}])

    (batch,), end = read_up(reader, start)

    (last,) = table.offsets("latest").values()
    assert end["offsets"] == {"0": last}
    assert batch["id"].to_pylist()[-1] == -1
    assert batch.num_rows <= last - first


def test_tasks_notice_as_well_that_rows_are_gone(forgetful):
    table = forgetful.create_table("t3", COLUMNS, buckets=1)
    table.append([{"id": 1, "name": "x"}])
    reader = batch_reader(table, forgetful.address)
    planned = reader.partitions()

    table.set_options(SHORT)
    write_until_the_first_rows_are_gone(table)

    with pytest.raises(OffsetOutOfRangeError, match=r"bucket 0: offsets 0 to .*failOnDataLoss"):
        list(reader.read(planned[0]))


def test_rows_by_key_cannot_be_read_as_they_were_before_the_log_begins(forgetful):
    table = forgetful.create_table("t4", COLUMNS, primary_key="id", buckets=1)
    table.upsert([{"id": 1, "name": "x"}])
    (first,) = table.tail().poll(5.0)

    table.set_options(SHORT)
    write_until_the_first_rows_are_gone(table)

    options = {"scan__timestamp-millis": str(first.timestamp_ms - 1)}
    old = batch_reader(table, forgetful.address, **options)
    with pytest.raises(OffsetOutOfRangeError, match=r"as it was at that moment.*table\.log\.ttl"):
        read_batch(old)


def test_a_new_partition_whose_first_changes_are_gone_is_read_by_key(forgetful):
    columns = COLUMNS | {"day": "STRING"}
    table = forgetful.create_table(
        "t5",
        columns,
        primary_key=["id", "day"],
        partition_by="day",
        buckets=1,
        options=SHORT,
    )
    reader = stream_reader(table, forgetful.address, failOnDataLoss="false")
    start = reader.initialOffset()
    written = 0
    while written < WRITES_MAX and not sum(table.offsets("earliest").values()):
        table.upsert([{"id": written, "name": "x" * 200, "day": "a"}])
        written += 1

    named = stream_reader(table, forgetful.address).latestOffset(start, ReadAllAvailable())
    end = reader.latestOffset(named, ReadAllAvailable())

    assert named["offsets"] == {"day=a/0": "state"}
    assert sorted(read_between(reader, named, end)["id"].to_pylist()) == list(range(written))
