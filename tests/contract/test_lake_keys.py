"""Primary-key tables whose keys have the form of a lake format."""

import pytest

from headwater import errors

FORMATS = ("iceberg", "paimon")
KEYS = {"BIGINT": [1, -2, 2**40], "STRING": ["a", "longer than a slot", "ü"], "INT": [7, -7, 0]}


@pytest.fixture(params=FORMATS)
def lake(request) -> dict[str, str]:
    return {"table.datalake.format": request.param}


@pytest.mark.parametrize("key_type", KEYS)
def test_rows_are_upserted_found_and_deleted(client, name, lake, key_type):
    schema = {"id": key_type, "text": "STRING"}
    table = client.create_table(name, schema, primary_key="id", buckets=3, options=lake)
    first, second, third = KEYS[key_type]
    table.upsert([{"id": key, "text": "old"} for key in KEYS[key_type]])

    table.upsert({"id": second, "text": "new"})
    table.delete({"id": third})

    assert table.get({"id": first}) == {"id": first, "text": "old"}
    assert table.get({"id": second}) == {"id": second, "text": "new"}
    assert table.get({"id": third}) is None


def test_rows_are_scanned(client, name, lake):
    schema = {"id": "STRING", "number": "INT"}
    table = client.create_table(name, schema, primary_key="id", buckets=3, options=lake)
    table.upsert([{"id": f"number {number}", "number": number} for number in range(50)])
    table.delete([{"id": f"number {number}"} for number in range(10)])

    rows = table.scan().to_arrow()

    assert sorted(rows["number"].to_pylist()) == list(range(10, 50))


def test_many_rows_are_found_in_the_order_asked(client, name, lake):
    schema = {"id": "BIGINT", "text": "STRING"}
    table = client.create_table(name, schema, primary_key="id", buckets=3, options=lake)
    table.upsert([{"id": number, "text": str(number)} for number in range(500)])

    found = table.lookup([{"id": number} for number in range(499, -1, -1)])

    assert found["text"].to_pylist() == [str(number) for number in range(499, -1, -1)]


def test_rows_are_found_by_the_start_of_their_key(client, name, lake):
    table = client.create_table(
        name,
        {"customer": "INT", "order": "BIGINT", "amount": "DOUBLE"},
        primary_key=["customer", "order"],
        bucket_by="customer",
        buckets=3,
        options=lake,
    )
    table.upsert([{"customer": c, "order": o, "amount": 1.0} for c in (1, 2) for o in (1, 2)])

    found = table.prefix_lookup({"customer": 2})

    assert sorted(row["order"] for row in found.to_pylist()) == [1, 2]
    assert table.get({"customer": 1, "order": 2})["amount"] == 1.0


def test_missing_rows_are_inserted_with_their_key(client, name, lake):
    table = client.create_table(
        name,
        {"word": "STRING", "number": "BIGINT"},
        primary_key="word",
        auto_increment="number",
        options=lake,
    )

    found = table.lookup([{"word": "short"}, {"word": "a longer one"}], insert_missing=True)

    assert found["word"].to_pylist() == ["short", "a longer one"]
    assert len(set(found["number"].to_pylist())) == 2


def test_rows_of_partitions_are_found_by_their_key(client, name, lake):
    table = client.create_table(
        name,
        {"day": "STRING", "id": "INT", "text": "STRING"},
        primary_key=["day", "id"],
        partition_by="day",
        buckets=2,
        options=lake,
    )
    table.upsert([{"day": day, "id": 1, "text": day} for day in ("a", "b")])

    assert table.get({"day": "b", "id": 1})["text"] == "b"
    assert table.get({"day": "b", "id": 2}) is None


def test_a_paimon_table_may_have_several_bucket_keys(client, name):
    table = client.create_table(
        name,
        {"a": "INT", "b": "STRING", "amount": "DOUBLE"},
        primary_key=["a", "b"],
        buckets=3,
        options={"table.datalake.format": "paimon"},
    )
    table.upsert([{"a": number, "b": str(number), "amount": 0.5} for number in range(20)])

    assert table.get({"a": 7, "b": "7"}) == {"a": 7, "b": "7", "amount": 0.5}
    assert table.get({"a": 7, "b": "8"}) is None


def test_an_iceberg_table_with_several_bucket_keys_is_refused(backend, name):
    if backend.is_fluss:
        pytest.skip("Apache Fluss takes the table, and fails when rows are written.")

    with pytest.raises(errors.InvalidTableError, match="one bucket key"):
        backend.client.create_table(
            name,
            {"a": "INT", "b": "STRING"},
            primary_key=["a", "b"],
            options={"table.datalake.format": "iceberg"},
        )
