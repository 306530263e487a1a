"""Databases and tables: made, listed, described, changed, dropped."""

import pyarrow as pa
import pytest

import headwater
from headwater import errors


def test_a_database_is_made_listed_and_dropped(client, name):
    client.create_database(name)

    assert name in client.list_databases()
    client.drop_database(name)
    assert name not in client.list_databases()


def test_a_database_that_is_there_already_is_no_fault_if_that_is_fine(client, name):
    client.create_database(name)

    client.create_database(name, exists_ok=True)

    with pytest.raises(errors.DatabaseExistsError):
        client.create_database(name)


def test_a_database_with_tables_is_dropped_only_with_them(client, name):
    client.create_database(name)
    client.create_table(f"{name}.t", {"id": "INT"})

    with pytest.raises(errors.DatabaseNotEmptyError):
        client.drop_database(name)

    client.drop_database(name, cascade=True)
    assert name not in client.list_databases()


def test_a_missing_database_is_told(client, name):
    with pytest.raises(errors.DatabaseMissingError):
        client.create_table(f"{name}.t", {"id": "INT"})
    with pytest.raises(errors.DatabaseMissingError):
        client.drop_database(name)
    client.drop_database(name, missing_ok=True)


def test_a_table_is_made_from_an_arrow_schema_and_found_again(client, name):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])

    client.create_table(name, schema, buckets=3, comment="of letters")

    table = client.table(name)
    assert table.schema == schema
    assert (table.info.bucket_count, table.info.descriptor.comment) == (3, "of letters")
    assert name in client.list_tables()
    assert client.table_exists(name)


def test_a_primary_key_makes_its_columns_not_null(client, name):
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])

    table = client.create_table(name, schema, primary_key="id")

    assert table.is_keyed
    assert not table.schema.field("id").nullable


def test_no_primary_key_may_be_said_with_none(client, name):
    table = client.create_table(name, {"id": "INT"}, primary_key=None)

    assert not table.is_keyed


def test_a_missing_table_is_told(client, name):
    with pytest.raises(errors.TableMissingError, match=name):
        client.table(name)
    with pytest.raises(errors.TableMissingError):
        client.drop_table(name)
    client.drop_table(name, missing_ok=True)
    assert not client.table_exists(name)


def test_a_missing_table_tells_of_those_with_like_names(client, name):
    client.create_table(f"{name}_orders", {"id": "INT"})

    with pytest.raises(errors.TableMissingError, match=f"{name}_ordrs.*Did you mean") as caught:
        client.table(f"{name}_ordrs$changelog")

    assert f"{name}_orders" in caught.value.hint


def test_a_table_of_a_missing_database_tells_of_those_there_are(client, name):
    with pytest.raises(errors.MissingError, match=f"There is no database '{name}'"):
        client.table(f"{name}.orders")


def test_a_table_that_is_there_already_is_returned_if_that_is_fine(client, name):
    first = client.create_table(name, {"id": "INT"})

    again = client.create_table(name, {"id": "INT"}, exists_ok=True)

    assert again.info.table_id == first.info.table_id
    with pytest.raises(errors.TableExistsError):
        client.create_table(name, {"id": "INT"})


def test_a_dropped_table_is_gone(client, orders, name):
    client.drop_table(name)

    assert not client.table_exists(name)
    assert name not in client.list_tables()


def test_a_new_column_is_null_in_older_rows(client, orders):
    orders.append({"id": 1, "city": "Ulm", "amount": 1.5})

    orders.add_column("tip", "DOUBLE")
    orders.append({"id": 2, "city": "Ulm", "amount": 2.5, "tip": 0.5})

    rows = sorted(orders.scan(columns=["id", "tip"]).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "tip": None}, {"id": 2, "tip": 0.5}]


def test_columns_are_dropped_and_renamed_where_the_storage_can(backend, orders):
    orders.append({"id": 1, "city": "Ulm", "amount": 1.5})
    if backend.is_fluss:
        with pytest.raises(headwater.HeadwaterError, match=r"(?i)column"):
            orders.rename_column("city", "town")
        return

    orders.rename_column("city", "town")
    orders.drop_column("amount")

    assert orders.scan().to_pylist() == [{"id": 1, "town": "Ulm"}]


def test_options_are_set_and_taken_back(client, orders, name):
    orders.set_options({"owner": "ada"})
    assert client.table(name).info.descriptor.custom_properties["owner"] == "ada"

    orders.reset_options(["owner"])
    assert "owner" not in client.table(name).info.descriptor.custom_properties


def test_an_option_that_cannot_be_changed_says_so(orders):
    with pytest.raises(errors.InvalidAlterError, match=r"table\.log\.format"):
        orders.set_options({"table.log.format": "indexed"})


@pytest.mark.parametrize(
    ("traits", "fault"),
    [
        ({"primary_key": "nobody"}, "nobody"),
        ({"partition_by": "nobody"}, "nobody"),
        ({"buckets": 0}, "bucket"),
        ({"options": {"table.log.ttl": "soon"}}, "ttl"),
        ({"options": {"table.nonsense": "1"}}, "nonsense"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_and_not_made(client, name, traits, fault):
    with pytest.raises(headwater.HeadwaterError, match=fault):
        client.create_table(name, {"id": "INT"}, **traits)

    assert not client.table_exists(name)
