"""Log tables: appended, scanned, counted."""

import pandas as pd
import pyarrow as pa
import pytest

from headwater import errors


def by_id(scan):
    return sorted(scan.to_pylist(), key=lambda row: row["id"])


def numbered(count):
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "city": [f"city {number % 7}" for number in range(count)],
            "amount": [number / 4 for number in range(count)],
        }
    )


def test_what_is_appended_is_scanned(orders):
    receipt = orders.append(numbered(1000))

    assert receipt.rows == 1000
    assert sum(bucket.rows for bucket in receipt.buckets) == 1000
    assert orders.scan().to_arrow().sort_by("id") == numbered(1000).cast(orders.schema)
    assert orders.count() == 1000


def test_rows_come_as_dictionaries_tuples_pandas_and_arrow(orders):
    orders.append({"id": 1, "city": "Ulm", "amount": 1.0})
    orders.append([{"id": 2, "city": None}, {"id": 3}])
    orders.append([(4, "Bonn", 4.0)])
    orders.append(pd.DataFrame({"id": [5], "city": ["Kiel"], "amount": [5.0]}))
    orders.append(numbered(7).slice(6).to_batches()[0])

    rows = by_id(orders.scan())

    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[1] == {"id": 2, "city": None, "amount": None}
    assert rows[4] == {"id": 5, "city": "Kiel", "amount": 5.0}


def test_rows_with_one_key_keep_their_order_in_one_bucket(orders):
    for amount in range(20):
        orders.append({"id": 7, "amount": float(amount)})

    amounts = [row["amount"] for row in orders.scan().to_pylist()]

    assert amounts == [float(amount) for amount in range(20)]


def test_a_scan_reads_the_columns_that_are_asked_for(orders):
    orders.append(numbered(10))

    scan = orders.scan(columns=["amount", "id"])

    assert scan.schema.names == ["amount", "id"]
    assert by_id(scan)[3] == {"amount": 0.75, "id": 3}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([("id", ">=", 95)], [95, 96, 97, 98, 99]),
        ([("id", "<", 50), ("city", "==", "city 3"), ("amount", ">", 9.0)], [38, 45]),
        ([("id", "in", [3, 5, 1000])], [3, 5]),
        ([[("id", "=", 1)], [("city", "=", "city 2"), ("id", "<", 10)]], [1, 2, 9]),
        ([("city", "is null")], []),
    ],
)
def test_a_scan_gives_the_rows_that_fit_a_filter(orders, where, expected):
    orders.append(numbered(100))

    rows = by_id(orders.scan(columns=["id"], where=where))

    assert [row["id"] for row in rows] == expected


def test_a_limit_ends_a_scan(orders):
    orders.append(numbered(100))

    assert orders.scan(limit=7).to_arrow().num_rows == 7
    assert orders.scan(limit=0).to_arrow().num_rows == 0
    assert orders.scan(limit=1000).to_arrow().num_rows == 100


def test_a_scan_between_offsets_is_exact(client, name):
    table = client.create_table(name, {"id": "BIGINT"})
    for start in range(0, 100, 10):
        table.append([{"id": number} for number in range(start, start + 10)])

    ids = [row["id"] for row in table.scan(start={0: 15}, end={0: 42}).to_pylist()]

    assert ids == list(range(15, 42))


def test_an_empty_table_gives_no_rows_but_its_schema(orders):
    table = orders.scan().to_arrow()

    assert (table.num_rows, table.schema) == (0, orders.schema)


def test_a_scan_does_not_see_what_is_appended_after_it_began(orders):
    orders.append(numbered(10))
    batches = iter(orders.scan())
    first = next(batches)

    orders.append(numbered(10))

    assert first.num_rows + sum(batch.num_rows for batch in batches) == 10


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({"id": 1, "town": "Ulm"}, "town"),
        ({"id": "one"}, "id"),
        ({"id": 2**63}, "id"),
        ([{"id": 1}, {"id": 1.5}], "id"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(orders, rows, fault):
    with pytest.raises(errors.RequestError, match=fault):
        orders.append(rows)

    assert orders.count() == 0


def test_a_bad_row_behind_many_good_ones_changes_nothing(orders):
    rows = [{"id": number} for number in range(70_000)]

    with pytest.raises(errors.RequestError, match="id"):
        orders.append([*rows, {"id": "last"}])
    with orders.writer() as writer, pytest.raises(errors.RequestError, match="id"):
        writer.write([*rows, {"id": "last"}])

    assert orders.count() == 0


def test_key_operations_on_a_log_table_are_refused(orders):
    for operation in (orders.upsert, orders.delete, orders.lookup):
        with pytest.raises(errors.NotPrimaryKeyTableError):
            operation({"id": 1})


def test_a_writer_takes_many_small_pieces(orders):
    with orders.writer() as writer:
        for number in range(500):
            writer.write({"id": number, "amount": float(number)})

    assert [row["id"] for row in by_id(orders.scan())] == list(range(500))


def test_a_table_without_a_bucket_key_spreads_its_rows(client, name):
    table = client.create_table(name, {"id": "BIGINT"}, buckets=4)

    for number in range(40):
        table.append({"id": number})

    assert [row["id"] for row in by_id(table.scan())] == list(range(40))
    assert sum(end > 0 for end in table.offsets("latest").values()) > 1
