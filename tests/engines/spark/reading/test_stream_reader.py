"""Streams of a table, as Spark drives them."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from headwater.errors import InvalidOptionError, MissingError, PartitionMissingError, RequestError
from tests.engines.spark.reading.reader_run import (
    read_between,
    read_on,
    read_up,
    stream_reader,
)

LOG = {"id": "BIGINT", "name": "STRING"}
DAYS = {"id": "BIGINT", "day": "STRING"}


def rows(start: int, end: int) -> list[dict]:
    return [{"id": number, "name": f"n{number}"} for number in range(start, end)]


def ids(table) -> list[int]:
    return sorted(table["id"].to_pylist()) if table.num_rows else []


@pytest.fixture
def open_stream(served):
    return lambda table, **options: stream_reader(table, served.address, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"scan__startup__mode": "earliest"}, [0, 1, 2, 3]),
        ({"scan__startup__mode": "latest"}, [3]),
        ({"scan__startup__mode": "offsets", "scan__startup__offsets": '{"0": 2}'}, [2, 3]),
    ],
)
def test_a_stream_begins_where_it_is_told_to(served, open_stream, options, expected):
    table = served.create(LOG, rows=rows(0, 3), buckets=1)
    reader = open_stream(table, **options)
    start = reader.initialOffset()

    table.append(rows(3, 4))

    assert ids(read_on(reader, start)[0]) == expected


def test_a_stream_begins_at_a_moment(served, open_stream):
    table = served.create(LOG, rows=rows(0, 3), buckets=1)
    (last,) = table.tail().poll(5.0)
    moment = datetime.fromtimestamp(last.timestamp_ms / 1000 + 0.001, UTC)
    while datetime.now(UTC) <= moment:
        pass
    table.append(rows(3, 5))

    mode = {"scan__startup__mode": "timestamp", "scan__startup__timestamp": moment.isoformat()}

    reader = open_stream(table, **mode)
    assert ids(read_on(reader, reader.initialOffset())[0]) == [3, 4]


def test_a_stream_goes_on_where_a_cursor_is_and_moves_it_along(served, open_stream):
    table = served.create(LOG, rows=rows(0, 4), buckets=1)
    served.client.cursors.reset("billing", table.name, to={0: 1})
    mode = {"scan__startup__mode": "cursor", "scan__startup__cursor": "billing"}
    reader = open_stream(table, **mode)

    found, end = read_on(reader, reader.initialOffset())
    reader.commit(end)
    table.append(rows(4, 6))
    _, end = read_on(reader, end)
    reader.commit(end)

    assert ids(found) == [1, 2, 3]
    state = served.client.cursors.describe("billing", table.name)
    assert [each.position for each in state.places] == [6]
    assert open_stream(table, **mode).initialOffset() == end


def test_a_cursor_that_there_is_not_is_an_error_that_says_how_to_make_it(served, open_stream):
    table = served.create(LOG, buckets=1)
    mode = {"scan__startup__mode": "cursor", "scan__startup__cursor": "nobody"}

    with pytest.raises(MissingError, match="cursor reset"):
        open_stream(table, **mode).initialOffset()


def test_rows_by_key_come_first_and_then_what_they_become(served, open_stream):
    table = served.create(LOG, rows=rows(0, 3), primary_key="id", buckets=1)
    reader = open_stream(table)
    first, end = read_on(reader, reader.initialOffset())

    table.upsert([{"id": 1, "name": "new"}, {"id": 9, "name": "n9"}])
    table.delete([2])
    second, _ = read_on(reader, end)

    assert ids(first) == [0, 1, 2]
    assert second.to_pylist() == [{"id": 1, "name": "new"}, {"id": 9, "name": "n9"}]


@pytest.mark.parametrize(
    ("image", "kinds"),
    [("full", ["update_before", "update_after", "delete"]), ("wal", ["update_after", "delete"])],
)
def test_a_changelog_begins_with_the_rows_there_are(served, open_stream, image, kinds):
    table = served.create(
        LOG,
        rows=rows(0, 2),
        primary_key="id",
        buckets=1,
        options={"table.changelog.image": image},
    )
    reader = open_stream(table, scan__changelog="true")
    start = reader.initialOffset()
    before, end = read_on(reader, start)
    table.upsert([{"id": 1, "name": "new"}])
    table.delete([0])
    after, _ = read_on(reader, end)

    assert before["_change_type"].to_pylist() == ["insert"] * 2
    assert set(before["_log_offset"].to_pylist()) == {end["offsets"]["0"] - 1}
    moments = {int(moment.timestamp() * 1000) for moment in before["_commit_timestamp"].to_pylist()}
    assert moments == {end["state_read_ms"]}
    assert after["_change_type"].to_pylist() == kinds


def test_a_micro_batch_of_rows_by_key_is_the_same_again_though_rows_were_written(
    served, open_stream
):
    table = served.create(LOG, rows=rows(0, 90), primary_key="id", buckets=2)
    reader = open_stream(table, scan__changelog="true")
    start = reader.initialOffset()
    before, end = read_on(reader, start)

    table.upsert([{"id": number, "name": "new"} for number in range(50, 120)])
    table.delete(list(range(20)))

    assert read_between(reader, start, end).sort_by("id") == before.sort_by("id")


def test_a_table_that_is_empty_at_first_gives_all_its_changes(served, open_stream):
    table = served.create(LOG, primary_key="id", buckets=1)
    reader = open_stream(table, scan__changelog="true")
    start = reader.initialOffset()

    table.upsert(rows(0, 1))
    table.delete([0])

    assert read_on(reader, start)[0]["_change_type"].to_pylist() == ["insert", "delete"]


def test_updates_stay_whole_though_a_limit_cuts_between_their_halves(served, open_stream):
    table = served.create(LOG, rows=rows(0, 4), primary_key="id", buckets=1)
    reader = stream_reader(
        served.client.table(f"{table.name}$binlog"),
        served.address,
        scan__startup__mode="earliest",
        maxRowsPerTrigger="3",
    )
    table.upsert([{"id": number, "name": "new"} for number in range(4)])

    batches, _ = read_up(reader, reader.initialOffset())

    changes = [row for batch in batches for row in batch.to_pylist()]
    assert [row["_change_type"] for row in changes] == ["insert"] * 4 + ["update"] * 4
    assert [row["before"]["name"] for row in changes[4:]] == ["n0", "n1", "n2", "n3"]


def test_rows_are_limited_and_shared_out_among_buckets(served, open_stream):
    table = served.create(LOG, rows=rows(0, 100), bucket_by="id", buckets=3)
    reader = open_stream(table, maxRowsPerTrigger="30")

    batches, _ = read_up(reader, reader.initialOffset())

    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    assert sorted(number for batch in batches for number in ids(batch)) == list(range(100))


def test_bytes_are_limited_by_the_size_of_rows(served, open_stream):
    text = "x" * 1000
    table = served.create(LOG, buckets=1)
    for number in range(10):
        table.append([{"id": number, "name": text}])
    reader = open_stream(table, maxBytesPerTrigger="3 kb")

    batches, _ = read_up(reader, reader.initialOffset())

    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    assert {batch.num_rows for batch in batches[:-1]} <= {2, 3}


def test_states_are_read_as_many_at_a_time_as_the_limit_allows(served, open_stream):
    table = served.create(LOG, rows=rows(0, 90), primary_key="id", buckets=3)
    reader = open_stream(table, maxRowsPerTrigger="40")

    batches, end = read_up(reader, reader.initialOffset())

    assert len(batches) == 3
    assert sorted(number for batch in batches for number in ids(batch)) == list(range(90))
    assert "state" not in end["offsets"].values()


def test_a_trigger_that_wants_everything_is_not_limited(served, open_stream):
    table = served.create(LOG, rows=rows(0, 100), buckets=2)
    reader = open_stream(table, maxRowsPerTrigger="30")
    start = reader.initialOffset()

    end = reader.latestOffset(start, ReadAllAvailable())

    assert read_between(reader, start, end).num_rows == 100


def test_what_is_there_now_is_read_and_nothing_that_comes_later(served, open_stream):
    table = served.create(LOG, rows=rows(0, 50), buckets=1)
    reader = open_stream(table, maxRowsPerTrigger="20")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    table.append(rows(50, 60))

    batches, end = read_up(reader, start)

    assert [batch.num_rows for batch in batches] == [20, 20, 10]
    report = reader.reportLatestOffset()
    assert (report["offsets"], report["rows_behind"]) == ({"0": 60}, 10)
    assert ids(read_on(open_stream(table), end)[0]) == list(range(50, 60))


def test_a_start_is_given_back_where_nothing_comes(served, open_stream):
    table = served.create(LOG, rows=rows(0, 5), buckets=1)
    reader = open_stream(table, scan__startup__mode="latest")
    start = reader.initialOffset()

    end = reader.latestOffset(start, ReadAllAvailable())

    assert json.dumps(end) == json.dumps(start)
    assert reader.partitions(start, end) == []


def test_partitions_that_come_later_are_read_from_their_first_row(served, open_stream):
    table = served.create(DAYS, rows=[(0, "a"), (1, "a")], partition_by="day", buckets=1)
    reader = open_stream(
        table, scan__startup__mode="latest", scan__partition__discovery__interval="1 ms"
    )
    start = reader.initialOffset()
    table.append([(2, "b"), (3, "a")])

    found, end = read_on(reader, start)

    assert ids(found) == [2, 3]
    assert end["offsets"] == {"day=a/0": 3, "day=b/0": 1}
    assert set(end["partitions"]) == {"day=a", "day=b"}


def test_a_partition_that_was_dropped_after_it_was_read_is_no_loss(served, open_stream):
    table = served.create(DAYS, rows=[(0, "a"), (1, "b")], partition_by="day", buckets=1)
    reader = open_stream(table, scan__partition__discovery__interval="1 ms")
    found, end = read_on(reader, reader.initialOffset())
    table.drop_partition({"day": "a"})
    table.append([(2, "b")])

    later, end = read_on(reader, end)

    assert (ids(found), ids(later)) == ([0, 1], [2])
    assert list(end["offsets"]) == ["day=b/0"]


def test_a_partition_that_was_made_anew_is_read_from_its_first_row(served, open_stream):
    table = served.create(DAYS, rows=[(0, "a"), (1, "a")], partition_by="day", buckets=1)
    reader = open_stream(table, scan__partition__discovery__interval="1 ms")
    _, end = read_on(reader, reader.initialOffset())
    table.drop_partition({"day": "a"})
    table.append([(number, "a") for number in range(10, 15)])

    found, _ = read_on(reader, end)

    assert ids(found) == list(range(10, 15))


def test_a_partition_that_was_dropped_while_it_had_rows_to_read_is_an_error(served, open_stream):
    table = served.create(DAYS, rows=[(n, "a") for n in range(9)], partition_by="day", buckets=1)
    options = {"scan__partition__discovery__interval": "1 ms", "maxRowsPerTrigger": "5"}
    reader, lenient = (
        open_stream(table, **options),
        open_stream(table, **options, failOnDataLoss="false"),
    )
    _, end = read_on(reader, reader.initialOffset())
    read_on(lenient, lenient.initialOffset())

    table.drop_partition({"day": "a"})

    with pytest.raises(PartitionMissingError, match=r"day=a/0.*failOnDataLoss"):
        read_on(reader, end)
    assert read_on(lenient, end)[1]["offsets"] == {}


@pytest.mark.parametrize("key", [[], ["id", "day"]])
def test_a_partition_that_was_dropped_unread_is_an_error_unless_that_is_allowed(
    served, open_stream, key
):
    table = served.create(
        DAYS, rows=[(0, "a"), (1, "b")], primary_key=key, partition_by="day", buckets=1
    )
    reader = open_stream(table)
    lenient = open_stream(table, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())

    table.drop_partition({"day": "a"})

    with pytest.raises(PartitionMissingError, match="failOnDataLoss"):
        read_between(reader, start, end)
    assert ids(read_between(lenient, start, end)) == [1]


def test_a_partition_of_a_filter_is_read_alone(served, open_stream):
    table = served.create(DAYS, rows=[(0, "a"), (1, "b")], partition_by="day", buckets=1)

    named = open_stream(table, scan__partitions="day=a").initialOffset()
    filtered = open_stream(table, scan__filter='[["day", "==", "b"]]').initialOffset()

    assert list(named["offsets"]) == ["day=a/0"]
    assert list(filtered["offsets"]) == ["day=b/0"]


def test_a_micro_batch_is_planned_the_same_each_time(served, open_stream):
    table = served.create(LOG, rows=rows(0, 5000), bucket_by="id", buckets=4)
    options = {"scan__split__rows": "700"}
    start = open_stream(table, **options).initialOffset()
    end = open_stream(table, **options).latestOffset(start, ReadAllAvailable())

    first = open_stream(table, **options).partitions(start, end)
    table.append(rows(5000, 6000))
    again = open_stream(table, **options).partitions(start, end)

    assert [each.value for each in again] == [each.value for each in first]
    assert len(first) > 4


def test_a_table_that_was_created_anew_is_noticed(served, open_stream):
    table = served.create(LOG, rows=rows(0, 5), buckets=1)
    start = open_stream(table).initialOffset()
    served.client.drop_table(table.name)
    served.client.create_table(table.name, LOG, buckets=1)

    with pytest.raises(RequestError, match="recreated"):
        open_stream(table).latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("option", [{"scan__limit": "5"}, {"scan__timestamp-millis": "5"}])
def test_options_of_batches_are_refused_for_streams(served, open_stream, option):
    table = served.create(LOG, buckets=1)

    with pytest.raises(InvalidOptionError, match="is for batch reads"):
        open_stream(table, **option).initialOffset()


def test_a_bucket_that_there_is_not_cannot_be_started_in(served, open_stream):
    table = served.create(LOG, buckets=1)
    mode = {"scan__startup__mode": "offsets", "scan__startup__offsets": '{"7": 2}'}

    with pytest.raises(RequestError, match=r"no bucket 7 to start in\. Its buckets are 0"):
        open_stream(table, **mode).initialOffset()
