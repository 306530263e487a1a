"""What callers may write: single names, keys of one column, columns of all kinds."""

import pytest

from headwater import errors


def test_a_single_column_is_given_by_its_name(customers):
    customers.upsert({"id": 1, "name": "Ada", "visits": 1})

    assert customers.scan(columns="name").to_pylist() == [{"name": "Ada"}]
    assert customers.lookup({"id": 1}, columns="visits").to_pylist() == [{"visits": 1}]
    with pytest.raises(errors.InvalidTargetColumnError, match="key"):
        customers.upsert({"name": "Alan"}, columns="name")


def test_a_single_column_is_followed_by_its_name(customers, client):
    customers.upsert({"id": 1, "name": "Ada", "visits": 1})
    changelog = client.table(f"{customers.path}$changelog")

    for followed in (customers, changelog):
        with followed.tail(columns="name") as tail:
            (batch,) = tail.poll(20.0)
        assert batch.rows.to_pylist() == [{"name": "Ada"}]
    with customers.cursor("names", columns="name") as cursor:
        assert [each.rows.to_pylist() for each in cursor.poll(20.0)] == [[{"name": "Ada"}]]
