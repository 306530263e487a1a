"""Streams that begin with lake and log as one, and go on with the log."""

import json

import pytest

from headwater.errors import InvalidOptionError
from tests.engines.spark.lakes import expire, lake_table, rows, tier
from tests.engines.spark.reading.reader_run import (
    read_between,
    read_on,
    read_up,
    stream_reader,
)


def ids(table) -> list[int]:
    return sorted(table["id"].to_pylist()) if table.num_rows else []


@pytest.fixture(params=[(), "id"], ids=["log", "by key"])
def table(request, served):
    """Have a table with rows 0 to 5 in the lake and 5 to 8 in the log."""
    traits = {"primary_key": request.param} if request.param else {}
    table = lake_table(served, rows=rows(0, 5), **traits)
    tier(served, table)
    write(table, rows(5, 8))
    return table


def write(table, new) -> None:
    (table.upsert if table.is_keyed else table.append)(new)


def test_the_first_micro_batch_has_all_rows_and_the_next_what_is_new(served, table):
    reader = stream_reader(table, served.address)
    first, end = read_on(reader, reader.initialOffset())
    write(table, rows(8, 10))

    later, last = read_on(reader, end)

    assert ids(first) == list(range(8))
    assert ids(later) == [8, 9]
    assert reader.latestOffset(last, reader.getDefaultReadLimit()) == last


def test_a_checkpoint_says_where_the_view_ends_and_how_to_read_it_again(served, table):
    reader = stream_reader(table, served.address)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    assert json.loads(json.dumps(start))["view"] == "next"
    assert sum(end["offsets"].values()) == 8
    assert end["view"]["snapshot"] == table.view().value.snapshot.snapshot_id
    assert end["view"]["token"] == table.view().token()


def test_a_first_micro_batch_that_is_run_again_reads_the_same(served, table):
    reader = stream_reader(table, served.address)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    write(table, rows(8, 10))
    tier(served, table)

    again = stream_reader(table, served.address)
    first = read_between(again, again.initialOffset(), end)

    assert ids(first) == list(range(8))
    assert [ids(batch) for batch in read_up(again, end)[0]] == [[8, 9]]


def test_a_stream_whose_offset_was_not_noted_begins_anew_with_what_there_is(served, table):
    lost = stream_reader(table, served.address)
    lost.latestOffset(lost.initialOffset(), lost.getDefaultReadLimit())
    write(table, rows(8, 10))
    tier(served, table)

    again = stream_reader(table, served.address)
    batches, _ = read_up(again, again.initialOffset())

    assert [ids(batch) for batch in batches] == [list(range(10))]


def test_a_stream_goes_on_with_the_log_whatever_became_of_the_snapshot(served, table):
    reader = stream_reader(table, served.address)
    _, end = read_on(reader, reader.initialOffset())
    for number in (8, 9):
        write(table, rows(number, number + 1))
        tier(served, table)
    expire(table)

    again = stream_reader(table, served.address)

    assert [ids(batch) for batch in read_up(again, end)[0]] == [[8, 9]]


def test_a_first_micro_batch_that_is_run_again_has_nulls_in_columns_that_came_since(served, table):
    reader = stream_reader(table, served.address)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    table.add_column("more", "INT")
    write(table, [{"id": 8, "name": "n8", "more": 1}])

    again = stream_reader(table, served.address)
    first = read_between(again, again.initialOffset(), end)
    (later,), _ = read_up(again, end)

    assert (ids(first), first["more"].null_count) == (list(range(8)), 8)
    assert later.to_pylist() == [{"id": 8, "name": "n8", "more": 1}]


def test_limits_hold_once_the_view_is_read(served, table):
    reader = stream_reader(table, served.address, maxRowsPerTrigger="2")
    write(table, rows(8, 9))
    first, end = read_on(reader, reader.initialOffset())
    write(table, rows(9, 14))

    sizes = [len(ids(batch)) for batch in read_up(reader, end)[0]]

    assert ids(first) == list(range(9))
    assert sizes == [2, 2, 1]


def test_a_stream_that_was_begun_before_there_was_a_lake_goes_on(served):
    plain = served.create({"id": "BIGINT", "name": "STRING"}, rows=rows(0, 3), buckets=1)
    reader = stream_reader(plain, served.address)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    plain.set_options({"table.datalake.enabled": True})
    plain.append(rows(3, 5))

    again = stream_reader(plain, served.address)

    assert ids(read_between(again, again.initialOffset(), end)) == [0, 1, 2]
    assert [ids(batch) for batch in read_up(again, end)[0]] == [[3, 4]]


def test_rows_by_key_that_were_never_tiered_are_read_whatever_their_log_tells(served):
    wal = {"table.changelog.image": "wal"}
    table = lake_table(served, rows=rows(0, 3), primary_key="id", options=wal)
    reader = stream_reader(table, served.address)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    again = stream_reader(table, served.address)

    assert "view" not in end
    assert ids(read_between(again, again.initialOffset(), end)) == [0, 1, 2]
    assert read_up(again, end)[0] == []


def test_a_position_is_for_batches(served, table):
    reader = stream_reader(table, served.address, scan__token="hw1.a")

    with pytest.raises(InvalidOptionError, match=r"scan\.token.*is for batch reads"):
        reader.initialOffset()
