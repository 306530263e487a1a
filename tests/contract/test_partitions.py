"""Partitioned tables: made by hand, made by writing, read, dropped."""

from datetime import date

import pytest

from headwater import errors


@pytest.fixture
def events(client, name):
    schema = {"day": "STRING", "id": "BIGINT"}
    return client.create_table(name, schema, partition_by="day", bucket_by="id", buckets=2)


def ids(scan):
    return sorted(row["id"] for row in scan.to_pylist())


def test_partitions_are_made_listed_and_dropped(events):
    events.create_partition({"day": "monday"})
    events.create_partition({"day": "tuesday"})
    events.create_partition({"day": "tuesday"}, exists_ok=True)

    events.drop_partition({"day": "monday"})

    assert events.partitions() == [{"day": "tuesday"}]
    with pytest.raises(errors.PartitionExistsError):
        events.create_partition({"day": "tuesday"})
    with pytest.raises(errors.PartitionMissingError):
        events.drop_partition({"day": "monday"})
    events.drop_partition({"day": "monday"}, missing_ok=True)


def test_rows_make_the_partitions_that_they_need(events):
    receipt = events.append([{"day": f"d{number % 3}", "id": number} for number in range(30)])

    assert receipt.rows == 30
    assert sorted(each["day"] for each in events.partitions()) == ["d0", "d1", "d2"]
    assert ids(events.scan()) == list(range(30))
    assert events.count() == 30


def test_a_scan_reads_the_partitions_that_are_asked_for(events):
    events.append([{"day": f"d{number % 3}", "id": number} for number in range(30)])

    assert ids(events.scan(partitions=[{"day": "d1"}])) == list(range(1, 30, 3))


def test_a_tail_finds_partitions_that_come_later(events):
    events.append({"day": "d0", "id": 0})

    with events.tail("earliest", discovery_s=0.1) as tail:
        seen = [row["id"] for batch in tail.poll(30.0) for row in batch.rows.to_pylist()]
        events.append({"day": "d1", "id": 1})
        while len(seen) < 2:
            batches = tail.poll(30.0)
            assert batches
            seen += [row["id"] for batch in batches for row in batch.rows.to_pylist()]

    assert seen == [0, 1]


def test_keys_are_looked_up_in_their_partition(client, name):
    table = client.create_table(
        name,
        {"day": "STRING", "id": "INT", "text": "STRING"},
        primary_key=["day", "id"],
        partition_by="day",
    )
    table.upsert([{"day": "d0", "id": 1, "text": "a"}, {"day": "d1", "id": 1, "text": "b"}])

    assert table.get({"day": "d1", "id": 1}) == {"day": "d1", "id": 1, "text": "b"}
    assert table.get({"day": "d9", "id": 1}) is None
    table.delete({"day": "d0", "id": 1})
    assert [row["text"] for row in table.scan().to_pylist()] == ["b"]


def test_a_partition_of_a_table_without_partitions_is_refused(orders):
    with pytest.raises(errors.NotPartitionedError):
        orders.create_partition({"day": "monday"})


def test_a_row_without_its_partition_is_refused(events):
    with pytest.raises(errors.RequestError, match="day"):
        events.append({"id": 1})


def test_a_filter_on_the_partition_column_reads_only_what_it_must(events):
    events.append([{"day": f"d{number % 3}", "id": number} for number in range(30)])
    where = [("day", "in", ["d1", "d7"]), ("id", ">", 10)]

    scan = events.scan(where=where)

    assert ids(scan) == [13, 16, 19, 22, 25, 28]
    assert scan.offsets == events.offsets("latest")
    with events.tail(scan.offsets, where=where) as tail:
        assert {place.partition for place in tail.position} == {"d1"}


def test_a_filtered_scan_of_keys_tells_where_a_tail_goes_on_in_all_partitions(client, name):
    schema = {"day": "DATE", "id": "INT"}
    table = client.create_table(
        name, schema, primary_key=["day", "id"], partition_by="day", buckets=1
    )
    days = [date(2024, 5, number) for number in (1, 2, 3)]
    table.upsert([(day, number) for number, day in enumerate(days)])

    scan = table.scan(where=("day", ">", days[1]))

    assert scan.to_pylist() == [{"day": days[2], "id": 2}]
    assert scan.offsets == table.offsets("latest")
