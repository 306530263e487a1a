"""Following a table: from the start, the end, an offset, a moment."""

from datetime import UTC, datetime, timedelta

import pytest

import headwater
from headwater import errors

PATIENCE_S = 30.0


def read(tail, count):
    """Poll until so many rows have come."""
    rows = []
    while len(rows) < count:
        batches = tail.poll(PATIENCE_S)
        assert batches, f"only {len(rows)} of {count} rows came"
        rows += [row for batch in batches for row in batch.rows.to_pylist()]
    return rows


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_a_tail_from_the_start_sees_what_was_and_what_comes(orders):
    orders.append([{"id": 1}, {"id": 2}])

    with orders.tail("earliest") as tail:
        assert ids(read(tail, 2)) == [1, 2]
        orders.append({"id": 3})
        assert ids(read(tail, 1)) == [3]


def test_a_tail_from_the_end_sees_only_what_comes(orders):
    orders.append([{"id": 1}, {"id": 2}])

    with orders.tail("latest") as tail:
        assert tail.poll(0.0) == []
        orders.append({"id": 3})
        assert ids(read(tail, 1)) == [3]


def test_a_tail_from_offsets_begins_there(client, name):
    table = client.create_table(name, {"id": "BIGINT"})
    table.append([{"id": number} for number in range(10)])

    with table.tail({0: 6}) as tail:
        assert ids(read(tail, 4)) == [6, 7, 8, 9]
        assert list(tail.position.values()) == [10]


def test_a_tail_from_a_moment_begins_with_the_first_batch_after_it(client, name):
    table = client.create_table(name, {"id": "BIGINT"})
    table.append({"id": 1})
    with table.tail("earliest") as tail:
        [batch] = tail.poll(PATIENCE_S)
    moment = datetime.fromtimestamp(batch.timestamp_ms / 1000, UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) <= moment:
        pass
    table.append({"id": 2})

    with table.tail(moment) as tail:
        assert ids(read(tail, 1)) == [2]


def test_a_moment_without_a_time_zone_is_refused(orders):
    with pytest.raises(errors.RequestError, match="time zone"):
        orders.tail(datetime(2026, 1, 1))


def test_a_poll_of_a_quiet_table_ends_in_time(orders):
    with orders.tail("earliest") as tail:
        assert tail.poll(0.05) == []


def test_an_offset_past_the_end_is_told(client, name):
    table = client.create_table(name, {"id": "BIGINT"})

    with (
        pytest.raises(errors.OffsetOutOfRangeError, match="17"),
        table.tail({0: 17}) as tail,
    ):
        tail.poll(PATIENCE_S)


def test_a_tail_reads_the_columns_and_rows_that_are_asked_for(orders):
    orders.append([{"id": number, "amount": number / 2} for number in range(10)])

    with orders.tail("earliest", columns=["id"], where=[("amount", ">=", 4.0)]) as tail:
        rows = read(tail, 2)

    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 8}, {"id": 9}]


def test_every_row_comes_with_its_offset_and_time(client, name):
    table = client.create_table(name, {"id": "BIGINT"})
    table.append([{"id": 1}, {"id": 2}, {"id": 3}])

    with table.tail("earliest") as tail:
        [batch] = tail.poll(PATIENCE_S)

    assert batch.offsets.tolist() == [0, 1, 2]
    assert batch.timestamp_ms > 0
    assert batch.changes is None


def test_a_tail_of_a_primary_key_table_gives_its_changes(customers):
    customers.upsert({"id": 1, "name": "Ada"})
    customers.upsert({"id": 1, "name": "Ada L."})
    customers.delete({"id": 1})

    with customers.tail("earliest") as tail:
        changes = []
        while len(changes) < 4:
            for batch in tail.poll(PATIENCE_S):
                names = batch.rows.column("name").to_pylist()
                changes += zip(map(headwater.ChangeType, batch.changes), names, strict=True)

    kinds = headwater.ChangeType
    assert changes == [
        (kinds.INSERT, "Ada"),
        (kinds.UPDATE_BEFORE, "Ada"),
        (kinds.UPDATE_AFTER, "Ada L."),
        (kinds.DELETE, "Ada L."),
    ]


def test_offsets_tell_where_buckets_begin_and_end(client, name):
    table = client.create_table(name, {"id": "BIGINT"})
    table.append([{"id": number} for number in range(5)])

    assert list(table.offsets("earliest").values()) == [0]
    assert list(table.offsets("latest").values()) == [5]
