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


def test_a_key_of_one_column_is_given_as_it_is(customers):
    customers.upsert([(number, "Ada", number) for number in range(5)])

    assert customers.get(3) == {"id": 3, "name": "Ada", "visits": 3}
    assert customers.lookup([4, 2], columns="visits")["visits"].to_pylist() == [4, 2]
    assert customers.prefix_lookup(1).num_rows == 1
    assert customers.delete([0, 1]).rows == 2
    with customers.writer() as writer:
        writer.delete(2)
    assert customers.count() == 2


def test_a_key_of_several_columns_is_a_tuple_or_a_mapping(client, name):
    table = client.create_table(name, {"a": "INT", "b": "STRING"}, primary_key=["a", "b"])
    table.upsert([(1, "x"), (2, "y")])

    assert table.get((1, "x")) == table.get({"b": "x", "a": 1}) == {"a": 1, "b": "x"}
    assert table.lookup([(2, "y")]).num_rows == 1
    with pytest.raises(errors.InvalidValueError, match="key has the columns a, b"):
        table.get(1)


def test_no_keys_find_no_rows(customers):
    customers.upsert((1, "Ada", 1) for _ in range(1))

    assert customers.lookup([]).num_rows == 0
    assert customers.lookup([], keep_missing=True).schema.names == customers.schema.names
    assert customers.prefix_lookup([]).num_rows == 0
    assert customers.delete([]).rows == 0
