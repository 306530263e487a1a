"""Primary-key tables: upserted, looked up, deleted, scanned."""

import pyarrow as pa
import pytest

import headwater
from headwater import errors


def by_id(rows):
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def test_the_last_row_of_a_key_is_the_one_that_is_found(customers):
    customers.upsert([{"id": 1, "name": "Ada", "visits": 1}, {"id": 2, "name": "Alan"}])
    customers.upsert({"id": 1, "name": "Ada L.", "visits": 2})

    assert customers.get({"id": 1}) == {"id": 1, "name": "Ada L.", "visits": 2}
    assert customers.get({"id": 3}) is None
    assert customers.count() == 2


def test_many_keys_are_looked_up_at_once_in_the_order_asked(customers):
    customers.upsert([{"id": number, "visits": number * 10} for number in range(1000)])

    found = customers.lookup([{"id": 999}, {"id": -1}, {"id": 5}, {"id": 5}])

    assert found.column("visits").to_pylist() == [9990, 50, 50]


def test_missing_keys_are_kept_as_nulls_where_asked(customers):
    customers.upsert({"id": 1, "name": "Ada"})

    found = customers.lookup([{"id": 2}, {"id": 1}], keep_missing=True, columns=["name"])

    assert found.to_pylist() == [{"name": None}, {"name": "Ada"}]


def test_rows_kept_for_missing_keys_hold_the_keys_that_were_asked_for(customers):
    customers.upsert({"id": 1, "name": "Ada"})

    found = customers.lookup([2, 1, 3], keep_missing=True, columns=["name", "id"])

    assert found["id"].to_pylist() == [2, 1, 3]
    assert found["name"].to_pylist() == [None, "Ada", None]
    assert not found.schema.field("id").nullable


def test_deleted_rows_are_gone(customers):
    customers.upsert([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Alan"}])

    customers.delete([{"id": 1}, {"id": 77}])

    assert by_id(customers.scan()) == [{"id": 2, "name": "Alan", "visits": None}]
    assert customers.get({"id": 1}) is None


def test_a_partial_update_leaves_the_other_columns_alone(customers):
    customers.upsert({"id": 1, "name": "Ada", "visits": 1})

    customers.upsert({"id": 1, "visits": 2}, columns=["id", "visits"])

    assert customers.get({"id": 1}) == {"id": 1, "name": "Ada", "visits": 2}


def test_rows_that_share_the_bucket_key_are_found_by_it(client, name):
    table = client.create_table(
        name,
        {"customer": "INT", "order": "INT", "amount": "DOUBLE"},
        primary_key=["customer", "order"],
        bucket_by="customer",
        buckets=3,
    )
    table.upsert(
        [{"customer": c, "order": o, "amount": c + o / 10} for c in (1, 2) for o in (1, 2)]
    )

    found = table.prefix_lookup({"customer": 2})

    assert sorted(row["order"] for row in found.to_pylist()) == [1, 2]
    assert table.prefix_lookup({"customer": 9}).num_rows == 0


def test_a_scan_gives_every_row_once_as_it_is_now(customers):
    customers.upsert([{"id": number, "visits": 0} for number in range(2000)])
    customers.upsert([{"id": number, "visits": 1} for number in range(0, 2000, 2)])
    customers.delete([{"id": number} for number in range(0, 2000, 5)])

    rows = by_id(customers.scan())

    expected = [number for number in range(2000) if number % 5]
    assert [row["id"] for row in rows] == expected
    assert all(row["visits"] == (row["id"] + 1) % 2 for row in rows)


def test_a_scan_of_rows_takes_columns_filters_and_a_limit(customers):
    customers.upsert([{"id": number, "visits": number} for number in range(100)])

    scan = customers.scan(columns=["id"], where=[("visits", ">=", 97)])

    assert by_id(scan) == [{"id": 97}, {"id": 98}, {"id": 99}]
    assert customers.scan(limit=3).to_arrow().num_rows == 3


def test_a_tail_goes_on_exactly_where_a_scan_ended(customers):
    customers.upsert([{"id": number, "visits": 0} for number in range(50)])
    scan = customers.scan()
    assert scan.to_arrow().num_rows == 50

    customers.upsert({"id": 7, "visits": 1})
    with customers.tail(scan.offsets) as tail:
        rows = [row for batch in tail.poll(20.0) for row in batch.rows.to_pylist()]

    assert rows == [{"id": 7, "name": None, "visits": 0}, {"id": 7, "name": None, "visits": 1}]


def test_totals_are_kept_by_the_table(client, name):
    table = client.create_table(
        name,
        {"id": "INT", "total": "BIGINT", "best": "INT"},
        primary_key="id",
        options={
            "table.merge-engine": "aggregation",
            "fields.total.agg": "sum",
            "fields.best.agg": "max",
        },
    )

    table.upsert([{"id": 1, "total": 5, "best": 3}, {"id": 1, "total": 7, "best": 2}])

    assert table.get({"id": 1}) == {"id": 1, "total": 12, "best": 3}


def test_the_first_row_stays_where_the_table_says_so(client, name):
    table = client.create_table(
        name,
        {"id": "INT", "text": "STRING"},
        primary_key="id",
        options={"table.merge-engine": "first_row"},
    )

    table.upsert({"id": 1, "text": "first"})
    table.upsert({"id": 1, "text": "second"})

    assert table.get({"id": 1}) == {"id": 1, "text": "first"}


def test_numbers_are_given_to_rows_that_are_new(client, name):
    table = client.create_table(
        name, {"name": "STRING", "number": "BIGINT"}, primary_key="name", auto_increment="number"
    )

    found = table.lookup([{"name": "a"}, {"name": "b"}, {"name": "a"}], insert_missing=True)

    numbers = found.column("number").to_pylist()
    assert numbers[0] == numbers[2] != numbers[1]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [({"name": "nobody"}, "id"), ({"id": None}, "id"), ({"id": 1, "visits": "many"}, "visits")],
)
def test_rows_without_a_key_or_of_the_wrong_type_are_refused(customers, rows, fault):
    with pytest.raises(errors.RequestError, match=fault):
        customers.upsert(rows)

    assert customers.count() == 0


def test_appending_to_a_primary_key_table_is_refused(customers):
    with pytest.raises(errors.RequestError, match="upsert"):
        customers.append({"id": 1})


def test_a_lookup_without_the_whole_key_is_refused(client, name):
    table = client.create_table(name, {"a": "INT", "b": "INT"}, primary_key=["a", "b"])

    with pytest.raises(headwater.HeadwaterError, match="b"):
        table.lookup({"a": 1})


def test_deletes_are_refused_where_the_table_refuses_them(client, name):
    table = client.create_table(
        name, {"id": "INT"}, primary_key="id", options={"table.delete.behavior": "disable"}
    )
    table.upsert({"id": 1})

    with pytest.raises(errors.DeletionDisabledError):
        table.delete({"id": 1})

    assert table.get({"id": 1}) == {"id": 1}


def test_a_writer_upserts_and_deletes_in_order(customers):
    with customers.writer() as writer:
        for number in range(300):
            writer.write({"id": number % 10, "visits": number})
        writer.delete({"id": 3})

    rows = by_id(customers.scan())
    assert [row["id"] for row in rows] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [row["visits"] for row in rows] == [290, 291, 292, 294, 295, 296, 297, 298, 299]


def test_arrow_goes_in_and_out(customers):
    rows = pa.table({"id": pa.array([3, 1, 2]), "visits": pa.array([30, 10, 20], pa.int32())})

    customers.upsert(rows)

    found = customers.lookup(rows.select(["id"]), columns=["id", "visits"])
    assert found.to_pylist() == rows.to_pylist()
